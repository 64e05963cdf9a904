"""The state of a client at its broker: connection, sessions, producers, consumers and the rest.

A new broker does not have this state, so everything that a client opens is recorded here when it is
sent, and removed when it is closed. `track` is called for every command and costs one look-up for
commands that change nothing. (activemq-edges F4; openwire-encoding 15)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyjms.jms.destination import Destination
from pyjms.transport.failover.options import FailoverOptions
from pyjms.transport.failover.pulls import OpenPulls
from pyjms.transport.failover.transactions import OpenTransactions
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    Command,
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    DestinationInfo,
    LocalTransactionId,
    MessageId,
    MessagePull,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    SessionId,
    SessionInfo,
    TransactionInfo,
    TransactionType,
)
from pyjms.wire.openwire.message_size import message_size

__all__ = ["ClientState"]

_ADD = 0


class ClientState:
    """The state of one client, built from its commands."""

    def __init__(self, options: FailoverOptions) -> None:
        self._options = options
        self.connections: dict[ConnectionId | None, ConnectionInfo] = {}
        self.temporaries: dict[Destination | None, DestinationInfo] = {}
        self.sessions: dict[SessionId, SessionInfo] = {}
        self.producers: dict[ProducerId, ProducerInfo] = {}
        self.consumers: dict[ConsumerId, ConsumerInfo] = {}
        self.transactions: OpenTransactions = OpenTransactions()
        self.pulls: OpenPulls = OpenPulls()
        self.cached: dict[MessageId | None, ActiveMQMessage] = {}
        """With trackMessages: the latest messages sent without waiting for a response."""
        self._cached_bytes = 0
        self._trackers: dict[type[Command], Callable[[Any], object]] = {
            ConnectionInfo: self._on_connection,
            DestinationInfo: self._on_destination,
            SessionInfo: self._on_session,
            ProducerInfo: self._on_producer,
            ConsumerInfo: self._on_consumer,
            RemoveInfo: self._on_remove,
            TransactionInfo: self._on_transaction,
        }
        self._removers: dict[type[Any], Callable[[Any], object]] = {
            ConnectionId: self._remove_connection,
            SessionId: self._remove_session,
            ProducerId: self._remove_producer,
            ConsumerId: self.remove_consumer,
        }

    def record(self, command: Command, *, is_request: bool) -> bool:
        """Record a command that is about to be sent.

        Returns whether it is a message that a replay sends.
        """
        if isinstance(command, ActiveMQMessage):
            return self.track_message(command, is_request=is_request)
        if type(command) is MessagePull:
            self.pulls.add(command)
        else:
            self.track(command)
        return False

    def remove_consumer(self, consumer_id: ConsumerId) -> None:
        """Remove a consumer that the client or the broker has closed."""
        self.consumers.pop(consumer_id, None)
        if self.pulls:
            self.pulls.consumer_closed(consumer_id)

    def track(self, command: Command) -> None:
        """Record what a command opens or closes that is about to be sent."""
        tracker = self._trackers.get(type(command))
        if tracker is not None:
            tracker(command)

    def track_message(self, message: ActiveMQMessage, *, is_request: bool) -> bool:
        """Record a message that is about to be sent; return whether `replay` would send it."""
        if message.transaction_id is not None:
            return self.transactions.add(message)
        if is_request or not self._options.track_messages:
            return False
        return self._cache(message)

    def untrack(self, command: Command) -> None:
        """Remove `command`, because it could not be sent or the broker has refused it."""
        if isinstance(command, ActiveMQMessage):
            self.transactions.remove(command)
            self._uncache(command.message_id)
        elif isinstance(command, ConnectionInfo):
            self.connections.pop(command.connection_id, None)
        elif isinstance(command, ProducerInfo | ConsumerInfo):
            kept: dict[Any, Any] = self.producers
            key: object = None
            if isinstance(command, ConsumerInfo):
                kept, key = self.consumers, command.consumer_id
            else:
                key = command.producer_id
            kept.pop(key, None)
        elif isinstance(command, DestinationInfo):
            self.temporaries.pop(command.destination, None)

    def completed(self, command: Command) -> None:
        """Record that the broker has responded to `command`, with success or a refusal."""
        if isinstance(command, TransactionInfo) and ends_transaction(command):
            self.transactions.end(command.transaction_id)

    def _on_connection(self, info: ConnectionInfo) -> None:
        self.connections[info.connection_id] = info

    def _on_destination(self, info: DestinationInfo) -> None:
        if info.operation_type == _ADD:
            self.temporaries[info.destination] = info
        else:
            self.temporaries.pop(info.destination, None)

    def _on_session(self, info: SessionInfo) -> None:
        if info.session_id is not None:
            self.sessions[info.session_id] = info

    def _on_producer(self, info: ProducerInfo) -> None:
        if info.producer_id is not None:
            self.producers[info.producer_id] = info

    def _on_consumer(self, info: ConsumerInfo) -> None:
        if info.consumer_id is not None:
            self.consumers[info.consumer_id] = info

    def _on_transaction(self, info: TransactionInfo) -> None:
        is_local = isinstance(info.transaction_id, LocalTransactionId)
        if is_local and info.type == TransactionType.BEGIN:  # for branches see pyjms.client.xa
            self.transactions.begin(info)

    def _on_remove(self, info: RemoveInfo) -> None:
        remove = self._removers.get(type(info.object_id))
        if remove is not None:
            remove(info.object_id)

    def _remove_connection(self, connection_id: ConnectionId) -> None:
        self.connections.pop(connection_id, None)
        for kept in (self.temporaries, self.sessions, self.producers, self.consumers):
            kept.clear()

    def _remove_session(self, session_id: SessionId) -> None:
        self.sessions.pop(session_id, None)
        for producer_id in [p for p in self.producers if p.session_id == session_id.value]:
            self._remove_producer(producer_id)
        for consumer_id in [c for c in self.consumers if c.session_id == session_id.value]:
            self.remove_consumer(consumer_id)

    def _remove_producer(self, producer_id: ProducerId) -> None:
        info = self.producers.pop(producer_id, None)
        if info is not None and self._options.track_transaction_producers:
            self.transactions.producer_closed(info)

    def _cache(self, message: ActiveMQMessage) -> bool:
        self._uncache(message.message_id)
        self.cached[message.message_id] = message
        self._cached_bytes += message_size(message)
        while self._cached_bytes > self._options.max_cache_size:
            oldest = self.cached.pop(next(iter(self.cached)))
            self._cached_bytes -= message_size(oldest)
            if oldest is message:
                return False
        return True

    def _uncache(self, message_id: MessageId | None) -> None:
        message = self.cached.pop(message_id, None)
        if message is not None:
            self._cached_bytes -= message_size(message)


def ends_transaction(info: TransactionInfo) -> bool:
    """Return whether `info` commits or rolls back."""
    return info.type in (TransactionType.COMMIT_ONE_PHASE, TransactionType.ROLLBACK)
