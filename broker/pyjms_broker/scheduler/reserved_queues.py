"""The broker's internal queues, which scheduled messages may not use as source or target.

Scheduled deliveries are sent by the broker, which may write to its internal queues. Without this
check, a client could reach them through a schedule: a message in `PyJMS.Scheduled` that is not a
schedule request would stay there forever, and a lease request would have no owner.
"""

from __future__ import annotations

from typing import Final

from pyjms.errors import IllegalStateException
from pyjms.jms.destination import Destination
from pyjms.jms.destination import Queue as QueueDestination
from pyjms_broker.api.internal_destinations import is_internal

__all__ = ["SCHEDULED", "check_source", "check_target"]

SCHEDULED: Final = QueueDestination("PyJMS.Scheduled")


def check_source(destination: Destination) -> None:
    """Check that a client does not send to the queue of schedule requests, even in a composite.

    Raises:
        IllegalStateException: the destination is or contains `PyJMS.Scheduled`.
    """
    if is_internal(destination) and SCHEDULED in destination.composite_destinations:
        raise IllegalStateException(
            f"{SCHEDULED} is reserved for the scheduler",
            hint="send to the destination itself, with AMQ_SCHEDULED_DELAY",
        )


def check_target(destination: Destination) -> None:
    """Check that a scheduled delivery or reply does not go to an internal queue.

    Raises:
        IllegalStateException: the destination is or contains one of them.
    """
    if is_internal(destination):
        raise IllegalStateException(
            f"{destination} is reserved for the broker: the scheduler does not send to it"
        )
