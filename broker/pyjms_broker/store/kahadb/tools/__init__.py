"""Offline tools for a journal directory; only `rebuilding` writes to it."""
