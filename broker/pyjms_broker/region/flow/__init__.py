"""Limits of memory and disk space, and the sends that wait for space."""
