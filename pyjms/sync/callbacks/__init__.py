"""Application callbacks, called in threads by the blocking API, so that they may block."""
