"""Audit: the fate of every message according to a broker's journal, and replay of one hour."""
