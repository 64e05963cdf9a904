"""Factories of listener containers: options once, a container for each endpoint.

Only options that were set are passed on, so that a container's own defaults apply to the rest; the
endpoint's settings come last and take precedence. (spring-jms 6.4, 6.11)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Unpack

from pyjms.jms.api import ConnectionFactory
from pyjms.listener.container.base import AbstractMessageListenerContainer
from pyjms.listener.container.default import DefaultMessageListenerContainer, DefaultOptions
from pyjms.listener.container.simple import SimpleMessageListenerContainer, SimpleOptions
from pyjms.listener.endpoint import JmsListenerEndpoint

__all__ = ["DefaultJmsListenerContainerFactory", "SimpleJmsListenerContainerFactory"]


class _ContainerFactory:
    KIND: ClassVar[Callable[..., AbstractMessageListenerContainer]]

    def __init__(self, connection_factory: ConnectionFactory, options: Mapping[str, Any]) -> None:
        self.connection_factory = connection_factory
        self.options: dict[str, Any] = dict(options)

    def create_listener_container(
        self, endpoint: JmsListenerEndpoint
    ) -> AbstractMessageListenerContainer:
        """Return a new container for `endpoint`, not started. Call it on the loop.

        Raises:
            TypeError: an option is not a property of the container.
            ValueError: a property cannot have the value of its option.
        """
        container = type(self).KIND(self.connection_factory, **self.options)
        endpoint.configure(container)
        return container


class DefaultJmsListenerContainerFactory(_ContainerFactory):
    """Creates DefaultMessageListenerContainers from their keyword arguments.

    Spring: DefaultJmsListenerContainerFactory.
    """

    KIND = DefaultMessageListenerContainer

    def __init__(
        self, connection_factory: ConnectionFactory, **options: Unpack[DefaultOptions]
    ) -> None:
        """Keep the options of the containers; nothing connects."""
        super().__init__(connection_factory, options)


class SimpleJmsListenerContainerFactory(_ContainerFactory):
    """Creates SimpleMessageListenerContainers from their keyword arguments.

    Spring: SimpleJmsListenerContainerFactory.
    """

    KIND = SimpleMessageListenerContainer

    def __init__(
        self, connection_factory: ConnectionFactory, **options: Unpack[SimpleOptions]
    ) -> None:
        """Keep the options of the containers; nothing connects."""
        super().__init__(connection_factory, options)
