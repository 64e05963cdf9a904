"""The fanout transport: every broker has the client, and topics' messages are sent to all of them.

    command                                    goes to
    ----------------------------------------   ---------------------------------------------------
    messages to topics; with `fan_out_queues`  the connected brokers; while they are fewer than
    to queues, too                             `min_ack_count`, all: the others when they are back
    other messages, consumers, what they       the primary broker: the first one that was connected
    acknowledge and pull
    everything else: connection, sessions,     all brokers: those that are not connected when they
    producers, destinations, transactions      are back

A request to several brokers is done when `min_ack_count` of them have executed it, and fails when
so many no longer can. What a broker missed while it was lost, it does not get later.
(activemq-edges U6)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import anyio

from pyjms._logger import get_logger
from pyjms._wakeup import BackgroundTask, end_tasks, spawn
from pyjms.errors import ConnectionFailedException
from pyjms.transport.failover import in_flight
from pyjms.transport.fanout.branch import Branch
from pyjms.transport.openwire.reconnecting import ReconnectingTransport
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    Command,
    ConsumerId,
    ConsumerInfo,
    MessageAck,
    MessagePull,
    RemoveInfo,
    Response,
)
from pyjms.wire.openwire.commands import (
    ConnectionError as BrokerError,
)

__all__ = ["FanoutTransport"]

logger: Final = get_logger(__name__)

_OF_CONSUMERS = (ConsumerInfo, MessageAck, MessagePull)


@dataclass
class _Request:
    """A request to several brokers, and who waits for it."""

    command: Command
    on_response: Callable[[Response | Exception], None]
    needed: int
    sent: list[tuple[Branch, Command]] = field(default_factory=list)
    outstanding: int = 0
    executed: int = 0
    error: Exception | None = None
    is_done: bool = False


class FanoutTransport(ReconnectingTransport):
    """One client at several brokers. Belongs to one loop. ActiveMQ: FanoutTransport."""

    def __init__(
        self, branches: Sequence[Branch], *, min_ack_count: int = 2, fan_out_queues: bool = False
    ) -> None:
        """Use `branches`, at least `min_ack_count`, none of them started."""
        self._branches = branches
        self._min_ack_count = min_ack_count
        self._fan_out_queues = fan_out_queues
        self._primary: Branch | None = None
        self._requests: dict[int, _Request] = {}  # by `id()` of the command
        self._changed = anyio.Event()
        self._error: Exception | None = None
        self._is_started = False
        self._starting: list[BackgroundTask] = []
        for branch in branches:
            branch.owner = self

    # --- life cycle

    async def start(self) -> None:
        """Connect to all brokers; waits until `min_ack_count` are connected, or cannot be."""
        self._starting = [
            spawn(branch.start, name=f"pyjms fanout {branch.uri}") for branch in self._branches
        ]
        while self._error is None and not self._has_enough:
            await self._changed.wait()
        if self._error is not None:
            raise in_flight.failed_again(self._error)
        self._is_started = True

    async def stop(self) -> None:
        self._error = self._error or in_flight.stopped(self.remote_address)
        self._is_started = False
        self._notify()
        await end_tasks(*self._starting)
        for branch in self._branches:
            branch.owner = None
            await branch.transport.stop()

    @property
    def remote_address(self) -> str:
        return f"fanout:({', '.join(str(branch.uri) for branch in self._branches)})"

    @property
    def notices_silence(self) -> bool:
        return False

    @property
    def wire_version(self) -> int:
        return (
            super().wire_version if self._primary is None else self._primary.transport.wire_version
        )

    @property
    def max_frame_size(self) -> int | None:
        return None if self._primary is None else self._primary.transport.max_frame_size

    # --- sending

    def oneway(self, command: Command) -> None:
        self._check_usable()
        for branch, each in self._copies(command):
            branch.transport.oneway(each)

    def request_soon(
        self, command: Command, on_response: Callable[[Response | Exception], None]
    ) -> None:
        self._check_usable()
        copies = self._copies(command)
        request = _Request(command, on_response, min(self._min_ack_count, len(copies)), copies)
        request.outstanding = len(copies)
        self._requests[id(command)] = request
        for branch, each in copies:
            answered = partial(self._on_response, request)
            try:
                branch.transport.request_soon(each, answered)
            except ConnectionFailedException as error:
                answered(error)
            except Exception:
                self._requests.pop(id(command), None)
                raise

    def abandon(self, command: Command) -> None:
        request = self._requests.pop(id(command), None)
        if request is not None:
            request.is_done = True
            for branch, each in request.sent:
                branch.transport.abandon(each)

    def flush(self) -> None:
        for branch in self._branches:
            branch.transport.flush()

    def withdraw(self, command: Command) -> bool:
        targets = self._targets(command)
        withdrawn = [branch for branch in self._branches if branch.transport.withdraw(command)]
        return all(branch in withdrawn for branch in targets)  # else a broker has it

    def defer(self, function: Callable[[], object]) -> bool:
        return self._primary is not None and self._primary.transport.defer(function)

    @property
    def congested(self) -> bool:
        return not self._has_enough or any(branch.transport.congested for branch in self._awaited())

    async def drained(self) -> None:
        """Wait until there are enough brokers, and their transports take more.

        Nobody waits for a broker that is lost meanwhile, unless it is the primary one.

        Raises:
            ConnectionFailedException: the transport has failed or was stopped.
        """
        while self._error is None:
            waiting = [b for b in self._awaited() if b.transport.congested]
            if not self._has_enough:
                await self._changed.wait()
            elif waiting:
                await self._drained_or_lost(waiting[0])
            else:
                return
        raise in_flight.failed_again(self._error)

    async def _drained_or_lost(self, branch: Branch) -> None:
        """Wait until a broker takes more, or any broker is lost, left out or connected."""

        async def drained() -> None:
            try:
                await branch.transport.drained()
            except ConnectionFailedException as error:
                logger.debug("Nothing more is sent to %s: %s", branch.uri, error)
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(drained)
            await self._changed.wait()
            group.cancel_scope.cancel()

    def pause_reading(self) -> None:
        for branch in self._branches:
            branch.transport.pause_reading()

    def resume_reading(self) -> None:
        for branch in self._branches:
            branch.transport.resume_reading()

    def _copies(self, command: Command) -> list[tuple[Branch, Command]]:
        """Return the brokers that get `command`, each with an object of its own."""
        targets = self._targets(command)
        return [(branch, copy(command) if n else command) for n, branch in enumerate(targets)]

    def _targets(self, command: Command) -> Sequence[Branch]:
        assert self._primary is not None
        if isinstance(command, ActiveMQMessage):
            destination = command.destination
            if not self._fan_out_queues and not (destination and destination.is_topic):
                return [self._primary]
            return self._connected() if self._has_enough else self._alive()
        of_consumers = isinstance(command, _OF_CONSUMERS) or (
            isinstance(command, RemoveInfo) and isinstance(command.object_id, ConsumerId)
        )
        return [self._primary] if of_consumers else self._alive()

    def _connected(self) -> list[Branch]:
        return [branch for branch in self._branches if branch.is_connected]

    def _alive(self) -> list[Branch]:
        return [branch for branch in self._branches if not branch.has_failed]

    def _awaited(self) -> list[Branch]:
        """Return those for which a sender waits."""
        return [b for b in self._branches if b.is_connected or b is self._primary]

    @property
    def _has_enough(self) -> bool:
        return sum(branch.is_connected for branch in self._branches) >= self._min_ack_count

    def _check_usable(self) -> None:
        if self._error is not None:
            raise in_flight.failed_again(self._error)

    # --- receiving

    def branch_command(self, branch: Branch, command: Command) -> None:
        """Pass on what the primary broker sends, and the errors of the others."""
        if branch is self._primary or isinstance(command, BrokerError):
            self.listener.on_command(command)

    def branch_changed(self, branch: Branch, error: Exception | None) -> None:
        """Note that a broker is connected, or lost; give up if too few remain."""
        if error is None and self._primary is None:
            self._primary = branch
        is_primary = branch is self._primary
        if branch.has_failed and error is not None and self._error is None:
            logger.warning("%s is left out: %s", branch.uri, error)
            if len(self._alive()) < self._min_ack_count or is_primary:
                self._error = error
                if self._is_started:
                    self.listener.on_exception(error)
        elif is_primary and self._is_started and self.interruptions is not None:
            if error is None:
                self.interruptions.transport_resumed()
            else:
                self.interruptions.transport_interrupted(error)
        self._notify()

    def _on_response(self, request: _Request, outcome: Response | Exception) -> None:
        request.outstanding -= 1
        if isinstance(outcome, Exception):
            request.error = request.error or outcome
        else:
            request.executed += 1
        if request.is_done:
            return
        if request.executed >= request.needed:
            assert isinstance(outcome, Response)
            self._finish(request, outcome)
        elif request.executed + request.outstanding < request.needed:
            assert request.error is not None
            self._finish(request, request.error)

    def _finish(self, request: _Request, outcome: Response | Exception) -> None:
        request.is_done = True
        self._requests.pop(id(request.command), None)
        request.on_response(outcome)

    def _notify(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
