"""Idempotent handlers: keys, what remembers them, and the calls that they guard."""
