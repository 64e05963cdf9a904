"""The tests; `tests.kit` is their library."""
