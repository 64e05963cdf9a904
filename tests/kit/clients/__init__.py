"""Clients of brokers in memory, scripted and remote ones, and a JMS provider that is a test double."""
