"""Batch listeners: each call of a handler gets several messages, in one transaction."""
