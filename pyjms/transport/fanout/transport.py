"""The fanout transport: registers the client with all brokers and sends topic messages to all.

    command                                    goes to
    ----------------------------------------   ---------------------------------------------------
    messages to topics; with `fan_out_queues`  the connected brokers; if they are fewer than
    also to queues                             `min_ack_count`, all: the others on reconnection
    other messages, consumers,                 the primary broker: the first one that was connected
    acknowledgements and pulls
    everything else: connection, sessions,     all brokers; those that are not connected get it on
    producers, destinations, transactions      reconnection

A request to several brokers is done when `min_ack_count` of them have executed it, and fails when
so many no longer can (`requests`). What a broker missed while it was lost, it does not get later.
(activemq-edges U6)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Final

import anyio

from pyjms._logger import get_logger
from pyjms._wakeup import BackgroundTask, end_tasks, spawn
from pyjms.errors import ConnectionFailedException
from pyjms.transport.failover import in_flight
from pyjms.transport.fanout.branch import Branch
from pyjms.transport.fanout.requests import FanoutRequest, FanoutRequests
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


class FanoutTransport(ReconnectingTransport):
    """Connects one client to several brokers. Belongs to one loop. ActiveMQ: FanoutTransport."""

    def __init__(
        self, branches: Sequence[Branch], *, min_ack_count: int = 2, fan_out_queues: bool = False
    ) -> None:
        """Use `branches`, at least `min_ack_count`, none of them started."""
        self._branches = list(branches)
        self._min_ack_count = min_ack_count
        self._fan_out_queues = fan_out_queues
        self._primary: Branch | None = None
        self._requests = FanoutRequests()
        self._changed = anyio.Event()
        self._error: Exception | None = None
        self._is_started = False
        self._starting: list[BackgroundTask] = []
        for branch in branches:
            branch.owner = self

    # --- life cycle

    async def start(self) -> None:
        """Connect to all brokers; wait until `min_ack_count` are connected, or cannot be."""
        for branch in self._branches:
            self._start_branch(branch)
        await self._wait_for_enough()

    async def _wait_for_enough(self) -> None:
        while self._error is None and not self._has_enough:
            await self._changed.wait()
        if self._error is not None:
            raise in_flight.failed_again(self._error)
        self._is_started = True

    def _start_branch(self, branch: Branch) -> None:
        self._starting = [task for task in self._starting if not task.done]
        self._starting.append(spawn(branch.start, name=f"pyjms fanout {branch.uri}"))

    async def stop(self) -> None:
        self._error = self._error or in_flight.stopped(self.remote_address)
        self._is_started = False
        self._notify()
        try:
            await end_tasks(*self._starting)
        finally:
            with anyio.CancelScope(shield=True):
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
        is_for_all = self._is_for_all(command) and not in_flight.is_done_by_loss(command)
        needed = self._min_ack_count if is_for_all else min(self._min_ack_count, len(copies))
        request = self._requests.add(command, on_response, needed, dict(copies))
        for branch, each in copies:
            try:
                self._request(branch, request, each)
            except Exception:
                self._requests.pop(command)
                raise

    def _request(self, branch: Branch, request: FanoutRequest, command: Command) -> None:
        answered = partial(self._requests.responded, request, branch)
        try:
            branch.transport.request_soon(command, answered)
        except ConnectionFailedException as error:
            answered(error)

    def abandon(self, command: Command) -> None:
        request = self._requests.pop(command)
        if request is not None:
            for branch, each in request.waiting.items():
                branch.transport.abandon(each)

    def flush(self) -> None:
        for branch in self._branches:
            branch.transport.flush()

    def withdraw(self, command: Command) -> bool:
        targets = self._targets(command)
        withdrawn = [branch for branch in self._branches if branch.transport.withdraw(command)]
        return all(branch in withdrawn for branch in targets)  # otherwise a broker has it

    def defer(self, function: Callable[[], object]) -> bool:
        return self._primary is not None and self._primary.transport.defer(function)

    @property
    def congested(self) -> bool:
        return not self._has_enough or any(branch.transport.congested for branch in self._awaited())

    async def drained(self) -> None:
        """Wait until there are enough brokers and their transports are drained.

        The wait does not include a broker that is lost in the meantime, unless it is the primary.

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
        """Wait until a broker's transport is drained, or any broker is lost or connected."""

        async def drained() -> None:
            try:
                await branch.transport.drained()
            except ConnectionFailedException as error:
                logger.debug("Sending to %s has ended: %s", branch.uri, error)
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
        """Return the brokers that get `command`, each with a separate copy."""
        targets = self._targets(command)
        return [(branch, copy(command) if n else command) for n, branch in enumerate(targets)]

    def _targets(self, command: Command) -> Sequence[Branch]:
        assert self._primary is not None
        if not self._is_for_all(command):
            return [self._primary]
        if isinstance(command, ActiveMQMessage) and self._has_enough:
            return self._connected()
        return self._alive()

    def _is_for_all(self, command: Command) -> bool:
        """Whether `command` is for all brokers, not for the primary one alone."""
        if isinstance(command, ActiveMQMessage):
            destination = command.destination
            return self._fan_out_queues or bool(destination and destination.is_topic)
        if isinstance(command, RemoveInfo):
            return not isinstance(command.object_id, ConsumerId)
        return not isinstance(command, _OF_CONSUMERS)

    def _connected(self) -> list[Branch]:
        return [branch for branch in self._branches if branch.is_connected]

    def _alive(self) -> list[Branch]:
        return [branch for branch in self._branches if not branch.has_failed]

    def _awaited(self) -> list[Branch]:
        """Return the brokers for which a sender waits."""
        return [b for b in self._branches if b.is_connected or b is self._primary]

    @property
    def _may_go_on(self) -> bool:
        """Whether there can still be enough brokers."""
        return len(self._alive()) >= self._min_ack_count

    @property
    def _has_enough(self) -> bool:
        return sum(branch.is_connected for branch in self._branches) >= self._min_ack_count

    def _check_usable(self) -> None:
        if self._error is not None:
            raise in_flight.failed_again(self._error)

    # --- receiving

    def branch_command(self, branch: Branch, command: Command) -> None:
        """Pass on the commands of the primary broker, and the errors of the others."""
        if branch is self._primary or isinstance(command, BrokerError):
            self.listener.on_command(command)

    def branch_changed(self, branch: Branch, error: Exception | None) -> None:
        """Record that a broker is connected or lost; give up if too few remain."""
        if error is None and self._primary is None:
            self._primary = branch
        is_primary = branch is self._primary
        if branch.has_failed and error is not None and self._error is None:
            logger.warning("%s is not used any more: %s", branch.uri, error)
            if is_primary or not self._may_go_on:
                self._error = error
                if self._is_started:
                    self.listener.on_exception(error)
        elif is_primary and self._is_started and self.interruptions is not None:
            if error is None:
                self.interruptions.transport_resumed()
            else:
                self.interruptions.transport_interrupted(error)
        self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
