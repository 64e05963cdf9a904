"""Transport factories by URL scheme: built in, or registered as entry points.

A package adds a scheme by an entry point in the group `pyjms.transports` whose name is the
scheme and whose value is a `Callable[[TransportURI], RequestTransport]`; see docs/extending.md.
Built-in schemes come first and need no scan of the installed packages. (activemq-edges U2, U3)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.metadata import entry_points

from pyjms.errors import UnsupportedOperationException
from pyjms.transport.failover import discovery_transport, failover_transport
from pyjms.transport.openwire.correlator import RequestTransport
from pyjms.transport.openwire.factory import ssl_transport, tcp_transport
from pyjms.transport.openwire.mock import mock_transport
from pyjms.transport.unsupported import UNSUPPORTED
from pyjms.transport.uri import TransportURI, could_not_create

__all__ = [
    "GROUP",
    "TransportFactory",
    "check_supported",
    "create_transport",
    "known_schemes",
    "register",
]

TransportFactory = Callable[[TransportURI], RequestTransport]
GROUP = "pyjms.transports"

_factories: dict[str, TransportFactory] = {
    "tcp": tcp_transport,
    "nio": tcp_transport,
    "auto": tcp_transport,
    "auto+nio": tcp_transport,
    "ssl": ssl_transport,
    "nio+ssl": ssl_transport,
    "auto+ssl": ssl_transport,
    "auto+nio+ssl": ssl_transport,
    "mock": mock_transport,
    "failover": lambda uri: failover_transport(uri, create_transport),
    "discovery": lambda uri: discovery_transport(uri, create_transport),
    "static": lambda uri: discovery_transport(uri, create_transport),
}


def register(scheme: str, factory: TransportFactory) -> None:
    """Use `factory` for `scheme` in this process, instead of any other."""
    _factories[scheme] = factory


def create_transport(uri: TransportURI | str) -> RequestTransport:
    """Return the transport for `uri` with all its filters, not started.

    Raises:
        ConfigurationException: the scheme is unknown, or an option is wrong.
        UnsupportedOperationException: ActiveMQ has the scheme, this version does not.
    """
    if isinstance(uri, str):
        uri = TransportURI.parse(uri)
    factory = _factories.get(uri.scheme) or _installed(uri.scheme)
    if factory is not None:
        return factory(uri)
    check_supported(uri)
    raise could_not_create(
        f"Transport scheme NOT recognized: [{uri.scheme}]",
        hint=f"known schemes: {', '.join(known_schemes())}; write a URL such as tcp://localhost:61616",
    )


def check_supported(uri: TransportURI) -> None:
    """Refuse a scheme that never will be supported, in `uri` and in the URLs inside it.

    Raises:
        UnsupportedOperationException: there is one; it says why, and what to use instead.
    """
    for component in uri.components:
        check_supported(component)
    refusal = UNSUPPORTED.get(uri.scheme)
    if refusal is not None and uri.scheme not in _factories and _installed(uri.scheme) is None:
        raise UnsupportedOperationException(
            f"Could not create Transport. Reason: {uri.scheme}: is not supported: {refusal.reason}",
            hint=refusal.hint,
        )


def known_schemes() -> list[str]:
    """Return all schemes that `create_transport` accepts, sorted."""
    return sorted({*_factories, *(point.name for point in entry_points(group=GROUP))})


@functools.cache
def _installed(scheme: str) -> TransportFactory | None:
    for point in entry_points(group=GROUP, name=scheme):
        factory: TransportFactory = point.load()
        return factory
    return None
