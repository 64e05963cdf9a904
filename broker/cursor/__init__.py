"""The messages that wait in a destination, in their order."""
