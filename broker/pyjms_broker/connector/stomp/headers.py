"""Values of headers: numbers, booleans, and destination names. (activemq-edges ST4)

/queue/NAME, /topic/NAME                        lists, separated by commas, make composites, in
                                                which names without a prefix are queues
/temp-queue/NAME, /temp-topic/NAME              an alias of this connection, created on first use
/remote-temp-queue/ID, /remote-temp-topic/ID    a temporary destination of any connection
NAME                                            the queue of that name
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from pyjms.errors import RemoteProtocolError
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic

MAXIMUM_INT: Final = 2**31 - 1
_MAXIMUM_KEPT: Final = 1024
"""The maximum length of a name that the broker stores: a client may have thousands."""
_MAXIMUM_LONG: Final = 2**63 - 1
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}\Z")


def require(headers: Mapping[str, str], name: str, otherwise: str) -> str:
    """Return a required header."""
    value = headers.get(name)
    if not value:
        raise RemoteProtocolError(otherwise)
    return value


def check_kept(what: str, text: str) -> str:
    """Check the length of a name that the broker stores, and return it."""
    if len(text) > _MAXIMUM_KEPT:
        raise RemoteProtocolError(
            f"The {what} has {len(text)} characters; at most {_MAXIMUM_KEPT} are allowed"
        )
    return text


def integer(name: str, text: str, lowest: int = 0, highest: int = _MAXIMUM_LONG) -> int:
    """Return a header's number."""
    number = int(text) if _INTEGER.match(text.strip()) else None
    if number is None or not lowest <= number <= highest:
        raise RemoteProtocolError(
            f"The header {name} must be a whole number from {lowest} to {highest}: [{text[:100]}]"
        )
    return number


def boolean(name: str, text: str) -> bool:
    """Return a header's boolean value."""
    lowered = text.strip().lower()
    if lowered not in {"true", "false"}:
        raise RemoteProtocolError(f"The header {name} must be true or false: [{text[:100]}]")
    return lowered == "true"


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
        """Return the destination for a name in any form."""
        return self.with_prefix(name) or Queue(name)

    def with_prefix(self, name: str) -> Destination | None:
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
