"""The commands that restore a client's state at a new broker, in ActiveMQ's order.

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
(activemq-edges F4; openwire-encoding 15)

The outcomes of requests whose response is pending when the broker is lost.

    removals, acknowledgements, rollbacks    done: the next broker has nothing to remove, deliver
    of local transactions                    again or roll back
    a commit or prepare that may have been   TransactionRolledBackException, once there is a next
    executed                                 broker
    commit and rollback of a prepared        sent again; done if the next broker does not know the
    branch                                   branch any more
    everything else                          sent again; a persistent message that the lost broker
                                             has stored is recognised there (activemq-broker T27)

(activemq-edges F3, F4, F6; activemq-broker X9)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from pyjms.errors import (
    ConnectionFailedException,
    IllegalStateException,
    TransactionRolledBackException,
    XAException,
)
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.transport.base import TransportListener
from pyjms.transport.failover.connector import Peer
from pyjms.transport.failover.state import ClientState
from pyjms.transport.openwire.correlator import RequestTransport
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    Command,
    ConnectionControl,
    ConnectionInfo,
    ConsumerControl,
    ConsumerInfo,
    DestinationInfo,
    LocalTransactionId,
    MessageAck,
    ProducerInfo,
    RemoveInfo,
    Response,
    SessionId,
    Throwable,
    TransactionInfo,
    TransactionType,
)
from pyjms.wire.openwire.commands import ConnectionError as ConnectionErrorCommand

# --- The requests whose response is pending, and the messages that have not been sent yet.

OnResponse = Callable[[Response | Exception], None]


@dataclass
class Request:
    """A request, and the callback for its response."""

    number: int
    command: Command
    on_response: OnResponse
    since: float
    """When it was made."""
    was_sent: bool = False
    """Whether a broker may have received it."""
    was_repeated: bool = False
    """Whether several brokers may have received it."""


class OpenRequests:
    """The requests of one client, in the order in which they were sent."""

    def __init__(self) -> None:
        self._requests: dict[int, Request] = {}
        self._number = 0

    def __iter__(self) -> Iterator[Request]:
        return iter(list(self._requests.values()))

    def add(self, command: Command, on_response: OnResponse) -> Request:
        """Add a request that is about to be sent."""
        self._number += 1
        request = Request(self._number, command, on_response, _clock.now())
        self._requests[request.number] = request
        return request

    def pop(self, number: int) -> Request | None:
        """Remove a request and return it; None: it was abandoned or completed."""
        return self._requests.pop(number, None)

    def abandon(self, command: Command) -> Request | None:
        """Remove and return the request of `command`, whose caller no longer waits."""
        for request in self:
            if request.command is command:
                return self._requests.pop(request.number)
        return None

    def commands(self) -> frozenset[int]:
        """Return the `id()` of each command."""
        return frozenset(id(request.command) for request in self._requests.values())

    def messages(self) -> list[Request]:
        """Return the requests that send a message."""
        return [r for r in self._requests.values() if isinstance(r.command, ActiveMQMessage)]

    def pop_all(self) -> list[Request]:
        """Remove and return all requests."""
        requests, self._requests = self._requests, {}
        return list(requests.values())


class HeldMessages:
    """Messages sent without response while there was no broker; their senders wait in `drained`."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[ActiveMQMessage, bool]] = {}  # by `id()` of the message

    def add(self, message: ActiveMQMessage, *, is_replayed: bool) -> None:
        """Add a message; `is_replayed`: a replay sends it in any case."""
        self._held[id(message)] = (message, is_replayed)

    def remove(self, message: Command) -> ActiveMQMessage | None:
        """Remove a message whose sender no longer waits; return the message or its held copy.

        Returns None if it was not held.
        """
        held = self._held.pop(id(message), None)
        if held is None and isinstance(message, ActiveMQMessage) and message.message_id:
            for key, (other, _) in self._held.items():
                if other.message_id is message.message_id:  # copies have the same object
                    held = self._held.pop(key)
                    break
        return None if held is None else held[0]

    def unsent(self) -> list[ActiveMQMessage]:
        """Return the messages that a replay does not send."""
        return [message for message, is_replayed in self._held.values() if not is_replayed]

    def clear(self) -> None:
        """Remove all messages, because they were sent."""
        self._held.clear()

    def pop_all(self) -> list[ActiveMQMessage]:
        """Remove and return all messages, which are not sent."""
        held, self._held = self._held, {}
        return [message for message, _ in held.values()]


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


def in_doubt(request: Request) -> TransactionRolledBackException:
    """Return the exception for a commit in doubt. (activemq-broker X9)"""
    command = request.command
    assert isinstance(command, TransactionInfo)
    return TransactionRolledBackException(
        "Transaction completion in doubt due to failover. Forcing rollback of "
        f"{command.transaction_id}",
        hint="the lost broker may have committed it; messages that it delivers again were not",
    )


def timed_out(seconds: float, brokers: object) -> ConnectionFailedException:
    """Return the exception of a send that has timed out."""
    return ConnectionFailedException(
        f"Failover timeout of {seconds * 1000:.0f} ms reached.",
        hint=f"none of [{brokers}] could be reached; the option timeout (ms) sets the limit",
    )


def stopped(address: str) -> ConnectionFailedException:
    """Return the exception of a send through a transport that was stopped."""
    return ConnectionFailedException(f"The transport to {address} was stopped")


def failed_again(error: Exception) -> ConnectionFailedException:
    """Return a new exception for one caller, whose cause is `error`."""
    again = ConnectionFailedException(str(error) or type(error).__name__)
    again.linked_exception = again.__cause__ = error
    return again


logger: Final = get_logger(__name__)

_ANSWERED = (ProducerInfo, ConsumerInfo, DestinationInfo)


class _Sender(Protocol):
    """The failover transport as used by a replay."""

    listener: TransportListener[Command]

    def send_request(self, transport: RequestTransport, request: Request, command: Command) -> None:
        """Send `command`, the request's command or a copy, by the transport of one broker."""


@dataclass(eq=False, repr=False)
class Replay:
    """Restores the client's state at the brokers of one failover transport."""

    _state: ClientState
    _requests: OpenRequests
    _held: HeldMessages
    _sender: _Sender

    async def introduce(self, transport: RequestTransport) -> None:
        """Register the connection with the broker behind `transport`.

        Raises:
            JMSException: the broker refuses the connection, or was lost.
        """
        transport.oneway(ConnectionControl(fault_tolerant=True))
        pending = self._requests.commands()
        for info in self._state.connections.values():
            if id(info) not in pending:
                await transport.request(_reconnecting(info))

    def run(self, peer: Peer) -> None:
        """Send the rest of the state, then the commands that wait to be sent. Synchronous.

        Raises:
            ConnectionFailedException: the broker was lost; `run` is repeated with the next one.
        """
        transport = peer.transport
        doubtful = [request for request in self._requests if is_in_doubt(request)]
        for request in doubtful:
            self._state.completed(request.command)
        pending = self._requests.commands()
        for command in _resources(self._state, pending):
            if isinstance(command, _ANSWERED):
                transport.request_soon(command, partial(self._on_response, command))
            else:
                transport.oneway(command)
        for pull in self._state.pulls.replay():
            transport.oneway(pull)
        for request in self._requests:
            if request not in doubtful:
                self._sender.send_request(transport, request, _repeated(request))
        for message in self._held.unsent():
            transport.oneway(copy(message))
        for control in _consumer_controls(self._state, pending):
            transport.oneway(control)
        if peer.error is not None:
            raise failed_again(peer.error)
        self._held.clear()
        for request in doubtful:
            self._requests.pop(request.number)
            request.on_response(in_doubt(request))

    def _on_response(self, command: Command, outcome: Response | Exception) -> None:
        """Report a command that the broker refuses, since no caller would see it."""
        if isinstance(outcome, ConnectionFailedException) or not isinstance(outcome, Exception):
            return
        kind = type(command).__name__
        logger.warning("The new broker refuses %s: %s", kind, outcome)
        refusal = Throwable(
            "javax.jms.JMSException", f"{kind} was refused after a failover: {outcome}"
        )
        self._sender.listener.on_command(ConnectionErrorCommand(refusal))


def _resources(state: ClientState, pending: frozenset[int]) -> Iterator[Command]:
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


def _consumer_controls(state: ClientState, pending: frozenset[int]) -> Iterator[ConsumerControl]:
    """Yield the commands that set the prefetch of the consumers of `_resources`."""
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


def _repeated(request: Request) -> Command:
    command = request.command
    if isinstance(command, ConnectionInfo) and request.was_sent:
        return _reconnecting(command)  # otherwise Artemis refuses a client that it knows
    return copy(command)


def _reconnecting(info: ConnectionInfo) -> ConnectionInfo:
    again = copy(info)
    again.failover_reconnect = True
    return again


def _without_prefetch(info: ConsumerInfo) -> ConsumerInfo:
    again = copy(info)
    again.prefetch_size = 0
    return again
