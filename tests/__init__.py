"""The tests of pyjms and its broker. `tests.kit` holds the fixtures and doubles they share."""
