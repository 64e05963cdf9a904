"""Listener endpoints: descriptions of listeners, independent of a container.

An endpoint's settings override those of the factory that creates its container.
(spring-jms 6.4)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Final

from pyjms.annotation.jms_scheduled import Schedule
from pyjms.client.options import RedeliveryPolicy
from pyjms.errors import ConfigurationException
from pyjms.listener.container.properties import Prefetch, UnreadableMessages
from pyjms.listener.handler.interceptors import HandlerInterceptor
from pyjms.support.retry import RetryPolicy

if TYPE_CHECKING:
    from pyjms.listener.container.base import AbstractMessageListenerContainer

__all__ = ["JmsListenerEndpoint", "MethodJmsListenerEndpoint", "SimpleJmsListenerEndpoint"]


_OPTIONS: Final = {
    "selector": "message_selector",
    "durable": "subscription_durable",
    "concurrency": "concurrency",
    "prefetch": "prefetch",
    "batch_size": "batch_size",
    "batch_timeout": "batch_timeout",
    "redelivery_policy": "redelivery_policy",
    "retry": "retry",
    "unreadable_messages": "unreadable_messages",
    "auto_startup": "auto_startup",
}
"""Fields of an endpoint and the properties of the container that they set."""


@dataclass(kw_only=True)
class JmsListenerEndpoint(ABC):
    """The description of one listener; None leaves a setting to the container factory."""

    destination: str
    id: str = ""
    container_factory: str | None = None
    subscription: str | None = None
    durable: bool | None = None
    selector: str | None = None
    concurrency: str | None = None
    prefetch: Prefetch = None
    batch_size: int | None = None
    batch_timeout: float | None = None
    redelivery_policy: RedeliveryPolicy | None = None
    retry: RetryPolicy | None = None
    unreadable_messages: UnreadableMessages | None = None
    auto_startup: bool | None = None
    interceptors: Sequence[HandlerInterceptor] | None = None
    """Interceptors of this listener, within those of the container factory."""
    properties: dict[str, object] = field(default_factory=dict)
    """Further properties of the container, by name."""
    schedule: Schedule | None = None
    """When the broker sends the messages itself."""
    provided: dict[str, Callable[[], object]] = field(default_factory=dict)
    """Further properties, by name, whose values are computed when the container is created."""

    def override(self, **settings: object) -> None:
        """Replace settings by name (`listeners.<id>` in YAML).

        Raises:
            ConfigurationException: an endpoint has no setting of that name.
        """
        known = {f.name for f in fields(JmsListenerEndpoint)} - {"id"}
        for name, value in settings.items():
            if name not in known:
                raise ConfigurationException(
                    f"Listener {self.id!r} has no setting {name!r}",
                    hint=f"its settings are {', '.join(sorted(known))}",
                )
            if value is not None:
                setattr(self, name, value)

    def configure(self, container: AbstractMessageListenerContainer) -> None:
        """Set the endpoint's settings and its listener on `container`."""
        container.bean_name = self.id
        container.destination_name = self.destination
        container.set_options(self.properties)
        container.set_options({name: supply() for name, supply in self.provided.items()})
        for name, option in _OPTIONS.items():
            value = getattr(self, name)
            if value is not None:
                setattr(container, option, value)
        if self.interceptors:
            container.interceptors = (*container.interceptors, *self.interceptors)
        if container.subscription_durable and self.concurrency is None:
            container.concurrency = "1"  # the factory's concurrency is meant for queues
        # before the listener, which would otherwise set the name of its class
        container.subscription_name = self.subscription or self.default_subscription_name()
        container.message_listener = self.create_listener(container)

    @abstractmethod
    def create_listener(self, container: AbstractMessageListenerContainer) -> Callable[..., object]:
        """Return the listener, which the container calls with (message) or (message, session)."""

    @abstractmethod
    def default_subscription_name(self) -> str:
        """Return the name of the durable subscription if none is given."""


@dataclass(kw_only=True)
class SimpleJmsListenerEndpoint(JmsListenerEndpoint):
    """An endpoint for a message listener: a function of message, or of message and session.

    Spring: SimpleJmsListenerEndpoint.
    """

    message_listener: Callable[..., object]

    def create_listener(self, container: AbstractMessageListenerContainer) -> Callable[..., object]:
        """Return the listener of this endpoint, the same for every container."""
        return self.message_listener

    def default_subscription_name(self) -> str:
        """Return the listener's module and qualified name."""
        listener = self.message_listener
        return f"{listener.__module__}.{getattr(listener, '__qualname__', type(listener).__name__)}"


@dataclass(kw_only=True)
class MethodJmsListenerEndpoint(JmsListenerEndpoint):
    """An endpoint for a handler; `make_listener` builds its adapter for a container.

    Spring: MethodJmsListenerEndpoint.
    """

    handler: Callable[..., object]
    make_listener: Callable[
        [MethodJmsListenerEndpoint, AbstractMessageListenerContainer], Callable[..., object]
    ]

    def create_listener(self, container: AbstractMessageListenerContainer) -> Callable[..., object]:
        """Return the adapter that calls the handler."""
        return self.make_listener(self, container)

    def default_subscription_name(self) -> str:
        """Return the handler's module and qualified name."""
        return f"{self.handler.__module__}.{self.handler.__qualname__}"
