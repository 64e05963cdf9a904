"""The state of a client at its broker: connection, sessions, producers, consumers and the rest.

A new broker does not have this state, so everything that a client opens is recorded here when it is
sent, and removed when it is closed. `track` is called for every command and costs one look-up for
commands that change nothing.

Open local transactions are kept with the messages sent in them. Acknowledgements are not: the
client's consumers know which messages were delivered to them, and the transaction can be committed
only if the next broker delivers these messages again.

Pulls are kept until the broker responds. The new broker would not know them, and their consumers
would wait for ever. They are sent again with the remaining timeout; if it passes while there is no
broker, the transport responds instead, by a dispatch without message.

The commands that restore the state at a new broker are in ActiveMQ's order:

    ConnectionControl(faultTolerant=true)
    ConnectionInfo(failoverReconnect=true)
    temporary destinations
    each session, its producers, its consumers with prefetch 0
    open transactions: producers closed in the meantime, begin, messages, removal of these producers
    messages of trackMessages, pulls without response
    requests without response
    ConsumerControl: the prefetch of each consumer

Consumers start without prefetch, so that the broker dispatches nothing before it has the open
transactions. Every command is a copy: a broker in this process may keep or change it.

What becomes of the requests whose response is pending when the broker is lost:

    removals, acknowledgements, rollbacks    done: the next broker has nothing to remove, deliver
    of local transactions                    again or roll back
    a commit or prepare that may have been   TransactionRolledBackException, once there is a next
    executed                                 broker
    commit and rollback of a prepared        sent again; done if the next broker does not know the
    branch                                   branch any more
    everything else                          sent again; a persistent message that the lost broker
                                             has stored is recognised there (activemq-broker T27)

(activemq-edges F3 to F6; activemq-broker X9; openwire-encoding 15)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from pyjms.errors import IllegalStateException, TransactionRolledBackException, XAException
from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.transport.failover.brokers import FailoverOptions
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    Command,
    ConnectionId,
    ConnectionInfo,
    ConsumerControl,
    ConsumerId,
    ConsumerInfo,
    DestinationInfo,
    LocalTransactionId,
    MessageAck,
    MessageDispatch,
    MessageId,
    MessagePull,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    Response,
    SessionId,
    SessionInfo,
    TransactionId,
    TransactionInfo,
    TransactionType,
    message_size,
)


@dataclass
class _Transaction:
    begin: TransactionInfo
    messages: dict[int, ActiveMQMessage] = field(default_factory=dict)
    """The messages by their `id()`, in the order in which they were sent."""
    producers: set[ProducerId | None] = field(default_factory=set)
    """The producers of the messages."""
    latest_producer: ProducerId | None = None
    closed_producers: list[ProducerInfo] = field(default_factory=list)


class OpenTransactions:
    """The transactions of one client, in the order in which they began."""

    def __init__(self) -> None:
        self._transactions: dict[TransactionId | None, _Transaction] = {}

    def begin(self, info: TransactionInfo) -> None:
        """Add a transaction."""
        self._transactions[info.transaction_id] = _Transaction(info)

    def end(self, transaction_id: TransactionId | None) -> None:
        """Remove a transaction that was committed or rolled back."""
        self._transactions.pop(transaction_id, None)

    def add(self, message: ActiveMQMessage) -> bool:
        """Add a message to its transaction; return whether it belongs to one."""
        transaction = self._transactions.get(message.transaction_id)
        if transaction is not None:
            transaction.messages[id(message)] = message
            if message.producer_id is not transaction.latest_producer:
                transaction.latest_producer = message.producer_id
                transaction.producers.add(message.producer_id)
        return transaction is not None

    def remove(self, message: ActiveMQMessage) -> None:
        """Remove a message that is not sent."""
        transaction = self._transactions.get(message.transaction_id)
        if transaction is not None:
            transaction.messages.pop(id(message), None)

    def producer_closed(self, info: ProducerInfo) -> None:
        """Keep a closed producer in the transactions that contain its messages."""
        for transaction in self._transactions.values():
            if info.producer_id in transaction.producers:
                transaction.closed_producers.append(info)

    def replay(self, pending: frozenset[int]) -> Iterator[Command]:
        """Yield the commands of the transactions, except those whose `id()` is in `pending`."""
        for transaction in self._transactions.values():
            yield from map(copy, transaction.closed_producers)
            yield TransactionInfo(
                transaction.begin.connection_id,
                transaction.begin.transaction_id,
                int(TransactionType.BEGIN),
            )
            for message in transaction.messages.values():
                if id(message) not in pending:
                    yield copy(message)
            for info in transaction.closed_producers:
                yield RemoveInfo(info.producer_id)


class OpenPulls:
    """The pulls of one client, oldest first, by consumer."""

    def __init__(self) -> None:
        self._pulls: dict[ConsumerId | None, list[tuple[MessagePull, float | None]]] = {}

    def __bool__(self) -> bool:
        return bool(self._pulls)

    def add(self, pull: MessagePull) -> None:
        """Add a pull that is about to be sent."""
        deadline = None
        if pull.timeout:
            deadline = _clock.now() + max(pull.timeout, 0) / 1000
        self._pulls.setdefault(pull.consumer_id, []).append((pull, deadline))

    def on_dispatch(self, dispatch: MessageDispatch) -> None:
        """Record a response: a message is the response to all pulls of its consumer."""
        consumer_id = dispatch.consumer_id
        pulls = self._pulls.get(consumer_id)
        if pulls is None:
            return
        if dispatch.message is not None:
            del self._pulls[consumer_id]
            return
        for index, (_, deadline) in enumerate(pulls):
            if deadline is not None:
                del pulls[index]
                break
        if not pulls:
            del self._pulls[consumer_id]

    def consumer_closed(self, consumer_id: ConsumerId) -> None:
        """Remove the pulls of a consumer."""
        self._pulls.pop(consumer_id, None)

    def replay(self) -> Iterator[MessagePull]:
        """Yield all pulls, with their remaining timeouts."""
        now = _clock.now()
        for pulls in self._pulls.values():
            for pull, deadline in pulls:
                left = 0
                if deadline is not None:
                    left = round((deadline - now) * 1000)
                    left = left if left > 0 else -1
                yield MessagePull(pull.consumer_id, pull.destination, left)

    def next_deadline(self) -> float:
        """Return when the next pull times out; infinite: never."""
        deadlines = (d for pulls in self._pulls.values() for _, d in pulls if d is not None)
        return min(deadlines, default=float("inf"))

    def respond_to_overdue(self, deliver: Callable[[MessageDispatch], None]) -> None:
        """Respond to pulls that have timed out by dispatches without message."""
        now = _clock.now()
        overdue = [
            pull
            for pulls in self._pulls.values()
            for pull, deadline in pulls
            if deadline is not None and deadline <= now
        ]
        for pull in overdue:
            dispatch = MessageDispatch(pull.consumer_id, pull.destination)
            self.on_dispatch(dispatch)
            deliver(dispatch)


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
        elif isinstance(command, ProducerInfo) and command.producer_id is not None:
            self.producers.pop(command.producer_id, None)
        elif isinstance(command, ConsumerInfo) and command.consumer_id is not None:
            self.consumers.pop(command.consumer_id, None)
        elif isinstance(command, DestinationInfo):
            self.temporaries.pop(command.destination, None)

    def complete(self, command: Command) -> None:
        """Record that the broker has responded to `command`, with success or a refusal."""
        ends = (TransactionType.COMMIT_ONE_PHASE, TransactionType.ROLLBACK)
        if isinstance(command, TransactionInfo) and command.type in ends:
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


OnResponse = Callable[[Response | Exception], None]


@dataclass(eq=False)
class Request:
    """A request whose response is pending, and the callback for the response."""

    command: Command
    on_response: OnResponse
    since: float
    """When it was made."""
    was_sent: bool = False
    """Whether a broker may have received it."""
    was_repeated: bool = False
    """Whether several brokers may have received it."""


_REMOVE = 1
_OF_ARTEMIS = "Transaction not started"
_DOUBTFUL = (TransactionType.COMMIT_ONE_PHASE, TransactionType.PREPARE)
_REPEATABLE = (TransactionType.COMMIT_TWO_PHASE, TransactionType.ROLLBACK, TransactionType.FORGET)


def is_done_by_loss(command: Command) -> bool:
    """Return whether the loss of the broker has the effect of `command`."""
    if isinstance(command, TransactionInfo):
        is_local = isinstance(command.transaction_id, LocalTransactionId)
        return is_local and command.type == TransactionType.ROLLBACK
    if isinstance(command, DestinationInfo):
        return command.operation_type == _REMOVE
    return isinstance(command, RemoveInfo | MessageAck)


def is_in_doubt(request: Request) -> bool:
    """Return whether `request` is a commit or prepare that the lost broker may have executed."""
    command = request.command
    return request.was_sent and isinstance(command, TransactionInfo) and command.type in _DOUBTFUL


def outcome_of(request: Request, outcome: Response | Exception) -> Response | Exception:
    """Return the outcome of a request for its caller.

    If a request to end a prepared branch was sent again and the broker does not know the branch any
    more, it has succeeded: no other client ends the branch.
    """
    command = request.command
    is_done = (
        request.was_repeated
        and isinstance(command, TransactionInfo)
        and command.type in _REPEATABLE
        and isinstance(outcome, Exception)
        and _is_of_unknown_branch(outcome)
    )
    return Response() if is_done else outcome


def _is_of_unknown_branch(error: Exception) -> bool:
    if isinstance(error, XAException):
        return error.xa_error_code == XAException.XAER_NOTA
    return isinstance(error, IllegalStateException) and error.reason.startswith(_OF_ARTEMIS)


def doubt_error(request: Request) -> TransactionRolledBackException:
    """Return the exception for a commit in doubt."""
    command = request.command
    assert isinstance(command, TransactionInfo)
    return TransactionRolledBackException(
        "Transaction completion in doubt due to failover. Forcing rollback of "
        f"{command.transaction_id}",
        hint="the lost broker may have committed it; messages that it delivers again were not",
    )


def resources(state: ClientState, pending: frozenset[int]) -> Iterator[Command]:
    """Yield the commands of the connection's open resources.

    Commands whose `id()` is in `pending` are omitted: they are sent again as requests.
    """
    for destination in state.temporaries.values():
        if id(destination) not in pending:
            yield copy(destination)
    for session_id in _sessions(state):
        if session_id in state.sessions:
            yield copy(state.sessions[session_id])
        for producer_id, producer in state.producers.items():
            if producer_id.session_id == session_id.value and id(producer) not in pending:
                yield copy(producer)
        for consumer_id, consumer in state.consumers.items():
            if consumer_id.session_id == session_id.value and id(consumer) not in pending:
                yield _without_prefetch(consumer)
    yield from state.transactions.replay(pending)
    yield from map(copy, state.cached.values())


def consumer_controls(state: ClientState, pending: frozenset[int]) -> Iterator[ConsumerControl]:
    """Yield the commands that set the prefetch of the consumers of `resources`."""
    for consumer_id, info in state.consumers.items():
        if info.prefetch_size > 0 and id(info) not in pending:
            yield ConsumerControl(
                info.destination, consumer_id=consumer_id, prefetch=info.prefetch_size
            )


def _sessions(state: ClientState) -> list[SessionId]:
    """Return the sessions, including implicit ones, such as that of the advisory consumer."""
    implicit = (
        SessionId(consumer_id.connection_id, consumer_id.session_id)
        for consumer_id in state.consumers
    )
    return list(dict.fromkeys([*implicit, *state.sessions]))


def repeat(request: Request) -> Command:
    """Return the command with which a request is sent again."""
    command = request.command
    if isinstance(command, ConnectionInfo) and request.was_sent:
        return reconnecting(command)  # otherwise Artemis refuses a client that it knows
    return copy(command)


def reconnecting(info: ConnectionInfo) -> ConnectionInfo:
    """Return the command that registers a connection again."""
    again = copy(info)
    again.failover_reconnect = True
    return again


def _without_prefetch(info: ConsumerInfo) -> ConsumerInfo:
    again = copy(info)
    again.prefetch_size = 0
    return again
