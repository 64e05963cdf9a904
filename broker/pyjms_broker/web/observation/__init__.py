"""What shows how the broker is doing: metrics and events."""
