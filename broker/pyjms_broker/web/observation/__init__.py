"""Monitoring of the broker: metrics and events."""
