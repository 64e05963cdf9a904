"""`peer://group/name?options`: a broker in the client's process, networked with its group.

Each client of a group has a broker in its own process, which clients with the same broker name in
that process share. The brokers discover each other by multicast and forward messages, so sending
never waits for another machine. Source: ActiveMQ PeerTransportFactory.

The broker's port is open only to this machine, unless `allowAnonymousRemote=true` is set: brokers
on other machines are then discovered, and anyone who can reach the port can read and send all
messages. (activemq-edges U2)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyjms.runtime.ids import IdGenerator
from pyjms.transport.discovery import check_agent
from pyjms.transport.openwire.correlator import RequestTransport
from pyjms.transport.uri import TransportURI, could_not_create
from pyjms_broker.connector.vm.client import vm_transport
from pyjms_broker.network import NetworkConnectorAttributes
from pyjms_broker.service.service import BrokerService
from pyjms_broker.service.uri import check_options, keywords_from

_LOCAL: Final = "interface=127.0.0.1"
"""Option of the discovery agent for a broker that only this machine can reach."""


def peer_transport(uri: TransportURI) -> RequestTransport:
    """Return a client's transport for `peer://group/name?options`, not started.

    The options are those of the broker, as in `broker:(...)?name=value`; `persistent` defaults to
    false. Without a name, the broker gets a unique one.

    Raises:
        ConfigurationException: the group is missing, or an option is unknown or invalid.
    """
    group, _, name = uri.location.partition("/")
    if not group or "/" in name:
        raise could_not_create(
            f"{uri} names no group of brokers", hint="write peer://group/broker?persistent=false"
        )
    check_options(uri.options)
    check_agent(_agent_uri(group, uri.options))
    name = name or f"peer-{IdGenerator().generate()}".replace("ID:", "").replace(":", "-")
    described = TransportURI("peer", f"{group}/{name}", uri.options).with_secrets()
    return vm_transport(TransportURI("vm", name, {"brokerConfig": described}))


async def create_peer(name: str, config: str) -> BrokerService:
    """Create and start the broker that a `peer:` URL describes."""
    uri = TransportURI.parse(config)
    group = uri.location.partition("/")[0]
    keywords: dict[str, Any] = {"persistent": False, **keywords_from(uri.options)}
    service = BrokerService(name, **keywords)
    agent = _agent_uri(group, uri.options)
    host = "0.0.0.0" if service.allow_anonymous_remote else "127.0.0.1"  # noqa: S104 - asked for
    connector = service.add_connector(f"tcp://{host}:0", name=f"peer {group}")
    connector.announcer.uri = TransportURI.parse(agent)
    service.add_network_connector(agent, NetworkConnectorAttributes(name=f"peer-{group}"))
    await service.start()
    return service


def _agent_uri(group: str, options: Mapping[str, str]) -> str:
    is_open = options.get("allowAnonymousRemote", "").lower() == "true"
    return f"multicast://default?group={group}{'' if is_open else '&' + _LOCAL}"
