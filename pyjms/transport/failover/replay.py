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
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from pyjms._logger import get_logger
from pyjms.errors import ConnectionFailedException
from pyjms.transport.base import TransportListener
from pyjms.transport.failover.in_flight import failed_again, in_doubt, is_in_doubt
from pyjms.transport.failover.peer import Peer
from pyjms.transport.failover.requests import HeldMessages, OpenRequests, Request
from pyjms.transport.failover.state import ClientState
from pyjms.transport.openwire.correlator import RequestTransport
from pyjms.wire.openwire.commands import (
    Command,
    ConnectionControl,
    ConnectionInfo,
    ConsumerControl,
    ConsumerInfo,
    DestinationInfo,
    ProducerInfo,
    Response,
    SessionId,
    Throwable,
)
from pyjms.wire.openwire.commands import ConnectionError as ConnectionErrorCommand

__all__ = ["Replay"]

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
