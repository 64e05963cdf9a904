"""Destination resolvers: names to destinations, with optional prefixes. (spring-jms 3.4)"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from pyjms.jms.api import Session
from pyjms.jms.destination import Destination, Queue, Topic, named_kind
from pyjms.runtime.logging import get_logger

logger: Final = get_logger(__name__)

_VIRTUAL_TOPIC: Final = "VirtualTopic."
# Bounds the cache: names come from the application, but there may be many reply destinations.
_MAX_NAMES: Final = 1024


class DestinationResolver(Protocol):
    """Resolves destination names. Synchronous; must not block. Spring: DestinationResolver."""

    def resolve_destination_name(
        self, session: Session, destination_name: str, pub_sub_domain: bool
    ) -> Destination:
        """Return the topic of this name if `pub_sub_domain`, else the queue.

        A prefix of the name, `queue://` or `topic://`, takes precedence over `pub_sub_domain`.

        Raises:
            DestinationResolutionException: there is no such destination.
        """
        ...


class DynamicDestinationResolver:
    """Creates a destination for every call; thread-safe. Spring: DynamicDestinationResolver."""

    def resolve_destination_name(
        self, session: Session, destination_name: str, pub_sub_domain: bool
    ) -> Destination:
        """Return `session.create_topic(name)` or `create_queue(name)`, by prefix or domain.

        Raises:
            ValueError: the session or the name is missing.
            InvalidDestinationException: the name is malformed.
        """
        if session is None:
            raise ValueError("Session must not be None")
        if not destination_name:
            raise ValueError("Destination name must not be None or empty")
        kind = named_kind(destination_name)
        if kind is None:
            kind = Topic if pub_sub_domain else Queue
        else:
            destination_name = destination_name.removeprefix(kind.PREFIX)
        if kind is Topic:
            return session.create_topic(destination_name)
        return session.create_queue(destination_name) if kind is Queue else kind(destination_name)


class SimpleDestinationResolver:
    """Caches the destinations by name, separately for queues and topics.

    Tasks of one loop may share it. Spring: SimpleDestinationResolver.
    """

    def __init__(self) -> None:
        self._dynamic = DynamicDestinationResolver()
        self._cache: dict[tuple[str, bool], Destination] = {}
        self.queues_of_listeners: Callable[[], Mapping[str, str]] | None = None
        """Returns the queues from which an application's listeners consume, by listener id. If it
        is set and a virtual topic's name is used as a queue, a warning is logged once."""

    def resolve_destination_name(
        self, session: Session, destination_name: str, pub_sub_domain: bool
    ) -> Destination:
        """Return the destination of this name and domain; raises like the dynamic resolver."""
        key = (destination_name, pub_sub_domain)
        destination = self._cache.get(key)
        if destination is None or session is None:
            destination = self._dynamic.resolve_destination_name(
                session, destination_name, pub_sub_domain
            )
            if len(self._cache) >= _MAX_NAMES:
                del self._cache[next(iter(self._cache))]
            self._cache[key] = destination
            if self.queues_of_listeners is not None and isinstance(destination, Queue):
                _warn_of_virtual_topic(destination.physical_name, self.queues_of_listeners())
        return destination


def _warn_of_virtual_topic(name: str, queues: Mapping[str, str]) -> None:
    """Warn that a virtual topic's name is used as a queue, and list the listeners it reaches."""
    if not name.startswith(_VIRTUAL_TOPIC):
        return
    fed = re.compile(rf"Consumer\.[^.]+\.{re.escape(name)}")
    reached = [listener for listener, queue in queues.items() if queue == name]
    missed = [listener for listener, queue in queues.items() if fed.fullmatch(queue)]
    logger.warning(
        "%s is used as a queue, but is a virtual topic: a message sent to the queue reaches %s; "
        "only the topic forwards to the queues Consumer.*.%s (listeners here: %s). Send to "
        "topic://%s",
        name,
        ", ".join(reached) or "no listener of this application",
        name,
        ", ".join(missed) or "none",
        name,
    )
