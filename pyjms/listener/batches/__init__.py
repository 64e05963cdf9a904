"""Batch listeners: several messages for each call of a handler, in one transaction."""
