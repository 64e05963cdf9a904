"""Bringing the index up to date with the journal when a store is opened."""
