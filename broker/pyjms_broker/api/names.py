"""Rules for the names of destinations and subscriptions.

Clients cannot use the internal destinations of the broker, with two prefixes. The broker reads its
own records from them when it starts, and could mistake a client's message for one of these.
Sending, consuming, browsing and removal are therefore refused to clients, and wildcards of
consumers do not match these destinations. Two exceptions are protocols: requests to `PyJMS.Ranges`
and to the topic `ActiveMQ.Scheduler.Management` are handled before they reach a destination.
"""

from __future__ import annotations

from typing import Final

from pyjms.errors import IllegalStateException
from pyjms.jms.destination import Destination
from pyjms_broker.api.context import ConnectionContext

PREFIXES: Final = ("PyJMS.", "ActiveMQ.Scheduler.")
"""Prefixes of the names of internal destinations."""
_OWN, _SCHEDULER = PREFIXES
CLIENT_PREFIXES: Final = ("PyJMS.Stage.", "PyJMS.Epoch.", "ActiveMQ.Scheduler.Management")
"""Prefixes below `PREFIXES` that are not internal: queues of Spark's sink, which is a client, and
the scheduler's topic, which stores no messages."""


def is_internal(destination: Destination) -> bool:
    """Whether a destination, or part of a composite destination, is internal."""
    name = destination.physical_name
    if _OWN not in name and _SCHEDULER not in name:  # fast path: called for every send
        return False
    return any(
        each.physical_name.startswith(PREFIXES)
        and not each.physical_name.startswith(CLIENT_PREFIXES)
        for each in destination.composite_destinations
    )


def is_reserved(context: ConnectionContext, destination: Destination) -> bool:
    """Whether a destination is internal and the context is not the broker's."""
    return not context.is_broker and is_internal(destination)


def check_access(context: ConnectionContext, destination: Destination) -> None:
    """Refuse a client access to an internal destination.

    Raises:
        IllegalStateException: the destination is internal, and the context is not the broker's.
    """
    if is_reserved(context, destination):
        raise IllegalStateException(
            f"{destination} is reserved for the broker",
            hint="choose a name that does not begin with PyJMS. or ActiveMQ.Scheduler.",
        )
