"""The transactions of the blocking API: managers, and XA."""
