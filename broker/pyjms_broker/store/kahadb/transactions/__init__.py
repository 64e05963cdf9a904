"""Transactions of a KahaDB store, from their first operation to commit or rollback."""
