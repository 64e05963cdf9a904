"""Endpoints, which describe listeners, and the factories that create a container for each.

A factory keeps the options of its containers. Only options that were set are passed on, so that the
container's defaults apply to the rest; the endpoint's settings come last and take precedence.
Containers with the same client id share one
connection, because a broker accepts only one connection per client id. (spring-jms 6.4, 6.11)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, Unpack

from pyjms.client.policies import RedeliveryPolicy
from pyjms.connection.caching import SingleConnectionFactory
from pyjms.errors import ConfigurationException
from pyjms.jms.api import ConnectionFactory, check_factory
from pyjms.listener.container import AbstractMessageListenerContainer
from pyjms.listener.decorators import JmsListenerMark, Schedule
from pyjms.listener.default_container import DefaultMessageListenerContainer
from pyjms.listener.properties import (
    BatchFallback,
    DefaultOptions,
    Errors,
    Listener,
    Prefetch,
    UnreadableMessages,
)
from pyjms.listener.simple_container import SimpleMessageListenerContainer, SimpleOptions
from pyjms.support.retry import RetryPolicy
from pyjms.template.interceptors import HandlerInterceptor

_ALIKE: Final = (
    *("prefetch", "batch_size", "batch_timeout", "batch_fallback", "retry"),
    *("unreadable_messages", "errors", "reply_none", "timeout", "rate_limit", "auto_startup"),
)
"""Options of a mark, no texts, which endpoint and container have under the same names."""

_OPTIONS: Final = {
    **{name: name for name in (*_ALIKE, "concurrency", "redelivery_policy")},
    "selector": "message_selector",
    "durable": "subscription_durable",
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
    batch_fallback: BatchFallback | None = None
    redelivery_policy: RedeliveryPolicy | None = None
    retry: RetryPolicy | None = None
    unreadable_messages: UnreadableMessages | None = None
    errors: Errors | None = None
    reply_none: bool | None = None
    timeout: float | None = None
    rate_limit: float | None = None
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
        own = ((option, getattr(self, name)) for name, option in _OPTIONS.items())
        container.set_options({option: value for option, value in own if value is not None})
        if self.interceptors:
            container.interceptors = (*container.interceptors, *self.interceptors)
        if container.subscription_durable and self.concurrency is None:
            container.concurrency = "1"  # the factory's concurrency is meant for queues
        # before the listener, which would otherwise set the name of its class
        container.subscription_name = self.subscription or self.default_subscription_name()
        container.message_listener = self.create_listener(container)

    @abstractmethod
    def create_listener(self, container: AbstractMessageListenerContainer) -> Listener:
        """Return the listener, which the container calls with (message) or (message, session)."""

    @abstractmethod
    def default_subscription_name(self) -> str:
        """Return the name of the durable subscription if none is given."""


@dataclass(kw_only=True)
class SimpleJmsListenerEndpoint(JmsListenerEndpoint):
    """An endpoint for a message listener: a function of message, or of message and session.

    Spring: SimpleJmsListenerEndpoint.
    """

    message_listener: Listener

    def create_listener(self, container: AbstractMessageListenerContainer) -> Listener:
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
    fields: bool = False
    """Whether parameters without another source are fields of the payload."""

    def take_options(self, mark: JmsListenerMark) -> None:
        """Take the options of a mark that need not be resolved."""
        for name, value in mark.options.items():
            if name in (*_ALIKE, "durable", "fields"):
                setattr(self, name, value)
        self.schedule = mark.schedule

    def create_listener(self, container: AbstractMessageListenerContainer) -> Callable[..., object]:
        """Return the adapter that calls the handler."""
        return self.make_listener(self, container)

    def default_subscription_name(self) -> str:
        """Return the handler's module and qualified name."""
        return f"{self.handler.__module__}.{self.handler.__qualname__}"


class _ContainerFactory:
    KIND: ClassVar[Callable[..., AbstractMessageListenerContainer]]

    def __init__(self, connection_factory: ConnectionFactory, options: Mapping[str, Any]) -> None:
        check_factory(connection_factory, type(self).__name__)
        self.connection_factory = connection_factory
        self.options: dict[str, Any] = dict(options)
        self._shared: dict[str, SingleConnectionFactory] = {}

    def create_listener_container(
        self, endpoint: JmsListenerEndpoint
    ) -> AbstractMessageListenerContainer:
        """Return a new container for `endpoint`, not started. Call it on the loop.

        Containers with the same client id share a connection, which `destroy` closes. Containers
        with a transaction manager do not: they use the manager's connections.

        Raises:
            TypeError: an option is not a property of the container.
            ValueError: a property cannot have the value of its option.
        """
        container = type(self).KIND(self.connection_factory, **self.options)
        endpoint.configure(container)
        client_id = container.client_id or client_id_of(self.connection_factory)
        manager = getattr(container, "transaction_manager", None)
        is_shared = hasattr(self.connection_factory, "target_connection_factory")
        if client_id is not None and manager is None and not is_shared:
            container.connection_factory = self._shared_by(client_id)
        return container

    async def destroy(self) -> None:
        """Close the connections that containers share. Idempotent; stop the containers first."""
        shared, self._shared = self._shared, {}
        for factory in shared.values():
            await factory.destroy()

    def _shared_by(self, client_id: str) -> SingleConnectionFactory:
        found = self._shared.get(client_id)
        if found is None:
            own = client_id_of(self.connection_factory)
            found = self._shared[client_id] = SingleConnectionFactory(
                self.connection_factory,
                client_id=None if own == client_id else client_id,
                reconnect_on_exception=True,
            )
        return found


def client_id_of(factory: ConnectionFactory) -> str | None:
    """Return the client id that the factory sets on its connections, or None."""
    own: str | None = getattr(getattr(factory, "options", None), "client_id", None)
    return own


class DefaultJmsListenerContainerFactory(_ContainerFactory):
    """Creates DefaultMessageListenerContainers from their keyword arguments.

    Spring: DefaultJmsListenerContainerFactory.
    """

    KIND: ClassVar[Callable[..., AbstractMessageListenerContainer]] = (
        DefaultMessageListenerContainer
    )

    def __init__(
        self, connection_factory: ConnectionFactory, **options: Unpack[DefaultOptions]
    ) -> None:
        """Keep the options of the containers; nothing connects."""
        super().__init__(connection_factory, options)


class SimpleJmsListenerContainerFactory(_ContainerFactory):
    """Creates SimpleMessageListenerContainers from their keyword arguments.

    Spring: SimpleJmsListenerContainerFactory.
    """

    KIND: ClassVar[Callable[..., AbstractMessageListenerContainer]] = SimpleMessageListenerContainer

    def __init__(
        self, connection_factory: ConnectionFactory, **options: Unpack[SimpleOptions]
    ) -> None:
        """Keep the options of the containers; nothing connects."""
        super().__init__(connection_factory, options)
