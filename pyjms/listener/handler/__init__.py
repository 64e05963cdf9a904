"""Calling a listener with a message: argument resolution, handler threads, replies."""
