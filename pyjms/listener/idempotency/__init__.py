"""Idempotent handlers: idempotency keys, their stores, and the calls of handlers."""
