"""Brokers from URIs, by scheme: `broker:`, `properties:`, `xbean:`, and those of other packages.

`peer://group/name?options`: each client of a group has a broker in its own process, which clients
with the same broker name in that process share. The brokers discover each other by multicast and
forward messages, so sending never waits for another machine. The broker's port is open only to this
machine, unless `allowAnonymousRemote=true` is set: brokers on other machines are then discovered,
and anyone who can reach the port can read and send all messages. (ActiveMQ PeerTransportFactory;
activemq-edges U2)

The entry-point group `broker.factories` maps a scheme to a function `factory(uri, given)` that
returns a broker that is not started. `given` are values that a program was started with, ActiveMQ's
system properties. (ActiveMQ BrokerFactory; activemq-broker B12, B13, B16)
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pyjms.configuration.properties_file import read_properties
from pyjms.errors import ConfigurationException
from pyjms.runtime.ids import IdGenerator
from pyjms.runtime.logging import get_logger
from pyjms.transport.discovery import check_agent
from pyjms.transport.openwire.correlator import RequestTransport
from pyjms.transport.uri import TransportURI, could_not_create
from pyjms_broker import entry_points
from pyjms_broker.connector.vm.client import vm_transport
from pyjms_broker.network import NetworkConnectorAttributes
from pyjms_broker.service.service import BrokerService
from pyjms_broker.service.uri import (
    WITHOUT_EFFECT,
    check_options,
    keywords_from,
    known_options,
    read_broker_uri,
)

logger = get_logger(__name__)

BrokerFactory = Callable[[str, Mapping[str, str]], BrokerService]
_HERE: Final = "pyjms_broker.service.factories"
_BUILT_IN: Final = {
    "broker": f"{_HERE}:from_broker_uri",
    "properties": f"{_HERE}:from_properties",
    "xbean": "pyjms_broker.conversion.broker:from_xml",
}
"""Scheme to factory, written as in an entry point: only some brokers need the conversion."""
_CONNECTORS: Final = "transportConnectorURIs"


def create_broker(uri: str, given: Mapping[str, str] | None = None) -> BrokerService:
    """Create the broker that a URI describes; blocking, because it may name a file."""
    scheme, mark, _ = uri.strip().partition(":")
    if not mark:
        read_broker_uri(uri)  # raises the error of a URI without a scheme
    built_in = _BUILT_IN.get(scheme)
    if built_in is not None:
        factory: BrokerFactory = pkgutil.resolve_name(built_in)
        return factory(uri, given or {})
    group = entry_points.FACTORIES
    known = entry_points.installed_names(group)
    if scheme not in known:
        raise ConfigurationException(
            f"Could not load {scheme} factory: broker URIs start with "
            f"{', '.join(f'{each}:' for each in sorted({*_BUILT_IN, *known}))}",
            hint="write broker:(tcp://localhost:61616)/name?persistent=false",
        )
    installed = entry_points.load(group, scheme)
    entry_points.check_loaded(group, scheme, callable(installed), "a function")
    assert callable(installed)
    service = installed(uri, given or {})
    ok = isinstance(service, BrokerService)
    entry_points.check_loaded(group, scheme, ok, "a factory of a BrokerService")
    assert isinstance(service, BrokerService)
    return service


def from_broker_uri(uri: str, _given: Mapping[str, str]) -> BrokerService:
    """Create a broker from `broker:(tcp://host:port,...)/name?persistent=false`."""
    return BrokerService.from_description(read_broker_uri(uri))


def from_properties(uri: str, given: Mapping[str, str]) -> BrokerService:
    """Create a broker from `properties:FILE`, a file of attributes; `given` overrides them."""
    path = Path(uri.partition(":")[2].removeprefix("file:").partition("?")[0])
    properties = {**read_properties(path), **given}
    connectors = properties.pop(_CONNECTORS, "").replace(",", " ").split()
    known = {**known_options(), **dict.fromkeys(WITHOUT_EFFECT)}
    for name in sorted(properties.keys() - known.keys()):
        logger.warning("%s: the broker has no attribute %s; it is ignored", path, name)
    keywords = keywords_from({k: v for k, v in properties.items() if k in known})
    make: Callable[..., BrokerService] = BrokerService
    service = make(**keywords)
    for connector in connectors:
        service.add_connector(connector)
    return service


# --- `peer:`

_LOCAL: Final = "interface=127.0.0.1"
"""Option of the discovery agent for a broker that only this machine can reach."""


def peer_transport(uri: TransportURI) -> RequestTransport:
    """Return a client's transport for `peer://group/name?options`, not started.

    The options are those of the broker, as in `broker:(...)?name=value`; `persistent` defaults to
    false. Without a name, the broker gets a unique one.
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
