"""The remote brokers of a network connector's URI, and the timing of reconnections.

`static:(tcp://a:61616,tcp://b:61616)` names two brokers, with a bridge to each. A component
`failover:(...)`, and a whole `masterslave:(...)`, name one broker at one of several addresses.
`multicast://default` finds brokers by a discovery agent. (activemq-edges 9, U7)
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyjms.errors import ConfigurationException
from pyjms.transport.discovery import create_agent, known_agents
from pyjms.transport.options import Options, boolean, check_known, duration, integer, read_options
from pyjms.transport.registry import create_transport
from pyjms.transport.uri import TransportURI

__all__ = ["Discovered", "Reconnection", "Remote", "read_remotes"]

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

    def delay_after(self, failures: int) -> float:
        """Return the seconds to wait after a number of consecutive failures."""
        if failures <= 0:
            return 0.0
        delay = self.initial_reconnect_delay
        if self.use_exponential_back_off:
            for _ in range(failures - 1):
                delay *= self.back_off_multiplier
                if delay >= self.max_reconnect_delay or delay == 0:
                    return self.max_reconnect_delay if delay else 0.0
        return delay


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
    """Return the brokers of a network connector's URI, each of which gets a bridge.

    Raises:
        ConfigurationException: the URI is invalid, names no broker, or has an unknown agent.
        UnsupportedOperationException: the scheme of a broker is not supported.
    """
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
