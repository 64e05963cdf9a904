"""The sessions of a connection, as part of its view; ActiveMQ has no views of sessions.

A session has no counters: its numbers are the sums over its current producers and consumers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.connector.openwire.connection_state import SessionState
from pyjms_broker.management.conversion import INT
from pyjms_broker.management.host import Managed
from pyjms_broker.management.model import Attribute, Operation

__all__ = ["SESSION_ATTRIBUTE", "SESSION_OPERATION"]

_Connection: TypeAlias = Managed[Any]


def _sessions(c: _Connection) -> Iterator[tuple[int, SessionState]]:
    """Iterate over the sessions created by the client, in order."""
    for session_id, session in c.it.state.sessions.items():
        if session_id.value >= 0:  # the negative one has the connection's advisory consumers
            yield session_id.value, session


def _items(c: _Connection) -> list[dict[str, object]]:
    state, transport = c.it.state, c.it.transport
    subscriptions = {
        each.consumer_id: each
        for each in c.tree.region.subscriptions.all()
        if each.context is state.context
    }
    return [
        _item(
            number,
            [subscriptions[each] for each in session.consumers if each in subscriptions],
            [
                transport.producers[each]
                for each in session.producers
                if each in transport.producers
            ],
        )
        for number, session in _sessions(c)
    ]


def _item(
    number: int, consumers: list[Subscription], producers: list[ProducerExchange]
) -> dict[str, object]:
    return {
        "SessionId": number,
        "ConsumerCount": len(consumers),
        "ProducerCount": len(producers),
        "SentCount": sum(each.sent_count for each in producers),
        "BlockedSends": sum(each.blocked_sends for each in producers),
        "DispatchedCounter": sum(each.dispatched_count for each in consumers),
        "DequeueCounter": sum(each.dequeue_count for each in consumers),
        "DispatchedQueueSize": sum(each.in_flight for each in consumers),
    }


SESSION_ATTRIBUTE: Final[Attribute[Any]] = Attribute(
    "SessionCount", INT, "Number of sessions.", lambda c: sum(1 for _ in _sessions(c))
)
SESSION_OPERATION: Final[Operation[Any]] = Operation(
    "sessions",
    "[Ljavax.management.openmbean.CompositeData;",
    "Return the sessions, with their producers, consumers, and the sums of their counters.",
    _items,
)
