"""Idempotent handlers: keys, the stores that remember them, and the calls of handlers."""
