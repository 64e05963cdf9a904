"""The format `jms`: destinations as stream and batch sources, and as sinks."""
