"""Alerts: a listener beside the pipelines that reports flights with long delays at once."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator

from anyio.from_thread import start_blocking_portal

from examples.board.names import ALERTS, queue_of
from examples.board.records import Departure
from pyjms import JmsApplication, jms_listener, send_to
from pyjms.settings import PyjmsSettings

__all__ = ["LATE", "is_late", "listening"]

LATE = 180
"""Delay in minutes from which on a flight is reported."""


def is_late(flight: Departure) -> bool:
    return flight.dep_delay is not None and flight.dep_delay >= LATE


@jms_listener(queue_of("alerts"), id="alerts", concurrency="1-3")
@send_to(ALERTS)
def alert(flight: Departure) -> Departure | None:
    """Forward flights with long delays; a message that is not a flight becomes a dead letter."""
    return flight if is_late(flight) else None


@contextlib.contextmanager
def listening(url: str) -> Iterator[None]:
    """Run the listener during the block."""
    logging.getLogger("pyjms.client.refusals").setLevel(logging.ERROR)  # some messages are broken
    settings = PyjmsSettings.model_validate({"activemq": {"broker_url": url}})
    app = JmsApplication(sys.modules[__name__], settings=settings)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(app):
        yield
