"""`mock://name`: an OpenWire transport without a peer, for tests.

`find(name)` returns the MockTransport behind the URL. By default it answers every request
with a plain Response.
"""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakValueDictionary

from pyjms.transport.mock import MockTransport
from pyjms.transport.openwire.correlator import RequestTransport, ResponseCorrelator
from pyjms.transport.options import check_known
from pyjms.transport.uri import TransportURI
from pyjms.wire.openwire.commands import Command, Response

__all__ = ["find", "mock_transport", "plain_response"]

_mocks: WeakValueDictionary[str, MockTransport[Command]] = WeakValueDictionary()


def plain_response(command: Command) -> Iterable[Command]:
    """Return a Response if `command` requires one."""
    return (Response(command.command_id),) if command.response_required else ()


def mock_transport(uri: TransportURI) -> RequestTransport:
    """Return a ResponseCorrelator around a new MockTransport, for `mock://name`.

    Raises:
        ConfigurationException: the URL has options.
    """
    check_known(uri, set())
    mock = _mocks[uri.location] = MockTransport(uri.location, plain_response)
    return ResponseCorrelator(mock)


def find(name: str) -> MockTransport[Command]:
    """Return the latest MockTransport created for `mock://name`, while it is in use.

    Raises:
        KeyError: there is none.
    """
    return _mocks[name]
