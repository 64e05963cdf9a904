"""Audit: what a broker's own journal says became of every message, and replay of one hour."""
