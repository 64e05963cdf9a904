"""What is to be listened to, and by whom: the settings of one listener before it has a container.

An endpoint's own settings win over those of the factory that makes its container. (Spring 6.4)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from pyjms.errors import ConfigurationException

if TYPE_CHECKING:
    from pyjms.listener.container.base import AbstractMessageListenerContainer

__all__ = ["JmsListenerEndpoint", "MethodJmsListenerEndpoint", "SimpleJmsListenerEndpoint"]


@dataclass(kw_only=True)
class JmsListenerEndpoint(ABC):
    """One listener; None leaves a setting to the container factory."""

    destination: str
    id: str = ""
    container_factory: str | None = None
    subscription: str | None = None
    selector: str | None = None
    concurrency: str | None = None
    auto_startup: bool | None = None

    def override(self, **settings: Any) -> None:
        """Replace settings by name (`listeners.<id>` in YAML).

        Raises:
            ConfigurationException: a name that no endpoint has.

        """
        known = {f.name for f in fields(JmsListenerEndpoint)} - {"id"}
        for name, value in settings.items():
            if name not in known:
                raise ConfigurationException(
                    f"Listener {self.id!r} has no setting {name!r}",
                    hint=f"known are {', '.join(sorted(known))}",
                )
            if value is not None:
                setattr(self, name, value)

    def configure(self, container: AbstractMessageListenerContainer) -> None:
        """Hand the endpoint's settings and its listener to `container`."""
        container.bean_name = self.id
        container.destination_name = self.destination
        if self.selector is not None:
            container.message_selector = self.selector
        if self.concurrency is not None:
            container.concurrency = self.concurrency
        if self.auto_startup is not None:
            container.auto_startup = self.auto_startup
        # before the listener, which would leave its own class's name
        container.subscription_name = self.subscription or self.default_subscription_name()
        container.message_listener = self.create_listener(container)

    @abstractmethod
    def create_listener(self, container: AbstractMessageListenerContainer) -> Callable[..., Any]:
        """Return what the container calls with (message) or (message, session)."""

    @abstractmethod
    def default_subscription_name(self) -> str:
        """The durable subscription's name when none is given."""


@dataclass(kw_only=True)
class SimpleJmsListenerEndpoint(JmsListenerEndpoint):
    """A plain message listener: a function of message, or of message and session."""

    message_listener: Callable[..., Any]

    def create_listener(self, container: AbstractMessageListenerContainer) -> Callable[..., Any]:
        return self.message_listener

    def default_subscription_name(self) -> str:
        listener = self.message_listener
        return f"{listener.__module__}.{getattr(listener, '__qualname__', type(listener).__name__)}"


@dataclass(kw_only=True)
class MethodJmsListenerEndpoint(JmsListenerEndpoint):
    """A handler found by its mark; `make_listener` builds the adapter for a container."""

    handler: Callable[..., Any]
    make_listener: Callable[
        [MethodJmsListenerEndpoint, AbstractMessageListenerContainer], Callable[..., Any]
    ]

    def create_listener(self, container: AbstractMessageListenerContainer) -> Callable[..., Any]:
        return self.make_listener(self, container)

    def default_subscription_name(self) -> str:
        return f"{self.handler.__module__}.{self.handler.__qualname__}"
