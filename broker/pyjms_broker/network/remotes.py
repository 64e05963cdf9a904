"""The remote brokers that a network connector's URI names, and when it connects again.

`static:(tcp://a:61616,tcp://b:61616)` names two brokers, with a bridge to each. A component
`failover:(...)`, and `masterslave:(...)` as a whole, names one broker that is found at one of
several addresses. `multicast://default` finds brokers by an agent. (activemq-edges 9, U7)
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyjms.errors import ConfigurationException
from pyjms.transport import create_transport
from pyjms.transport.discovery import create_agent, known_agents
from pyjms.transport.options import Options, boolean, check_known, duration, integer, read_options
from pyjms.transport.uri import TransportURI

__all__ = ["Discovered", "Reconnection", "Remote", "read_remotes"]

_NO_AGENTS: Final = ("zeroconf", "rendezvous", "ldap", "http", "https", "fanout", "udp")
"""Agents of ActiveMQ that are not built, and what is none; another package may add one."""
_WRITE: Final = "write static:(tcp://host:61616)"
_NONE: Final[Mapping[str, str]] = {}


@dataclass(frozen=True)
class Reconnection:
    """When a bridge that could not start, or has failed, starts again; times in seconds.

    Source: ActiveMQ SimpleDiscoveryAgent.
    """

    initial_reconnect_delay: float = 1.0
    max_reconnect_delay: float = 30.0
    use_exponential_back_off: bool = True
    back_off_multiplier: float = 2.0
    max_reconnect_attempts: int = 0
    """Failures in a row after which it gives up; 0: never."""
    min_connect_time: float = 5.0
    """A bridge that ends earlier counts as failed; another one starts again at once."""

    def delay_after(self, failures: int) -> float:
        """Return how many seconds to wait after so many failures in a row."""
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
        """Return the addresses in the order in which they are to be tried."""
        uris = list(self.uris)
        if self.randomize:
            random.shuffle(uris)
        return uris

    def __str__(self) -> str:
        return ",".join(map(str, self.uris))


@dataclass(frozen=True)
class Discovered:
    """The remote brokers that an agent finds."""

    agent: TransportURI
    reconnection: Reconnection
    options: Mapping[str, str]
    """Options for the URL of each broker: those of `discovered.*`."""

    def remote(self, address: TransportURI) -> Remote:
        """Return the broker at an address that was found; its own options are not used."""
        return Remote((replace(address, options=self.options),), reconnection=self.reconnection)


def read_remotes(text: str) -> tuple[Remote, ...] | Discovered:
    """Return the brokers that a network connector's URI names, each of which gets a bridge.

    Raises:
        ConfigurationException: the URI cannot be read, names no broker, or an agent that is not
            known.
        UnsupportedOperationException: the scheme of a broker is not supported.
    """
    uri = TransportURI.parse(text)
    if uri.scheme == "discovery" and len(uri.components) == 1:
        check_known(TransportURI("discovery", options=uri.options), set(), ignored=_NONE)
        uri = uri.components[0]
    if uri.scheme in known_agents():
        return _discovered(uri)
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


def _discovered(uri: TransportURI) -> Discovered:
    own = {name: value for name, value in uri.options.items() if name in _STATIC}
    agent = replace(uri, options={k: v for k, v in uri.options.items() if k not in own})
    options, agent = agent.split_options("discovered.")
    create_agent(agent)
    given: dict[str, Any] = {"initial_reconnect_delay": 5.0, "use_exponential_back_off": False}
    given |= read_options(own, _STATIC)
    return Discovered(agent, Reconnection(**given), options)


def _remote(uri: TransportURI, reconnection: Reconnection) -> Remote:
    if uri.scheme not in ("failover", "masterslave"):
        create_transport(uri)  # refuses a scheme or an option that is wrong
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
