"""Destinations and subscriptions: messages from arrival to acknowledgement."""
