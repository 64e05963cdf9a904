"""Runnable programs, one idea each."""
