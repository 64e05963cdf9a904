"""Destinations and subscriptions: messages from their arrival to their acknowledgement."""
