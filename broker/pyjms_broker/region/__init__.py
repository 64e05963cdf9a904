"""Destinations and subscriptions: a message's way from arrival to acknowledgement."""
