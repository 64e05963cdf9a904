"""The source for any broker: messages are in files before they are acknowledged."""
