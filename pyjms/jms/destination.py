"""Destinations: queues and topics, permanent or temporary.

Destinations are equal if kind and physical name are equal. Options (`?consumer.prefetchSize=1`)
belong to the object but not to its identity, and are never sent. A name with commas is a composite
destination; `*` and a final `>` are wildcards for consumers. (jms-api 1; activemq-broker D1 to D8)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar, Final, TypeAlias

from pyjms.errors import InvalidDestinationException

__all__ = [
    "ADVISORY_PREFIX",
    "DEFAULT_DEAD_LETTER_QUEUE",
    "AnyDestination",
    "Destination",
    "Queue",
    "TemporaryQueue",
    "TemporaryTopic",
    "Topic",
    "name_matches",
    "named_kind",
    "parse_destination",
]

ADVISORY_PREFIX: Final = "ActiveMQ.Advisory."
"""The prefix of the names of advisory topics. (openwire-encoding 17)"""
_NO_OPTIONS: Final[Mapping[str, str]] = {}
DEFAULT_DEAD_LETTER_QUEUE: Final = "ActiveMQ.DLQ"
"""The queue that gets dead letters unless a policy names another one. (activemq-broker L2)"""


class Destination:
    """A queue or a topic; create one of the four subclasses.

    `identity`, its kind and name, is the key to use where destinations are looked up for each
    message, since a tuple is hashed and compared without calling Python code.
    """

    __slots__ = ("identity", "is_composite", "is_pattern", "options", "physical_name")

    TYPE: ClassVar[int] = 0
    PREFIX: ClassVar[str] = ""
    is_queue: ClassVar[bool] = False
    is_topic: ClassVar[bool] = False
    is_temporary: ClassVar[bool] = False

    physical_name: str
    options: Mapping[str, str]
    identity: tuple[int, str]
    is_composite: bool
    """Whether the name contains several destinations."""
    is_pattern: bool
    """Whether the name has wildcards; False for a composite destination."""

    def __init__(self, name: str) -> None:
        """Create the destination `name`, which may have options: `name?key=value&...`.

        Raises:
            InvalidDestinationException: the name is empty, or an option is not key=value.
        """
        bare, mark, query = name.partition("?")
        bare = bare.strip()
        if not bare:
            raise InvalidDestinationException(
                f"Invalid destination name: {name!r} is empty", hint="give a name such as 'foo.bar'"
            )
        self.physical_name = bare
        self.options = _options(name, query) if mark else _NO_OPTIONS
        self.identity = (self.TYPE, bare)
        self.is_composite = "," in bare
        self.is_pattern = False
        if ("*" in bare or ">" in bare) and not self.is_composite:
            parts = bare.split(".")
            self.is_pattern = "*" in parts or parts[-1] == ">"

    @property
    def qualified_name(self) -> str:
        """The name with its kind: `queue://name`, `temp-topic://name` ..."""
        return self.PREFIX + self.physical_name

    @property
    def composite_destinations(self) -> tuple[Destination, ...]:
        """The members of a composite destination, without duplicates; otherwise itself."""
        if not self.is_composite:
            return (self,)
        members = (m.strip() for m in self.physical_name.split(","))
        return tuple(dict.fromkeys(parse_destination(m, default=type(self)) for m in members if m))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Destination) and self.identity == other.identity)

    def __hash__(self) -> int:
        return hash(self.identity)

    def __str__(self) -> str:
        return self.qualified_name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.physical_name!r})"


class Queue(Destination):
    """A queue: each message goes to one consumer.

    Example:
        assert str(Queue("orders.new")) == "queue://orders.new"
    """

    __slots__ = ()
    TYPE: ClassVar[int] = 100
    PREFIX: ClassVar[str] = "queue://"
    is_queue: ClassVar[bool] = True


class Topic(Destination):
    """A topic: each message goes to every subscriber.

    Example:
        assert str(Topic("prices")) == "topic://prices"
    """

    __slots__ = ()
    TYPE: ClassVar[int] = 101
    PREFIX: ClassVar[str] = "topic://"
    is_topic: ClassVar[bool] = True


class TemporaryQueue(Queue):
    """A queue that exists as long as the connection that created it."""

    __slots__ = ()
    TYPE: ClassVar[int] = 102
    PREFIX: ClassVar[str] = "temp-queue://"
    is_temporary: ClassVar[bool] = True


class TemporaryTopic(Topic):
    """A topic that exists as long as the connection that created it."""

    __slots__ = ()
    TYPE: ClassVar[int] = 103
    PREFIX: ClassVar[str] = "temp-topic://"
    is_temporary: ClassVar[bool] = True


_KINDS: tuple[type[Destination], ...] = (TemporaryQueue, TemporaryTopic, Queue, Topic)


AnyDestination: TypeAlias = Destination | str | None
"""A destination, its name, or None: the default destination."""


def parse_destination(text: str, default: type[Destination] = Queue) -> Destination:
    """Return the destination for `queue://a`, `topic://b`, `temp-queue://c` ... or a plain name.

    Raises:
        InvalidDestinationException: the name is empty.
    """
    for kind in _KINDS:
        if text.startswith(kind.PREFIX):
            return kind(text[len(kind.PREFIX) :])
    return default(text)


_SCHEME: Final = re.compile(r"\s*([A-Za-z][A-Za-z+-]*)://")


def name_matches(pattern: str, name: str) -> bool:
    """Return whether a name, with or without wildcards, matches `name`.

    `*` matches one path element; one or more `>` at the end match any number of elements, even
    none.
    (activemq-broker D5)
    """
    wanted, parts = pattern.split("."), name.split(".")
    if wanted[-1] == ">":
        while wanted and wanted[-1] == ">":
            wanted.pop()
        if len(parts) < len(wanted):
            return False
        parts = parts[: len(wanted)]
    elif len(parts) != len(wanted):
        return False
    return all(want in ("*", part) for want, part in zip(wanted, parts, strict=True))


def named_kind(text: str) -> type[Destination] | None:
    """Return the kind of destination given by the prefix of `text`; None: it has no prefix."""
    scheme = _SCHEME.match(text)
    if scheme is None:
        return None
    for kind in _KINDS:
        if text.startswith(kind.PREFIX):
            return kind
    raise InvalidDestinationException(
        f"Invalid destination name: {text!r}: {scheme[1]}:// is not a kind of destination",
        hint=f"use one of {', '.join(kind.PREFIX for kind in reversed(_KINDS))}",
    )


def _options(name: str, query: str) -> dict[str, str]:
    options = {}
    for part in query.split("&"):
        key, equals, value = part.partition("=")
        if not key or not equals:
            raise InvalidDestinationException(
                f"Invalid destination name: option {part!r} of {name!r} is not key=value",
                hint="write options as 'name?consumer.prefetchSize=1&consumer.exclusive=true'",
            )
        options[key] = value
    return options


ADVISORY_KINDS: Final[dict[str, type[Destination]]] = {
    "Queue": Queue,
    "Topic": Topic,
    "TempQueue": TemporaryQueue,
    "TempTopic": TemporaryTopic,
}
"""The words for kinds of destinations in the names of advisory topics."""
ADVISORY_WORDS: Final = {kind.TYPE: word for word, kind in ADVISORY_KINDS.items()}
_LASTING: Final = ("Consumer", "Producer", "Expired", "NoConsumer", "VirtualDestination.Consumer")
"""Events whose topics have Queue and Topic in their names for temporary destinations, too."""
ADVISORY_COMMA: Final = "&sbquo;"
"""A comma of a destination in the name of an advisory topic, where it would make a composite."""


def advisory_topic(event: str, destination: Destination | None = None) -> Topic:
    """Return the topic of the advisories about an event.

    Args:
        event: "Consumer", "Producer", "Expired", "MessageDLQd", "MessageDiscarded", "SlowConsumer",
            "FastProducer", "FULL" and others with a destination; without one "Connection",
            "MasterBroker", "NetworkBridge", and "Queue", "Topic", "TempQueue" and "TempTopic" for
            the creation and removal of destinations of that kind.
        destination: the destination; its name may be a pattern, `Queue("orders.>")`.
    """
    if destination is None:
        return Topic(ADVISORY_PREFIX + event)
    kind = type(destination)
    if event in _LASTING:
        kind = Queue if destination.is_queue else Topic
    name = destination.physical_name.replace(",", ADVISORY_COMMA)
    return Topic(f"{ADVISORY_PREFIX}{event}.{ADVISORY_WORDS[kind.TYPE]}.{name}")
