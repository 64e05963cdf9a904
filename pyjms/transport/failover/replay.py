"""What a new broker gets instead of the lost one: the client's state, and the pending requests.

The commands that restore the state are in ActiveMQ's order:

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

(activemq-edges F3, F4, F6; activemq-broker X9; openwire-encoding 15)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass

from pyjms.errors import (
    IllegalStateException,
    TransactionRolledBackException,
    XAException,
)
from pyjms.transport.failover.state import ClientState
from pyjms.wire.openwire.commands import (
    Command,
    ConnectionInfo,
    ConsumerControl,
    ConsumerInfo,
    DestinationInfo,
    LocalTransactionId,
    MessageAck,
    RemoveInfo,
    Response,
    SessionId,
    TransactionInfo,
    TransactionType,
)

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
    """Return the exception for a commit in doubt. (activemq-broker X9)"""
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
