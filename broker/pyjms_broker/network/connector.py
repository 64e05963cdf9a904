"""A network connector, which maintains bridges to listed remote brokers or to discovered ones.

Anyone who can send to a multicast group can announce anything. Addresses are therefore checked, and
the number of a connector's bridges is limited. The bridge to a broker that is no longer announced
continues until it fails, as in ActiveMQ. (activemq-edges 9, U7)

`static:(tcp://a:61616,tcp://b:61616)` names two brokers, with a bridge to each. A component
`failover:(...)`, and a whole `masterslave:(...)`, name one broker at one of several addresses.
`multicast://default` finds brokers by a discovery agent. (activemq-edges 9, U7)
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyjms.errors import ConfigurationException, JMSException
from pyjms.runtime import clock as _clock
from pyjms.runtime.backoff import BackOff, ExponentialBackOff, FixedBackOff
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import WarnedOnce, get_logger, shorten
from pyjms.transport.discovery import DiscoveryAgent, create_agent, known_agents
from pyjms.transport.options import Options, boolean, check_known, duration, integer, read_options
from pyjms.transport.registry import create_transport
from pyjms.transport.uri import TransportURI
from pyjms.transport.uri import read_received_address as read_address
from pyjms_broker.connector.base import BrokerHost
from pyjms_broker.network.attributes import NetworkConnectorAttributes
from pyjms_broker.network.bridge import LoopBackError, NetworkBridge

logger = get_logger(__name__)

_NO_AGENTS: Final = ("zeroconf", "rendezvous", "ldap", "http", "https", "fanout", "udp")
"""ActiveMQ's unsupported agents, and schemes that are not agents; packages may add agents."""
_WRITE: Final = "write static:(tcp://host:61616)"
_NONE: Final[Mapping[str, str]] = {}


@dataclass(frozen=True)
class Reconnection:
    """The timing of retries of a failed bridge; times are in seconds.

    Source: ActiveMQ SimpleDiscoveryAgent.
    """

    initial_reconnect_delay: float = 1.0
    max_reconnect_delay: float = 30.0
    use_exponential_back_off: bool = True
    back_off_multiplier: float = 2.0
    max_reconnect_attempts: int = 0
    """The number of consecutive failures after which it stops retrying; 0: unlimited."""
    min_connect_time: float = 5.0
    """A bridge that ends within this time counts as failed; after longer, retry at once."""

    def back_off(self) -> BackOff:
        """Return the waits between attempts."""
        attempts = self.max_reconnect_attempts - 1 if self.max_reconnect_attempts > 0 else None
        delay = max(0.0, self.initial_reconnect_delay)
        if not self.use_exponential_back_off:
            return FixedBackOff(delay, attempts, jitter=0)
        longest, factor = max(0.0, self.max_reconnect_delay), max(1.0, self.back_off_multiplier)
        return ExponentialBackOff(delay, factor, max_interval=longest, max_attempts=attempts)


_STATIC: Final[Options] = {
    "initialReconnectDelay": ("initial_reconnect_delay", duration),
    "maxReconnectDelay": ("max_reconnect_delay", duration),
    "useExponentialBackOff": ("use_exponential_back_off", boolean),
    "backOffMultiplier": ("back_off_multiplier", float),
    "maxReconnectAttempts": ("max_reconnect_attempts", integer),
    "minConnectTime": ("min_connect_time", duration),
}
_ALTERNATIVES: Final[Options] = {
    "randomize": ("randomize", boolean),
    "maxReconnectAttempts": ("max_reconnect_attempts", integer),
}


@dataclass(frozen=True)
class Remote:
    """One remote broker, at one of several addresses."""

    uris: tuple[TransportURI, ...]
    randomize: bool = False
    reconnection: Reconnection = field(default_factory=Reconnection)

    def in_order(self) -> list[TransportURI]:
        """Return the addresses in the order of attempts."""
        uris = list(self.uris)
        if self.randomize:
            random.shuffle(uris)
        return uris

    def __str__(self) -> str:
        return ",".join(map(str, self.uris))


@dataclass(frozen=True)
class Discovered:
    """The remote brokers found by a discovery agent."""

    agent: TransportURI
    reconnection: Reconnection
    options: Mapping[str, str]
    """The options `discovered.*`, which are applied to the URL of each broker."""

    def remote(self, address: TransportURI) -> Remote:
        """Return the broker at a discovered address, whose own options are ignored."""
        return Remote((replace(address, options=self.options),), reconnection=self.reconnection)


def read_remotes(text: str) -> tuple[Remote, ...] | Discovered:
    """Return the brokers of a network connector's URI, each of which gets a bridge."""
    uri = TransportURI.parse(text)
    if uri.scheme == "discovery" and len(uri.components) == 1:
        check_known(TransportURI("discovery", options=uri.options), set(), ignored=_NONE)
        uri = uri.components[0]
    if uri.scheme in known_agents():
        return _read_discovered(uri)
    if uri.scheme in _NO_AGENTS:
        raise ConfigurationException(
            f"A network connector cannot find brokers by {uri.scheme}: {uri}",
            hint=f"use multicast://default, or name them: {_WRITE}",
        )
    if uri.scheme == "static":
        reconnection = Reconnection(**_read(uri, _STATIC))
        remotes = tuple(_remote(each, reconnection) for each in uri.components)
        if not remotes:
            raise ConfigurationException(f"{uri} names no broker", hint=_WRITE)
        return remotes
    return (_remote(uri, Reconnection()),)


def _read_discovered(uri: TransportURI) -> Discovered:
    own = {name: value for name, value in uri.options.items() if name in _STATIC}
    agent = replace(uri, options={k: v for k, v in uri.options.items() if k not in own})
    options, agent = agent.split_options("discovered.")
    create_agent(agent)
    given: dict[str, Any] = {"initial_reconnect_delay": 5.0, "use_exponential_back_off": False}
    given |= read_options(own, _STATIC)
    return Discovered(agent, Reconnection(**given), options)


def _remote(uri: TransportURI, reconnection: Reconnection) -> Remote:
    if uri.scheme not in ("failover", "masterslave"):
        create_transport(uri)  # raises an error for an invalid scheme or option
        return Remote((uri,), reconnection=reconnection)
    options = _read(uri, _ALTERNATIVES)
    if options.pop("max_reconnect_attempts", 0) != 0:
        raise ConfigurationException(
            f"maxReconnectAttempts of {uri} is not 0",
            hint="the network connector connects again by itself, with the options of static:(...)",
        )
    if not uri.components:
        raise ConfigurationException(f"{uri} names no broker", hint=_WRITE)
    for component in uri.components:
        create_transport(component)
    randomize = bool(options.get("randomize", uri.scheme == "failover"))
    return Remote(uri.components, randomize, reconnection)


def _read(uri: TransportURI, table: Options) -> dict[str, Any]:
    check_known(
        TransportURI(uri.scheme, options=uri.options), set(table), "discovery", ignored=_NONE
    )
    return read_options(uri.options, table)


MAXIMUM_FOUND: Final = 100
"""The maximum number of discovered brokers to which a network connector connects."""
_MOST_LOGGED: Final = 100
_QUOTED: Final = 200


@dataclass(eq=False, repr=False)
class BridgeKeeper:
    """Maintains a bridge to one remote broker, with retries.

    Args:
        host: the local broker.
        attributes: the attributes of the network connector.
        remote: the remote broker's addresses.
        is_found: whether a discovery agent, which may also find the local broker, has found it.
        is_quiet: whether failures are logged without a warning.
    """

    host: BrokerHost
    attributes: NetworkConnectorAttributes
    remote: Remote
    is_found: bool = field(default=False, kw_only=True)
    is_quiet: bool = field(default=False, kw_only=True)
    is_wanted: bool = field(default=True, init=False)
    """Whether another bridge is started when the bridge has ended."""
    bridge: NetworkBridge | None = field(default=None, init=False)
    """The bridge, while it is forwarding."""
    failure: BaseException | None = field(default=None, init=False)
    """The reason why there is currently no bridge."""
    _task: BackgroundTask | None = field(default=None, init=False)
    _failures: int = field(default=0, init=False)

    @property
    def missing(self) -> tuple[str, str] | None:
        """The remote broker and the reason for having no bridge; None if nothing is missing."""
        failure = self.failure
        if self.bridge is not None or self._task is None or failure is None:
            return None
        return str(self.remote), str(failure)

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done

    @property
    def has_failed(self) -> bool:
        """Whether there is no bridge because the last attempt failed."""
        return self.bridge is None and self._failures > 0

    @property
    def is_needed(self) -> bool:
        """Whether there is, or may still be, a bridge."""
        return self.is_running or self.is_wanted

    def start(self) -> None:
        if not self.is_running:
            self._failures = 0
            name = f"network connector {self.attributes.name} to {self.remote}"
            self._task = spawn(self._run, name=name)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        task, self._task = self._task, None
        await end_tasks(task)

    async def _run(self) -> None:
        waits = self.remote.reconnection.back_off().start()
        while True:
            try:
                await self._live()
            except JMSException as error:
                delay: float | None = 0.0
                if self._failures:
                    delay = waits.next_back_off()
                else:
                    waits = self.remote.reconnection.back_off().start()
                if delay is None or not self.is_wanted or isinstance(error, LoopBackError):
                    self._give_up(error)
                    return
                self._log(error)
                await _clock.sleep(delay)

    async def _live(self) -> None:
        """Start a bridge and wait for its end, which always raises a JMSException."""
        bridge = NetworkBridge(self.host, self.attributes, self.remote)
        began = _clock.now()
        try:
            await bridge.start()
            self.bridge, self.failure = bridge, None
            logger.info(
                "Network connector %s: bridge to %s at %s established",
                self.attributes.name,
                bridge.remote_name,
                bridge.remote_address,
            )
            await bridge.wait_ended()
        finally:
            lived = self.bridge is not None
            self.bridge = None
            await bridge.stop()
            is_short = _clock.now() - began < self.remote.reconnection.min_connect_time
            self._failures = 0 if lived and not is_short else self._failures + 1

    def _log(self, error: JMSException) -> None:
        self.failure = error
        if self._failures <= 1 and not self.is_quiet:
            logger.warning(
                "Network connector %s: no bridge to %s, it is tried again: %s",
                self.attributes.name,
                self.remote,
                error,
            )
        else:
            logger.debug("Network connector %s: %s", self.attributes.name, error)

    def _give_up(self, error: JMSException) -> None:
        name = self.attributes.name
        if self.is_found and isinstance(error, LoopBackError):
            self.failure = None
            logger.debug("Network connector %s has found its own broker", name)
            return
        self.failure = error
        if self.is_wanted:
            logger.error("Network connector %s: %s", name, error)
        else:
            logger.debug("Network connector %s: %s is gone: %s", name, self.remote, error)


class NetworkConnector:
    """Forwards to other brokers while it is started. Use it on the broker's event loop.

    It is the listener of its discovery agent.

    Args:
        host: the local broker.
        uri: the URI of the remote brokers, such as `static:(tcp://b:61616)`.
        attributes: its attributes; None: ActiveMQ's defaults.

    Raises:
        ConfigurationException: the URI is invalid, or has an unknown discovery agent.
        UnsupportedOperationException: the scheme of a broker is not supported.
    """

    def __init__(
        self, host: BrokerHost, uri: str, attributes: NetworkConnectorAttributes | None = None
    ) -> None:
        self._host = host
        self.uri = uri
        self.attributes = attributes or NetworkConnectorAttributes()
        remotes = read_remotes(uri)
        self._keepers: dict[str, BridgeKeeper] = {}
        """By address of a discovered broker, or by place in the list."""
        self._discovered: Discovered | None = None
        if isinstance(remotes, Discovered):
            self._discovered = remotes
        else:
            for place, remote in enumerate(remotes):
                self._keepers[str(place)] = BridgeKeeper(host, self.attributes, remote)
        self._agent: DiscoveryAgent | None = None
        self._starting: BackgroundTask | None = None
        self._leaving: set[BackgroundTask] = set()
        self._warned = WarnedOnce()
        self._count = 0

    @property
    def name(self) -> str:
        """The name, which is unique in the broker."""
        return self.attributes.name

    @property
    def started(self) -> bool:
        """Whether it maintains bridges, or discovers brokers."""
        if self._discovered is not None:
            return self._agent is not None
        return any(keeper.is_running for keeper in self._keepers.values())

    @property
    def bridges(self) -> list[NetworkBridge]:
        """The bridges that are currently forwarding."""
        return [each for keeper in self._keepers.values() if (each := keeper.bridge) is not None]

    @property
    def missing_bridges(self) -> list[tuple[str, str]]:
        """The remote brokers that are not connected, each with the reason."""
        return [each for keeper in self._keepers.values() if (each := keeper.missing) is not None]

    def start(self) -> None:
        """Connect to the remote brokers in the background, with retries. Idempotent."""
        if self._discovered is None:
            for keeper in self._keepers.values():
                keeper.start()
        elif self._agent is None:
            self._agent = create_agent(self._discovered.agent)
            name = f"network connector {self.name} discovery"
            self._starting = spawn(self._agent.start, self, name=name)

    async def stop(self) -> None:
        """End all bridges; messages that were not forwarded stay at this broker. Idempotent."""
        agent, self._agent = self._agent, None
        if agent is not None:
            await end_tasks(self._starting)
            await agent.stop()
        keepers = list(self._keepers.values())
        if self._discovered is not None:
            self._keepers.clear()
        for keeper in keepers:
            keeper.cancel()
        for keeper in keepers:
            await keeper.stop()
        await end_tasks(*self._leaving)

    # from the agent
    def service_added(self, service: str) -> None:
        """Maintain a bridge to a discovered broker."""
        if self._agent is None or any(
            each.connect_uri == service for each in self._host.connectors
        ):
            return
        keeper = self._keepers.get(service)
        if keeper is None:
            keeper = self._new_keeper(service)
        if keeper is not None:
            keeper.is_wanted = True
            keeper.start()

    def service_removed(self, service: str) -> None:
        """Stop reconnecting to a broker that is no longer announced; a live bridge continues."""
        keeper = self._keepers.get(service)
        if keeper is None:
            return
        keeper.is_wanted = False
        if keeper.bridge is None:
            del self._keepers[service]
            self._leaving = {each for each in self._leaving if not each.done}
            name = f"network connector {self.name} leaves {service}"
            self._leaving.add(spawn(keeper.stop, name=name))

    def _new_keeper(self, service: str) -> BridgeKeeper | None:
        assert self._discovered is not None
        if not self._can_add():
            self._warn("too many", f"{MAXIMUM_FOUND} brokers were found already", service)
            return None
        try:
            address = read_address(service)
        except ConfigurationException as error:
            self._warn(service, error.reason, service)
            return None
        logger.debug("Network connector %s has found %s", self.name, address.uri)
        self._count += 1
        made = BridgeKeeper(
            self._host,
            self.attributes,
            self._discovered.remote(address.uri),
            is_found=True,
            is_quiet=self._count > _MOST_LOGGED,  # so many announcements are probably forged
        )
        self._keepers[service] = made
        return made

    def _can_add(self) -> bool:
        """Drop brokers that are gone, or an unreachable one; return whether another one fits."""
        for each in [url for url, keeper in self._keepers.items() if not keeper.is_needed]:
            del self._keepers[each]
        if len(self._keepers) < MAXIMUM_FOUND:
            return True
        failed = next((url for url, keeper in self._keepers.items() if keeper.has_failed), None)
        if failed is not None:
            self.service_removed(failed)
        return failed is not None

    def _warn(self, key: str, reason: str, service: str) -> None:
        """Log once the reason why a discovered broker gets no bridge."""
        if not self._warned.is_due(key):
            return
        logger.warning(
            "Network connector %s does not connect to %s, which was found: %s",
            self.name,
            shorten(service, _QUOTED),
            reason,
        )
