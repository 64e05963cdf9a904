"""Transactions: local ones of a connection, XA ones of the broker, the filter that keeps them."""
