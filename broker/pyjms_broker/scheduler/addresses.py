"""The queues by which the broker talks with itself: nothing goes there later, or as an answer.

Whoever is told to send there would do it in the broker's name: what comes to `PyJMS.Scheduled`
otherwise than as an order never leaves, and a lease would be nobody's.
"""

from __future__ import annotations

from typing import Final

from pyjms.errors import IllegalStateException
from pyjms.jms.destination import Destination
from pyjms.jms.destination import Queue as QueueDestination
from pyjms_broker.ranges.leases import RANGES
from pyjms_broker.ranges.progress import PROGRESS_RECORDS

__all__ = ["SCHEDULED", "check_source", "check_target"]

SCHEDULED: Final = QueueDestination("PyJMS.Scheduled")
_BEGINNING: Final = "PyJMS."
_OWN: Final = (SCHEDULED, RANGES, PROGRESS_RECORDS)


def check_source(destination: Destination) -> None:
    """Refuse what a client sends to the queue where orders come in, alone or among others.

    Raises:
        IllegalStateException: it does.
    """
    if SCHEDULED in _named(destination):
        raise IllegalStateException(
            f"{SCHEDULED} is what the scheduler takes in",
            hint="send to the destination itself, with AMQ_SCHEDULED_DELAY",
        )


def check_target(destination: Destination) -> None:
    """Refuse what would be sent to one of these queues by the scheduler.

    Raises:
        IllegalStateException: it would.
    """
    named = _named(destination)
    for own in _OWN:
        if own in named:
            raise IllegalStateException(f"The scheduler sends nothing to {own}")


def _named(destination: Destination) -> tuple[Destination, ...]:
    if _BEGINNING not in destination.physical_name:  # nearly all: nothing to take apart
        return ()
    return destination.composite_destinations
