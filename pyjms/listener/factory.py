"""Factories of listener containers: they keep the options and create a container per endpoint.

Only options that were set are passed on, so that the container's defaults apply to the rest; the
endpoint's settings come last and take precedence. Containers with the same client id share one
connection, because a broker accepts only one connection per client id. (spring-jms 6.4, 6.11)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Unpack

from pyjms.connection.single import SingleConnectionFactory
from pyjms.jms.api import ConnectionFactory, check_factory
from pyjms.listener.container.base import AbstractMessageListenerContainer
from pyjms.listener.container.default import DefaultMessageListenerContainer, DefaultOptions
from pyjms.listener.container.simple import SimpleMessageListenerContainer, SimpleOptions
from pyjms.listener.endpoint import JmsListenerEndpoint

__all__ = [
    "DefaultJmsListenerContainerFactory",
    "SimpleJmsListenerContainerFactory",
    "client_id_of",
]


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
