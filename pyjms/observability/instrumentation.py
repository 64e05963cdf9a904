"""The interface of instrumentations, and the addresses of brokers.

An instrumentation makes an interceptor for each listener and each template, once, when these are
created, so that attributes that never change are computed once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from pyjms.listener.container import AbstractMessageListenerContainer
from pyjms.observability.health import Health
from pyjms.template.interceptors import (
    HandlerInterceptor,
    ReceiveInterceptor,
    SendInterceptor,
    SettlementInterceptor,
)
from pyjms.template.resources import provider_factory
from pyjms.transport.uri import DEFAULT_PORT, TransportURI


class Instrumentation(Protocol):
    """Observes the sends, receives and handlers of one application."""

    def handler(self, container: AbstractMessageListenerContainer) -> HandlerInterceptor:
        """Return the interceptor of a listener, the outermost one."""

    def settlement(self, container: AbstractMessageListenerContainer) -> SettlementInterceptor:
        """Return the interceptor of a listener's commits, acknowledgements and rollbacks."""

    def send(self, connection_factory: object) -> SendInterceptor:
        """Return the interceptor of the sends over a connection factory, the innermost one."""

    def receive(self, connection_factory: object) -> ReceiveInterceptor:
        """Return the interceptor of a template's receives over a connection factory."""

    def attach(self, health: Callable[[], Health]) -> None:
        """Start to observe the application's health, when it starts."""

    def detach(self) -> None:
        """Stop observing the application's health, when it has stopped."""


class Server(NamedTuple):
    """The address of a broker."""

    host: str
    port: int


def server_of(connection_factory: object) -> Server | None:
    """Return the address of a factory's broker; None: it is in this process, or one of several."""
    uri = getattr(provider_factory(connection_factory), "uri", None)
    if isinstance(uri, TransportURI) and len(uri.components) == 1:
        uri = uri.components[0]
    if not isinstance(uri, TransportURI) or uri.components or uri.scheme == "vm" or not uri.host:
        return None
    return Server(uri.host, DEFAULT_PORT if uri.port is None else uri.port)
