"""Demand of a remote broker's consumers, and the local subscriptions that serve it."""
