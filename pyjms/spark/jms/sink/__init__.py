"""Rows to messages, and three promises about how often each arrives."""
