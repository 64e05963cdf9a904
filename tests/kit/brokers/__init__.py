"""Brokers that tests start, attack, connect to each other and compare."""
