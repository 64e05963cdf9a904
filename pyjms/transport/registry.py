"""Transport factories by URL scheme: built in, or registered as entry points.

A package adds a scheme by an entry point in the group `pyjms.transports` whose name is the
scheme and whose value is a `Callable[[TransportURI], RequestTransport]`; see
docs/extending-client.md. Built-in schemes take precedence and need no scan of the installed
packages. Schemes of ActiveMQ that are refused on both ends are in `UNSUPPORTED`, each with the
reason and what to use instead (docs/tls.md has the decisions). (activemq-edges U2, U3)
"""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pyjms.errors import UnsupportedOperationException
from pyjms.runtime.distribution import entry_points
from pyjms.transport.uri import TransportURI, could_not_create

if TYPE_CHECKING:
    from pyjms.transport.openwire.correlator import RequestTransport


class Refusal(NamedTuple):
    """Why a scheme is not supported, and what to use instead."""

    reason: str
    hint: str


_DATAGRAMS = Refusal(
    "datagrams may be lost or duplicated, which OpenWire over UDP only partly corrects; ActiveMQ "
    "discourages it",
    "use tcp://host:port or ssl://host:port",
)
_HTTP = Refusal(
    "it carries OpenWire as XML of Java's XStream library, by polling, and only ActiveMQ Classic's "
    "own broker and client support it",
    "use tcp:// or ssl://host:port",
)
UNSUPPORTED: dict[str, Refusal] = {
    "udp": _DATAGRAMS,
    "multicast": Refusal(
        "it sends each message to all brokers of a network, without acknowledgements",
        "use discovery:(multicast://default) to find brokers, and a topic to reach many consumers",
    ),
    "http": _HTTP,
    "https": Refusal(_HTTP.reason, "use ssl://host:port"),
}


TransportFactory: TypeAlias = "Callable[[TransportURI], RequestTransport]"
GROUP = "pyjms.transports"

_OPENWIRE = "pyjms.transport.openwire.factory:"
_BUILT_IN: dict[str, str] = {
    **dict.fromkeys(("tcp", "nio", "auto", "auto+nio"), f"{_OPENWIRE}tcp_transport"),
    **dict.fromkeys(("ssl", "nio+ssl", "auto+ssl", "auto+nio+ssl"), f"{_OPENWIRE}ssl_transport"),
    "ws": f"{_OPENWIRE}ws_transport",
    "wss": f"{_OPENWIRE}wss_transport",
    "mock": "pyjms.transport.mock:mock_transport",
    "vm": "pyjms_broker.service:vm_transport",
    "peer": "pyjms_broker.service:peer_transport",
}
"""Scheme to factory, written as in an entry point and imported when a URL first names the scheme:
a program with one `tcp:` URL loads neither TLS nor failover. Those of the bundled broker, which is
in the same distribution, are here because the scan for entry points takes 20 ms."""
_COMPOSITE: dict[str, str] = {
    "failover": "pyjms.transport.failover.transport:failover_transport",
    "discovery": "pyjms.transport.failover.transport:discovery_transport",
    "static": "pyjms.transport.failover.transport:discovery_transport",
    "fanout": "pyjms.transport.fanout:fanout_transport",
}
"""The schemes whose factories also get `create_transport`, for the URLs inside their URLs."""

_registered: dict[str, TransportFactory] = {}


def register(scheme: str, factory: TransportFactory | None) -> None:
    """Use `factory` for `scheme` in this process, instead of any other; None: no longer."""
    if factory is None:
        _registered.pop(scheme, None)
    else:
        _registered[scheme] = factory


def create_transport(uri: TransportURI | str) -> RequestTransport:
    """Return the transport for `uri` with all its filters, not started.

    Raises:
        ConfigurationException: the scheme is unknown, or an option is wrong.
        UnsupportedOperationException: ActiveMQ supports the scheme, this implementation does not.
    """
    if isinstance(uri, str):
        uri = TransportURI.parse(uri)
    factory = _registered.get(uri.scheme) or _built_in(uri.scheme) or _from_package(uri.scheme)
    if factory is not None:
        return factory(uri)
    check_supported(uri)
    raise could_not_create(
        f"Transport scheme NOT recognized: [{uri.scheme}]",
        hint=f"known schemes: {', '.join(known_schemes())}; write a URL such as tcp://localhost:61616",
    )


def check_supported(uri: TransportURI) -> None:
    """Refuse a scheme that is deliberately not supported, in `uri` and in the URLs inside it.

    Raises:
        UnsupportedOperationException: there is such a scheme; it says why, and what to use instead.
    """
    if uri.scheme not in {"discovery", "fanout"}:  # which have agents inside
        for component in uri.components:
            check_supported(component)
    refusal = UNSUPPORTED.get(uri.scheme)
    if refusal is not None and uri.scheme not in _registered and _from_package(uri.scheme) is None:
        raise UnsupportedOperationException(
            f"Could not create Transport. Reason: {uri.scheme}: is not supported: {refusal.reason}",
            hint=refusal.hint,
        )


def known_schemes() -> list[str]:
    """Return all schemes that `create_transport` accepts, sorted."""
    installed = (point.name for point in entry_points(group=GROUP))
    return sorted({*_BUILT_IN, *_COMPOSITE, *_registered, *installed})


@functools.cache
def _built_in(scheme: str) -> TransportFactory | None:
    factory: TransportFactory
    if path := _BUILT_IN.get(scheme):
        factory = pkgutil.resolve_name(path)
        return factory
    if path := _COMPOSITE.get(scheme):
        factory = functools.partial(pkgutil.resolve_name(path), create=create_transport)
        return factory
    return None


@functools.cache
def _from_package(scheme: str) -> TransportFactory | None:
    for point in entry_points(group=GROUP, name=scheme):
        factory: TransportFactory = point.load()
        return factory
    return None
