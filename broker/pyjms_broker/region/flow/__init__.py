"""Limits of memory and disk space, and sends that wait for space."""
