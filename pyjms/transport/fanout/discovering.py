"""The fanout transport over the brokers that an agent finds.

A broker discovered later is sent the client's resources, except for its consumers, and takes part
from then on. A broker that is no longer announced is dropped once its connection is lost, unless
it is the primary broker. Discovered addresses are not trusted: see `read_address`. A limited number
of brokers is used; at the limit, an unreachable broker is dropped in favor of the next one.
(activemq-edges U6, U7)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Final

from pyjms import _clock
from pyjms._logger import WarnedOnce, get_logger, shortened
from pyjms._wakeup import BackgroundTask, end_tasks, spawn
from pyjms.errors import ConfigurationException, UnsupportedOperationException
from pyjms.transport.discovery import DiscoveryAgent
from pyjms.transport.discovery.addresses import read_address
from pyjms.transport.failover.options import FailoverOptions
from pyjms.transport.failover.state import ClientState
from pyjms.transport.fanout.branch import Branch
from pyjms.transport.fanout.transport import FanoutTransport
from pyjms.transport.uri import TransportURI
from pyjms.wire.openwire.commands import Command, Response

__all__ = ["MAXIMUM_FOUND", "DiscoveringFanout"]

logger: Final = get_logger(__name__)

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
        self._is_paused = False

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
                len(self._connected()),
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
        super().request_soon(command, partial(self._answered, command, on_response))

    def abandon(self, command: Command) -> None:
        super().abandon(command)
        self._known.completed(command)

    def pause_reading(self) -> None:
        self._is_paused = True
        super().pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        super().resume_reading()

    def _answered(
        self,
        command: Command,
        on_response: Callable[[Response | Exception], None],
        outcome: Response | Exception,
    ) -> None:
        self._known.completed(command)
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
            address = read_address(service)
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

    def branch_changed(self, branch: Branch, error: Exception | None) -> None:
        super().branch_changed(branch, error)
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
        for request in self._requests:
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
            self._requests.broker_left(branch)
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
            shortened(service, _QUOTED),
            self._name,
            shortened(str(reason), _QUOTED),
        )
