"""Decorators and markers for handlers: their destinations, their parameters, their replies."""
