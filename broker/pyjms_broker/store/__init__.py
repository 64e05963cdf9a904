"""Where messages are kept: the adapter interface and its implementations."""
