"""Listener containers and annotated listeners in tests."""
