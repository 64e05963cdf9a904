"""The test kit: the real broker in memory, a virtual clock, pytest fixtures."""
