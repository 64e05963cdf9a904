"""Destination names in headers. (activemq-edges ST4)

/queue/NAME, /topic/NAME                        lists, separated by commas, make composites, in
                                                which names without a prefix are queues
/temp-queue/NAME, /temp-topic/NAME              an alias of this connection, created on first use
/remote-temp-queue/ID, /remote-temp-topic/ID    a temporary destination of any connection
NAME                                            the queue of that name
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyjms.errors import RemoteProtocolError
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms_broker.connector.stomp.values import check_kept

__all__ = ["DestinationNames"]

_KINDS: Final[tuple[tuple[str, type[Destination]], ...]] = (
    ("/queue/", Queue),
    ("/topic/", Topic),
    ("/remote-temp-queue/", TemporaryQueue),
    ("/remote-temp-topic/", TemporaryTopic),
)
_ALIASES: Final[tuple[tuple[str, type[Destination]], ...]] = (
    ("/temp-queue/", TemporaryQueue),
    ("/temp-topic/", TemporaryTopic),
)
_PREFIXES: Final[dict[type[Destination], str]] = {kind: prefix for prefix, kind in _KINDS}


class DestinationNames:
    """The destinations named by one connection.

    Args:
        create: creates a temporary destination of the connection.
    """

    def __init__(self, create: Callable[[type[Destination]], Destination]) -> None:
        self._create = create
        self._temporary: dict[str, Destination] = {}
        self._aliases: dict[Destination, str] = {}

    def destination(self, name: str) -> Destination:
        """Return the destination for a name in any form.

        Raises:
            RemoteProtocolError: it has options.
            InvalidDestinationException: it is empty.
            JMSException: a temporary destination cannot be created.
        """
        return self.prefixed(name) or Queue(name)

    def prefixed(self, name: str) -> Destination | None:
        """Return the destination for a name with a prefix, like `destination`; else None."""
        if "?" in name:
            raise RemoteProtocolError(
                f"Options of destinations have no effect for STOMP: [{name[:200]}]; write headers "
                "of SUBSCRIBE instead, such as activemq.prefetchSize"
            )
        name = name.strip()
        for prefix, kind in _ALIASES:
            if name.startswith(prefix):
                return self._alias(name, kind)
        parts = name.split(",")
        members = [_member(part) for part in parts]
        if not any(members):
            return None
        return _composite(
            [known or Queue(part) for known, part in zip(members, parts, strict=True)]
        )

    def text(self, destination: Destination) -> str:
        """Return the name of `destination` for this connection's client."""
        alias = self._aliases.get(destination)
        if alias is not None:
            return alias
        members = destination.composite_destinations
        return ",".join(_PREFIXES[type(member)] + member.physical_name for member in members)

    def _alias(self, name: str, kind: type[Destination]) -> Destination:
        known = self._temporary.get(name)
        if known is None:
            check_kept("name of a temporary destination", name)
            known = self._temporary[name] = self._create(kind)
            self._aliases[known] = name
        return known


def _member(name: str) -> Destination | None:
    name = name.strip()
    for prefix, kind in _KINDS:
        if name.startswith(prefix):
            return kind(name[len(prefix) :])
    return None


def _composite(members: list[Destination]) -> Destination:
    first, *others = members
    if not others:
        return first
    return type(first)(",".join([first.physical_name, *(o.qualified_name for o in others)]))
