"""ApplicationContainer: the objects of an application, each of which can be overridden.

Wired as Spring Boot does it: the template sends through a CachingConnectionFactory, the listener
containers use the factory inside it and are transacted unless set otherwise. What a handler sends
through the template belongs to the handler's transaction. Providers are synchronous; what must
be opened and closed is the application's business (see `pyjms.lifecycle`).
(spring-jms 8.1; decisions D11)
"""

from __future__ import annotations

from typing import Any

from dependency_injector import containers, providers

from pyjms.connection.transaction import JmsTransactionManager
from pyjms.container import factories
from pyjms.errors import ConfigurationException
from pyjms.listener.registry import JmsListenerEndpointRegistry
from pyjms.settings import PyjmsSettings
from pyjms.support.converter import DefaultMessageConverter
from pyjms.support.destination import SimpleDestinationResolver

__all__ = ["ApplicationContainer", "make_container"]


class ApplicationContainer(containers.DeclarativeContainer):
    """The default wiring; subclass it to add services or replace providers."""

    settings: Any = providers.Dependency(instance_of=PyjmsSettings)
    message_converter = providers.Singleton(DefaultMessageConverter)
    destination_resolver = providers.Singleton(SimpleDestinationResolver)
    native_connection_factory = providers.Singleton(factories.native_connection_factory, settings)
    connection_factory = providers.Singleton(
        factories.connection_factory, native_connection_factory, settings
    )
    jms_template = providers.Singleton(
        factories.template, connection_factory, settings, message_converter, destination_resolver
    )
    jms_listener_container_factory = providers.Singleton(
        factories.listener_container_factory,
        native_connection_factory,
        settings,
        message_converter,
        destination_resolver,
    )
    listener_registry = providers.Singleton(JmsListenerEndpointRegistry)
    transaction_manager = providers.Singleton(JmsTransactionManager, connection_factory)


def make_container(
    given: containers.Container | type[ApplicationContainer] | None, settings: PyjmsSettings
) -> Any:
    """Return a container with `settings` in it: a new one, or the one given.

    Raises:
        ConfigurationException: `given` is not an ApplicationContainer.
    """
    if given is None:
        return ApplicationContainer(settings=settings)
    if isinstance(given, type) and issubclass(given, ApplicationContainer):
        return given(settings=settings)
    if not isinstance(given, containers.Container) or not hasattr(given, "listener_registry"):
        raise ConfigurationException(
            f"{given!r} is not an ApplicationContainer",
            hint="subclass pyjms.ApplicationContainer and add your providers to it",
        )
    container: Any = given
    if not container.settings.is_defined:
        container.settings.override(providers.Object(settings))
    return container
