"""`fanout:`: one client connected to several brokers at the same time.

The client is registered with all brokers, and messages to topics are sent to all:

    command                                    goes to
    ----------------------------------------   ---------------------------------------------------
    messages to topics; with `fan_out_queues`  the connected brokers; if they are fewer than
    also to queues                             `min_ack_count`, all: the others on reconnection
    other messages, consumers,                 the primary broker: the first one that was connected
    acknowledgements and pulls
    everything else: connection, sessions,     all brokers; those that are not connected get it on
    producers, destinations, transactions      reconnection

A request to several brokers is done when `min_ack_count` of them have executed it, and fails when
so many no longer can. Then nobody waits for the others; a disconnected broker would delay the
request until its return. What a broker missed while it was lost, it does not get later.

With an agent that finds the brokers, a broker found later is sent the client's resources, except
for its consumers, and takes part from then on. A broker that is no longer announced is dropped once
its connection is lost, unless it is the primary broker. Discovered addresses are not trusted: see
`read_received_address`. A limited number of brokers is used; at the limit, an unreachable broker is
dropped in favor of the next one. (activemq-edges U6, U7)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import anyio

from pyjms.errors import (
    ConfigurationException,
    ConnectionFailedException,
    UnsupportedOperationException,
)
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import WarnedOnce, get_logger, shorten
from pyjms.transport.discovery import DiscoveryAgent
from pyjms.transport.failover.brokers import FAILOVER, INFINITE, BrokerList, FailoverOptions
from pyjms.transport.failover.connector import Connector
from pyjms.transport.failover.state import ClientState, is_done_by_loss
from pyjms.transport.failover.transport import (
    FailoverTransport,
    discovery_agent,
    finds_brokers,
    static_brokers,
)
from pyjms.transport.openwire.correlator import (
    ReconnectingTransport,
    RequestTransport,
    fresh_error,
    stop_error,
)
from pyjms.transport.options import (
    Options,
    at_least,
    boolean,
    check_known,
    integer,
    options_for,
    read_options,
)
from pyjms.transport.uri import TransportURI, could_not_create, read_received_address
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
from pyjms.wire.openwire.commands import ConnectionError as BrokerError

logger: Final = get_logger(__name__)

OnResponse = Callable[[Response | Exception], None]


class Branch:
    """One broker, with a transport that reconnects by itself."""

    def __init__(self, uri: TransportURI, transport: ReconnectingTransport) -> None:
        self.uri = uri
        self.transport = transport
        self.is_connected: bool = False
        self.has_failed: bool = False
        """Whether the transport has given up."""
        self.owner: FanoutTransport | None = None
        transport.listener = self
        transport.interruptions = self

    async def start(self) -> None:
        """Connect; the owner is told the outcome."""
        try:
            await self.transport.start()
        except Exception as error:
            self.on_exception(error)
        else:
            self.transport_resumed()

    def on_command(self, command: Command) -> None:
        """Pass a command of the broker to the owner."""
        if self.owner is not None:
            self.owner.on_branch_command(self, command)

    def on_exception(self, error: Exception) -> None:
        """Record that the transport has given up."""
        self.has_failed = True
        self.transport_interrupted(error)

    def transport_interrupted(self, error: Exception) -> None:
        """Record that the broker is lost."""
        self.is_connected = False
        if self.owner is not None:
            self.owner.on_branch_change(self, error)

    def transport_resumed(self) -> None:
        """Record that the transport is connected."""
        self.is_connected = True
        if self.owner is not None:
            self.owner.on_branch_change(self, None)


@dataclass(eq=False)
class FanoutRequest:
    """A request to several brokers, with the callback for its outcome."""

    command: Command
    on_response: OnResponse
    needed: int
    waiting: dict[Branch, Command] = field(default_factory=dict)
    """The brokers that have not responded, and the command sent to each."""
    executed: int = 0
    error: Exception | None = None


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
        self._requests: dict[
            int, FanoutRequest
        ] = {}  # without an outcome yet, by `id()` of command
        self._changed = anyio.Event()
        self._error: Exception | None = None
        self._is_started = False
        self._is_paused = False
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
            raise fresh_error(self._error)
        self._is_started = True

    def _start_branch(self, branch: Branch) -> None:
        self._starting = [task for task in self._starting if not task.done]
        self._starting.append(spawn(branch.start, name=f"pyjms fanout {branch.uri}"))

    async def stop(self) -> None:
        self._error = self._error or stop_error(self.remote_address)
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
        is_for_all = self._is_for_all(command) and not is_done_by_loss(command)
        needed = self._min_ack_count if is_for_all else min(self._min_ack_count, len(copies))
        request = FanoutRequest(command, on_response, needed, dict(copies))
        self._requests[id(command)] = request
        for branch, each in copies:
            try:
                self._request(branch, request, each)
            except Exception:
                self._requests.pop(id(command), None)
                raise

    def _request(self, branch: Branch, request: FanoutRequest, command: Command) -> None:
        complete = partial(self._on_response, request, branch)
        try:
            branch.transport.request_soon(command, complete)
        except ConnectionFailedException as error:
            complete(error)

    def _on_response(
        self, request: FanoutRequest, branch: Branch, outcome: Response | Exception
    ) -> None:
        """Record the response of one broker."""
        if request.waiting.pop(branch, None) is None:
            return
        if isinstance(outcome, Exception):
            request.error = request.error or outcome
        else:
            request.executed += 1
        if self._requests.get(id(request.command)) is not request:
            return
        if request.executed >= request.needed and isinstance(outcome, Response):
            self._finish(request, outcome)
        else:
            self._finish_if_impossible(request)

    def _finish_if_impossible(self, request: FanoutRequest) -> None:
        if request.error and request.executed + len(request.waiting) < request.needed:
            self._finish(request, request.error)

    def _finish(self, request: FanoutRequest, outcome: Response | Exception) -> None:
        self._requests.pop(id(request.command), None)
        for branch in [each for each in request.waiting if not each.is_connected]:
            branch.transport.abandon(request.waiting.pop(branch))
        request.on_response(outcome)

    def abandon(self, command: Command) -> None:
        request = self._requests.pop(id(command), None)
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
        return not self._has_enough or any(
            branch.transport.congested for branch in self._awaited_branches()
        )

    async def drain(self) -> None:
        """Wait until there are enough brokers and their transports are drained.

        The wait does not include a broker that is lost in the meantime, unless it is the primary.

        Raises:
            ConnectionFailedException: the transport has failed or was stopped.
        """
        while self._error is None:
            waiting = [b for b in self._awaited_branches() if b.transport.congested]
            if not self._has_enough:
                await self._changed.wait()
            elif waiting:
                await self._wait_until_drained_or_lost(waiting[0])
            else:
                return
        raise fresh_error(self._error)

    async def _wait_until_drained_or_lost(self, branch: Branch) -> None:
        """Wait until a broker's transport is drained, or any broker is lost or connected."""

        async def drain_one() -> None:
            try:
                await branch.transport.drain()
            except ConnectionFailedException as error:
                logger.debug("Sending to %s has ended: %s", branch.uri, error)
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(drain_one)
            await self._changed.wait()
            group.cancel_scope.cancel()

    def pause_reading(self) -> None:
        self._is_paused = True
        for branch in self._branches:
            branch.transport.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
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
            return self._connected_branches()
        return self._alive()

    def _is_for_all(self, command: Command) -> bool:
        """Whether `command` is for all brokers, not for the primary one alone."""
        if isinstance(command, ActiveMQMessage):
            destination = command.destination
            return self._fan_out_queues or bool(destination and destination.is_topic)
        if isinstance(command, RemoveInfo):
            return not isinstance(command.object_id, ConsumerId)
        return not isinstance(command, _OF_CONSUMERS)

    def _connected_branches(self) -> list[Branch]:
        return [branch for branch in self._branches if branch.is_connected]

    def _alive(self) -> list[Branch]:
        return [branch for branch in self._branches if not branch.has_failed]

    def _awaited_branches(self) -> list[Branch]:
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
            raise fresh_error(self._error)

    # --- receiving

    def on_branch_command(self, branch: Branch, command: Command) -> None:
        """Pass on the commands of the primary broker, and the errors of the others."""
        if branch is self._primary or isinstance(command, BrokerError):
            self.listener.on_command(command)

    def on_branch_change(self, branch: Branch, error: Exception | None) -> None:
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


MAXIMUM_FOUND: Final = 100
"""Brokers that a client is connected to because an agent has found them."""
_QUOTED: Final = 200
"""Characters of a service, or of the reason why it is not used, that are logged."""
_LATE: Final = 3.0
"""Seconds until the log says that there are too few brokers."""


class DiscoveringFanout(FanoutTransport):
    """One client at all brokers that an agent finds; a DiscoveryListener. Belongs to one loop."""

    def __init__(
        self,
        agent: DiscoveryAgent,
        discovered: Mapping[str, str],
        make_branch: Callable[[TransportURI], Branch],
        name: str,
        *,
        min_ack_count: int = 2,
        fan_out_queues: bool = False,
    ) -> None:
        """Use the brokers that `agent`, called `name`, finds.

        `discovered` has the options of their URLs; `make_branch` makes the connection to one.
        """
        super().__init__((), min_ack_count=min_ack_count, fan_out_queues=fan_out_queues)
        self._agent = agent
        self._discovered = dict(discovered)
        self._make_branch = make_branch
        self._name = name
        self._known = ClientState(FailoverOptions())
        self._found: dict[str, Branch] = {}
        self._withdrawn: set[str] = set()
        self._leaving: list[BackgroundTask] = []
        self._warned = WarnedOnce()

    # --- life cycle

    async def start(self) -> None:
        """Look for brokers; waits until `min_ack_count` are connected."""
        self._starting.append(spawn(self._tell_when_late, name=f"pyjms fanout {self._name} late"))
        await self._agent.start(self)
        await self._wait_for_enough()

    async def stop(self) -> None:
        await self._agent.stop()
        await super().stop()
        await end_tasks(*self._leaving)

    async def _tell_when_late(self) -> None:
        await _clock.sleep(_LATE)
        if not self._has_enough:
            logger.warning(
                "%s waits until %d brokers are connected; %s has found %d, of which %d are",
                self.remote_address,
                self._min_ack_count,
                self._name,
                len(self._found),
                len(self._connected_branches()),
            )

    @property
    def remote_address(self) -> str:
        return f"fanout:({self._name})"

    # --- sending, and recording of the commands for brokers discovered later

    def oneway(self, command: Command) -> None:
        super().oneway(command)
        self._known.track(command)

    def request_soon(
        self, command: Command, on_response: Callable[[Response | Exception], None]
    ) -> None:
        self._known.track(command)
        super().request_soon(command, partial(self._record_outcome, command, on_response))

    def abandon(self, command: Command) -> None:
        super().abandon(command)
        self._known.complete(command)

    def _record_outcome(
        self,
        command: Command,
        on_response: Callable[[Response | Exception], None],
        outcome: Response | Exception,
    ) -> None:
        self._known.complete(command)
        if isinstance(outcome, Exception):
            self._known.untrack(command)
        on_response(outcome)

    # --- from the agent

    def service_added(self, service: str) -> None:
        """Connect to a broker that was found."""
        self._withdrawn.discard(service)
        if service in self._found or self._error is not None or not self._make_space(service):
            return
        try:
            address = read_received_address(service)
            branch = self._make_branch(replace(address.uri, options=self._discovered))
        except (ConfigurationException, UnsupportedOperationException) as error:
            self._warn(service, service, error)
            return
        logger.debug("%s has found %s", self._name, branch.uri)
        self._found[service] = branch
        self._join(branch)

    def service_removed(self, service: str) -> None:
        """Drop a broker that is no longer announced, once it is not connected."""
        if service in self._found:
            self._withdrawn.add(service)
            self._leave_out_withdrawn()

    def on_branch_change(self, branch: Branch, error: Exception | None) -> None:
        super().on_branch_change(branch, error)
        if branch.has_failed and branch is not self._primary:
            self._leave_out(branch)
        elif error is not None:
            self._leave_out_withdrawn()

    # --- brokers that come and go

    @property
    def _may_go_on(self) -> bool:
        return True  # others may be found

    def _join(self, branch: Branch) -> None:
        """Add a broker, and queue the commands from which it learns of the client's resources."""
        transport, known = branch.transport, self._known
        branch.owner = self
        if self._is_paused:
            transport.pause_reading()
        resources: list[Command] = [*known.connections.values(), *known.temporaries.values()]
        resources += [*known.sessions.values(), *known.producers.values()]
        for command in (*resources, *known.transactions.replay(frozenset())):
            transport.oneway(copy(command))
        self._branches.append(branch)
        for request in list(self._requests.values()):
            if self._is_for_all(request.command):
                again = copy(request.command)
                request.waiting[branch] = again
                self._request(branch, request, again)
        self._start_branch(branch)

    def _leave_out_withdrawn(self) -> None:
        for service in list(self._withdrawn):
            branch = self._found[service]
            if not branch.is_connected and branch is not self._primary:
                self._leave_out(branch)

    def _leave_out(self, branch: Branch) -> None:
        for service in [service for service, each in self._found.items() if each is branch]:
            del self._found[service]
            self._withdrawn.discard(service)
            self._branches.remove(branch)
            branch.owner = None
            for request in list(self._requests.values()):
                if sent := request.waiting.pop(branch, None):
                    branch.transport.abandon(sent)
                    self._finish_if_impossible(request)  # otherwise one that joins may respond
            self._leaving = [task for task in self._leaving if not task.done]
            name = f"pyjms fanout leaves {branch.uri}"
            self._leaving.append(spawn(branch.transport.stop, name=name))

    def _make_space(self, service: str) -> bool:
        """Return whether `service` can be used, if need be instead of an unreachable broker."""
        if len(self._found) < MAXIMUM_FOUND:
            return True
        lost = (b for b in self._found.values() if not b.is_connected and b is not self._primary)
        branch = next(lost, None)
        if branch is None:
            self._warn("too many", service, f"{MAXIMUM_FOUND} brokers are connected already")
            return False
        self._leave_out(branch)
        return True

    def _warn(self, key: str, service: str, reason: object) -> None:
        """Log once for each `key` why a discovered broker is not used."""
        if not self._warned.is_due(key):
            return
        logger.warning(
            "%s is not used, which %s has found: %s",
            shorten(service, _QUOTED),
            self._name,
            shorten(str(reason), _QUOTED),
        )


def _attempts(text: str) -> int:
    return integer(text) if integer(text) > 0 else INFINITE


_RECONNECTION: Final[Options] = {
    **{
        name: FAILOVER[name]
        for name in (
            "initialReconnectDelay",
            "maxReconnectDelay",
            "backOffMultiplier",
            "useExponentialBackOff",
        )
    },
    "maxReconnectAttempts": ("max_reconnect_attempts", _attempts),
}
_FANOUT: Final[Options] = {
    **options_for(at_least(1, "write a number of 1 or more"), "min_ack_count"),
    **options_for(boolean, "fan_out_queues"),
}


def fanout_transport(
    uri: TransportURI, create: Callable[[TransportURI], RequestTransport]
) -> RequestTransport:
    """Return a transport for `fanout:(static:(uri,uri))?options`, not started.

    Or for the brokers that an agent finds: `fanout:(multicast://default)?options`; options
    `discovered.*` are for their URLs. `create` makes the transports of the brokers, whose URLs are
    checked by it at once.

    Raises:
        ConfigurationException: an option, the agent, or the URL of a broker, is wrong; there are
            fewer brokers than `minAckCount`.
        UnsupportedOperationException: a broker's scheme is not supported.
    """
    discovered, rest = uri.split_options("discovered.") if finds_brokers(uri) else ({}, uri)
    check_known(rest, {*_RECONNECTION, *_FANOUT}, ignored={})
    options = read_options(rest.options, _FANOUT)
    needed = options.setdefault("min_ack_count", 2)
    reconnection = FailoverOptions(
        **read_options(rest.options, _RECONNECTION),
        randomize=False,
        update_uris_supported=False,
        reconnect_supported=False,
    )

    def branch(component: TransportURI) -> Branch:
        create(component)
        brokers = BrokerList((component,), reconnection, {})
        connector = Connector(brokers, reconnection, create)
        return Branch(component, FailoverTransport(connector, reconnection))

    if finds_brokers(uri):
        agent = discovery_agent(uri.components[0])
        return DiscoveringFanout(agent, discovered, branch, str(uri.components[0]), **options)
    components = static_brokers(rest)
    if needed > len(components):
        raise could_not_create(
            f"{uri} names {len(components)} brokers, but minAckCount is {needed}",
            hint="name more brokers, or set a lower minAckCount",
        )
    return FanoutTransport([branch(each) for each in components], **options)
