"""Filters of the broker: what happens to a message between its connection and its destination."""
