"""The destinations of the departures board."""

from __future__ import annotations

FLIGHTS = "VirtualTopic.flights"
BOARD = "flights.delays"
CANCELLED = "flights.cancelled"
ALERTS = "flights.alerts"
ARCHIVE = "archive"
BATCH = 1000
"""Maximum number of messages in a batch of the pipeline `delays`."""


def queue_of(pipeline: str) -> str:
    """Return the queue through which a pipeline reads the virtual topic."""
    return f"Consumer.{pipeline}.{FLIGHTS}"


def dead_letters_of(pipeline: str) -> str:
    """Return the queue of the messages that a pipeline cannot read."""
    return f"flights.invalid.{pipeline}"
