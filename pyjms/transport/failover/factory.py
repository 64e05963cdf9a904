"""From URLs to transports that are made of others. (activemq-edges 1.3, U7)"""

from __future__ import annotations

from dataclasses import replace

from pyjms.transport.failover.brokers import BrokerList
from pyjms.transport.failover.connector import Connector, CreateTransport
from pyjms.transport.failover.options import read_failover_options
from pyjms.transport.failover.transport import FailoverTransport
from pyjms.transport.openwire.correlator import RequestTransport
from pyjms.transport.options import Options, boolean, check_known, integer, read_options
from pyjms.transport.uri import TransportURI, could_not_create

__all__ = ["discovery_transport", "failover_transport", "static_brokers"]


def failover_transport(uri: TransportURI, create: CreateTransport) -> RequestTransport:
    """Return a transport for `failover:(uri,uri)?options`, not started.

    `create` makes the transports of the brokers; those of the URL are checked by it at once.

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
    "initialReconnectDelay": ("initial_reconnect_delay", integer),
    "maxReconnectDelay": ("max_reconnect_delay", integer),
    "backOffMultiplier": ("back_off_multiplier", float),
    "useExponentialBackOff": ("use_exponential_back_off", boolean),
    "maxReconnectAttempts": ("max_reconnect_attempts", integer),
    "minConnectTime": ("min_connect_time", integer),
}
_OF_BRIDGES = "it is for network bridges; a client's delays are options of discovery:(...)"


def discovery_transport(uri: TransportURI, create: CreateTransport) -> RequestTransport:
    """Return a transport for `static:(uri,uri)` or `discovery:(static:(uri,uri))?options`.

    As in ActiveMQ, it is a failover transport over the brokers that the agent has found; the
    options of `discovery:` are those of failover. The agent `static` finds what its URL lists.

    Raises:
        ConfigurationException: an option, or the URL of a broker, is wrong.
        UnsupportedOperationException: another agent than `static` is named.
    """
    options = dict(uri.options) if uri.scheme == "discovery" else {}
    return failover_transport(
        TransportURI("failover", options=options, components=static_brokers(uri)), create
    )


def static_brokers(uri: TransportURI) -> tuple[TransportURI, ...]:
    """Return what the agent `static` of a URL lists, or `static:` itself.

    Raises:
        ConfigurationException: another agent is named, or an option is wrong.
    """
    agent = uri
    if uri.scheme != "static":
        if len(uri.components) != 1 or uri.components[0].scheme != "static":
            raise could_not_create(
                f"{uri} names no agent that finds brokers",
                hint=f"only the agent static is supported: {uri.scheme}:(static:(tcp://host:1))",
            )
        agent = uri.components[0]
    own = dict.fromkeys(_STATIC, _OF_BRIDGES)
    read_options(agent.options, _STATIC)
    check_known(replace(agent, components=()), set(), ignored=own)
    return agent.components
