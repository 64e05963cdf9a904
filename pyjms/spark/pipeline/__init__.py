"""Pipelines: functions and SQL from messages to messages, and what runs them."""
