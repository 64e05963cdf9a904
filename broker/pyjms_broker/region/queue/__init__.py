"""Queues: contents, dispatcher, consumers, browsers, message groups."""
