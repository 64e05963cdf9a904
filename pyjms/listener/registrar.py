"""JmsListenerEndpointRegistrar: listeners and their defaults in code. (spring-jms 6.3, 6.9)"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, Unpack

from pyjms.annotation.jms_listener import (
    JmsListenerMark,
    ListenerOptions,
    jms_listener,
    listener_marks,
)
from pyjms.jms.api import Session
from pyjms.jms.destination import Destination
from pyjms.jms.message import Message
from pyjms.listener.endpoint import JmsListenerEndpoint
from pyjms.listener.handler.parameters import HandlerParameter
from pyjms.listener.registry import JmsListenerEndpointRegistry

__all__ = ["ArgumentResolver", "JmsListenerEndpointRegistrar"]


class ArgumentResolver(Protocol):
    """Supplies custom handler parameters. Spring: a custom argument resolver."""

    def supports(self, parameter: HandlerParameter) -> bool:
        """Return whether it supplies this parameter; called once, when the handler is analysed."""
        ...

    def resolve(
        self, parameter: HandlerParameter, message: Message, session: Session | None
    ) -> object:
        """Return the argument for a message; called in the thread of a `def` handler."""
        ...


class JmsListenerEndpointRegistrar:
    """Collects the settings and endpoints of configurers. Spring: JmsListenerEndpointRegistrar.

    Attributes:
        container_factory: creates the containers of listeners that name no factory; None: the
            provider `container_factory_name`, or else `jms_listener_container_factory`.
        container_factory_name: the name of the provider of that factory.
        argument_resolvers: asked in this order for handler parameters without a marker.
        endpoint_registry: creates and keeps the containers; None: the application's.
    """

    def __init__(self) -> None:
        self.container_factory: object = None
        self.container_factory_name: str | None = None
        self.argument_resolvers: list[ArgumentResolver] = []
        self.endpoint_registry: JmsListenerEndpointRegistry | None = None
        self.endpoints: list[tuple[JmsListenerEndpoint, Any | None]] = []
        """The endpoints that were added, each with its factory; None: the default factory."""
        self.handlers: list[tuple[Callable[..., object], JmsListenerMark]] = []
        """The handlers that were added, with their marks."""

    def register_endpoint(self, endpoint: JmsListenerEndpoint, factory: object = None) -> None:
        """Add an endpoint, with the factory that creates its container.

        Raises:
            ValueError: it has no id.
        """
        if not endpoint.id:
            raise ValueError("Endpoint id must be set: give the endpoint an id")
        self.endpoints.append((endpoint, factory))

    def register_handler(
        self,
        handler: Callable[..., object],
        *destinations: str | Destination,
        **options: Unpack[ListenerOptions],
    ) -> None:
        """Add a handler, as if it had the mark `@jms_listener(*destinations, **options)`.

        Raises:
            TypeError, ValueError: as `jms_listener`.
        """
        self.handlers.append((handler, mark_of(*destinations, **options)))


def mark_of(
    *destinations: str | Destination, **options: Unpack[ListenerOptions]
) -> JmsListenerMark:
    """Return the mark that `@jms_listener` with these arguments makes."""

    def marked() -> None:
        """Serve as the function to which `jms_listener` attaches the mark."""

    (mark,) = listener_marks(jms_listener(*destinations, **options)(marked))
    return mark
