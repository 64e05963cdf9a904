"""Objects of applications that the blocking API calls in threads, so that they may block."""
