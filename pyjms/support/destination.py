"""Destination resolvers: names to destinations, with optional prefixes. (spring-jms 3.4)"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from pyjms._logger import get_logger
from pyjms.jms.api import Session
from pyjms.jms.destination import Destination, Queue, Topic, named_kind

__all__ = ["DestinationResolver", "DynamicDestinationResolver", "SimpleDestinationResolver"]

logger: Final = get_logger(__name__)

_VIRTUAL_TOPIC: Final = "VirtualTopic."
# Bounds the cache: names come from the application, but names for replies may be many.
_MAX_NAMES: Final = 1024


class DestinationResolver(Protocol):
    """Resolves destination names. A plain call, which must not block. Spring: same name."""

    def resolve_destination_name(
        self, session: Session, destination_name: str, pub_sub_domain: bool
    ) -> Destination:
        """Return the topic of this name if `pub_sub_domain`, else the queue.

        A prefix of the name, `queue://` or `topic://`, wins over `pub_sub_domain`.

        Raises:
            DestinationResolutionException: there is no such destination.
        """
        ...


class DynamicDestinationResolver:
    """Creates a new handle for every call. Tasks and threads may share it. Spring: same name."""

    def resolve_destination_name(
        self, session: Session, destination_name: str, pub_sub_domain: bool
    ) -> Destination:
        """Return `session.create_topic(name)` or `create_queue(name)`, by prefix or else domain.

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
    """Caches the handle of each name, for queues and topics separately. Spring: same name.

    Tasks of one loop may share it.
    """

    def __init__(self) -> None:
        self._dynamic = DynamicDestinationResolver()
        self._cache: dict[tuple[str, bool], Destination] = {}
        self.queues_of_listeners: Callable[[], Mapping[str, str]] | None = None
        """Returns the queues that an application's listeners consume from, by listener id. If set,
        the name of a virtual topic that is used as a queue is logged once, as a warning."""

    def resolve_destination_name(
        self, session: Session, destination_name: str, pub_sub_domain: bool
    ) -> Destination:
        """Return the destination of this name and domain; raises what the dynamic resolver does."""
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
    """Log which listeners a message reaches that is sent to a virtual topic as a queue."""
    if not name.startswith(_VIRTUAL_TOPIC):
        return
    fed = re.compile(rf"Consumer\.[^.]+\.{re.escape(name)}")
    reached = [listener for listener, queue in queues.items() if queue == name]
    missed = [listener for listener, queue in queues.items() if fed.fullmatch(queue)]
    logger.warning(
        "%s is used as a queue, and is a virtual topic: a message sent to the queue reaches %s; "
        "only the topic feeds the queues Consumer.*.%s (listeners here: %s). Send to topic://%s",
        name,
        ", ".join(reached) or "no listener of this application",
        name,
        ", ".join(missed) or "none",
        name,
    )
