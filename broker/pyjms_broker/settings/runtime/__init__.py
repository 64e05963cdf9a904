"""Detect changes of a running broker's configuration file, and apply them."""
