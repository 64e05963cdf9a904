"""Listener containers: messages in, handlers called, transactions ended."""
