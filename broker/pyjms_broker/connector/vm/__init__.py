"""Clients in the broker's process: `vm://name`."""
