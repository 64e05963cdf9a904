"""The factories of `failover:`, `static:` and `discovery:` transports. (activemq-edges 1.3, U7)"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import anyio

from pyjms import _clock
from pyjms.transport.discovery import DiscoveryAgent, create_agent, known_agents
from pyjms.transport.failover.brokers import BrokerList
from pyjms.transport.failover.connector import Connector, CreateTransport
from pyjms.transport.failover.options import FailoverOptions, read_failover_options
from pyjms.transport.failover.transport import FailoverTransport
from pyjms.transport.openwire.correlator import RequestTransport
from pyjms.transport.options import (
    Options,
    boolean,
    check_known,
    integer,
    options_for,
    read_options,
)
from pyjms.transport.uri import TransportURI, could_not_create

__all__ = [
    "DiscoveryTransport",
    "discovery_agent",
    "discovery_transport",
    "failover_transport",
    "finds_brokers",
    "static_brokers",
]


def failover_transport(uri: TransportURI, create: CreateTransport) -> RequestTransport:
    """Return a transport for `failover:(uri,uri)?options`, not started.

    `create` creates the transports of the brokers; the brokers in the URL are checked at once.

    Raises:
        ConfigurationException: an option, or the URL of a broker, is wrong.
        UnsupportedOperationException: a broker's scheme is not supported.
    """
    options, nested = read_failover_options(uri)
    brokers = BrokerList(uri.components, options, nested)
    for component in [*brokers.connect_list(), *brokers.priorities()]:
        create(component)
    return FailoverTransport(Connector(brokers, options, create), options)


_STATIC: Options = {
    **options_for(
        integer,
        "initial_reconnect_delay",
        "max_reconnect_delay",
        "max_reconnect_attempts",
        "min_connect_time",
    ),
    **options_for(float, "back_off_multiplier"),
    **options_for(boolean, "use_exponential_back_off"),
}
_OF_BRIDGES = "it is for network bridges; a client's delays are options for discovery:(...)"


def discovery_transport(uri: TransportURI, create: CreateTransport) -> RequestTransport:
    """Return a transport for `static:(uri,uri)` or `discovery:(agent)?options`.

    As in ActiveMQ, it is a failover transport over the brokers that the agent finds; the options of
    `discovery:` are those of failover. The agent `static` finds the brokers listed in its URL;
    options `discovered.*` apply to the URLs that other agents find, whose own options are ignored.

    Raises:
        ConfigurationException: an option, the agent, or the URL of a broker, is wrong.
    """
    if uri.scheme == "discovery" and finds_brokers(uri):
        return _found_by(uri.components[0], uri, create)
    options = dict(uri.options) if uri.scheme == "discovery" else {}
    return failover_transport(
        TransportURI("failover", options=options, components=static_brokers(uri)), create
    )


def _found_by(agent: TransportURI, uri: TransportURI, create: CreateTransport) -> RequestTransport:
    discovered, rest = uri.split_options("discovered.")
    options, nested = read_failover_options(rest)
    brokers = BrokerList((), options, {**nested, **discovered})
    for each in brokers.priorities():
        create(each)
    connector = Connector(brokers, options, create)
    return DiscoveryTransport(connector, options, discovery_agent(agent))


def finds_brokers(uri: TransportURI) -> bool:
    """Whether what a URL names is one agent that finds brokers, other than `static`."""
    if len(uri.components) != 1:
        return False
    scheme = uri.components[0].scheme
    return scheme != "static" and scheme in known_agents()  # those of packages are read from disk


def discovery_agent(uri: TransportURI) -> DiscoveryAgent:
    """Return the agent of a client; options that agents of bridges have are ignored and logged.

    Raises:
        ConfigurationException: an option is unknown or has a bad value.
    """
    own = {name: text for name, text in uri.options.items() if name in _STATIC}
    check_known(replace(uri, options=own), set(), ignored=dict.fromkeys(own, _OF_BRIDGES))
    bare = {name: text for name, text in uri.options.items() if name not in own}
    return create_agent(replace(uri, options=bare))


def static_brokers(uri: TransportURI) -> tuple[TransportURI, ...]:
    """Return the brokers listed in the agent `static` of a URL, or in a `static:` URL.

    Raises:
        ConfigurationException: another agent is named, or an option is wrong.
    """
    agent = uri
    if uri.scheme != "static":
        if len(uri.components) != 1 or uri.components[0].scheme != "static":
            raise could_not_create(
                f"{uri} names no agent that finds brokers",
                hint=f"list them, as in {uri.scheme}:(static:(tcp://host:1)), or use the agent "
                f"{' or '.join(known_agents())}",
            )
        agent = uri.components[0]
    own = dict.fromkeys(_STATIC, _OF_BRIDGES)
    read_options(agent.options, _STATIC)
    check_known(replace(agent, components=()), set(), ignored=own)
    return agent.components


_FIRST_WAIT: Final = 3.0
"""Seconds until the first attempt, unless a broker is found before; brokers announce themselves
every half second."""


class DiscoveryTransport(FailoverTransport):
    """Connects to a broker that an agent finds, and to another one if that broker is lost."""

    def __init__(
        self, connector: Connector, options: FailoverOptions, agent: DiscoveryAgent
    ) -> None:
        super().__init__(connector, options)
        self._brokers = connector.brokers
        self._agent = agent
        self._services: dict[str, None] = {}
        self._has_found = anyio.Event()

    async def start(self) -> None:
        """Discover brokers, then connect to one; waits according to the options."""
        await self._agent.start(self)
        with _clock.timeout(_FIRST_WAIT):
            await self._has_found.wait()
        await super().start()

    async def stop(self) -> None:
        await self._agent.stop()
        await super().stop()

    # called by the agent
    def service_added(self, service: str) -> None:
        """Use a broker, beginning with the next attempt."""
        self._services[service] = None
        self._brokers.found(self._services)
        if self._brokers.connect_list():
            self._has_found.set()

    def service_removed(self, service: str) -> None:
        """Stop trying a broker, if there are others."""
        self._services.pop(service, None)
        self._brokers.found(self._services)
