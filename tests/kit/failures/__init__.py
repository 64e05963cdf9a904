"""Connections and transfers that are cut on purpose, and the account of lost messages."""
