"""Policies: settings by destination, and the strategies that they use."""
