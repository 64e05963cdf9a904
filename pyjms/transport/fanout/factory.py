"""The factory of `fanout:` transports. (activemq-edges U6)"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyjms.transport.failover.brokers import BrokerList
from pyjms.transport.failover.connector import Connector
from pyjms.transport.failover.factory import discovery_agent, finds_brokers, static_brokers
from pyjms.transport.failover.options import FAILOVER, INFINITE, FailoverOptions
from pyjms.transport.failover.transport import FailoverTransport
from pyjms.transport.fanout.branch import Branch
from pyjms.transport.fanout.discovering import DiscoveringFanout
from pyjms.transport.fanout.transport import FanoutTransport
from pyjms.transport.openwire.correlator import RequestTransport
from pyjms.transport.options import (
    Options,
    at_least,
    boolean,
    check_known,
    integer,
    options_for,
    read_options,
)
from pyjms.transport.uri import TransportURI, could_not_create

__all__ = ["fanout_transport"]


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
