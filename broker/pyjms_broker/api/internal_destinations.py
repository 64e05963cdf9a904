"""The destinations that belong to the broker itself, which accept nothing from clients.

The broker reads what it stored in them when it starts, so a message of a client there could be
taken for its own. Sends, consumers, browsers and removal are refused to clients, and patterns of
consumers do not match these destinations. Two exceptions are protocols: requests to `PyJMS.Ranges`
and to the topic `ActiveMQ.Scheduler.Management` are handled before they reach a destination.
"""

from __future__ import annotations

from typing import Final

from pyjms.errors import IllegalStateException
from pyjms.jms.destination import Destination
from pyjms_broker.api.context import ConnectionContext

__all__ = ["CLIENT_PREFIXES", "PREFIXES", "check_access", "is_internal", "is_reserved"]

PREFIXES: Final = ("PyJMS.", "ActiveMQ.Scheduler.")
"""The names of internal destinations begin with one of these."""
_OWN, _SCHEDULER = PREFIXES
CLIENT_PREFIXES: Final = ("PyJMS.Stage.", "PyJMS.Epoch.", "ActiveMQ.Scheduler.Management")
"""Names below `PREFIXES` that are not internal: queues of Spark's sink, which is a client, and the
scheduler's topic, which has no messages of its own."""


def is_internal(destination: Destination) -> bool:
    """Whether a destination belongs to the broker; of a composite, whether one of them does."""
    name = destination.physical_name
    if _OWN not in name and _SCHEDULER not in name:  # nearly always; asked at every send
        return False
    return any(
        each.physical_name.startswith(PREFIXES)
        and not each.physical_name.startswith(CLIENT_PREFIXES)
        for each in destination.composite_destinations
    )


def is_reserved(context: ConnectionContext, destination: Destination) -> bool:
    """Whether a destination is internal, and the context not the broker's."""
    return not context.is_broker and is_internal(destination)


def check_access(context: ConnectionContext, destination: Destination) -> None:
    """Refuse an internal destination to a client.

    Raises:
        IllegalStateException: the destination is internal, and the context is not the broker's.
    """
    if is_reserved(context, destination):
        raise IllegalStateException(
            f"{destination} is reserved for the broker",
            hint="choose a name that does not begin with PyJMS. or ActiveMQ.Scheduler.",
        )
