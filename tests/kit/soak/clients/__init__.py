"""The well-behaved clients of a soak."""
