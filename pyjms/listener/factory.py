"""Factories of listener containers: options once, a container for each endpoint.

Only options that were set are passed on, so that a container's own defaults apply to the rest; the
endpoint's settings come last and take precedence. (spring-jms 6.4, 6.11)
"""

from __future__ import annotations

from typing import Any, Unpack

from pyjms.jms.api import ConnectionFactory
from pyjms.listener.container.base import AbstractMessageListenerContainer
from pyjms.listener.container.default import DefaultMessageListenerContainer, DefaultOptions
from pyjms.listener.container.properties import ContainerOptions
from pyjms.listener.container.simple import SimpleMessageListenerContainer
from pyjms.listener.endpoint import JmsListenerEndpoint

__all__ = ["DefaultJmsListenerContainerFactory", "SimpleJmsListenerContainerFactory"]


class DefaultJmsListenerContainerFactory:
    """Creates DefaultMessageListenerContainers from their keyword arguments."""

    def __init__(
        self, connection_factory: ConnectionFactory, **options: Unpack[DefaultOptions]
    ) -> None:
        self.connection_factory = connection_factory
        self.options: dict[str, Any] = dict(options)

    def create_listener_container(
        self, endpoint: JmsListenerEndpoint
    ) -> AbstractMessageListenerContainer:
        """Return a new container for `endpoint`, not started. Call it on the loop."""
        container = DefaultMessageListenerContainer(self.connection_factory, **self.options)
        endpoint.configure(container)
        return container


class SimpleJmsListenerContainerFactory:
    """Creates SimpleMessageListenerContainers from their keyword arguments."""

    def __init__(
        self, connection_factory: ConnectionFactory, **options: Unpack[ContainerOptions]
    ) -> None:
        self.connection_factory = connection_factory
        self.options: dict[str, Any] = dict(options)

    def create_listener_container(
        self, endpoint: JmsListenerEndpoint
    ) -> AbstractMessageListenerContainer:
        """Return a new container for `endpoint`, not started. Call it on the loop."""
        container = SimpleMessageListenerContainer(self.connection_factory, **self.options)
        endpoint.configure(container)
        return container
