"""The test kit: the real broker in memory, a clock that tests turn, fixtures for pytest."""
