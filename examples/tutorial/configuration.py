"""The objects of the application: a container factory for each domain, and what sends.

Spring: a @Configuration class, whose beans read names from `application.yml`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dependency_injector import providers

from pyjms import (
    ApplicationContainer,
    JmsApplication,
    Queue,
    SimpleJmsListenerContainerFactory,
    Topic,
    load_settings,
)
from pyjms.aio import JmsMessagingTemplate
from pyjms.cli.logs import LogOutput

__all__ = ["SETTINGS", "Configuration", "run"]

SETTINGS = load_settings(Path(__file__).with_name("application.yaml"))


class Configuration(ApplicationContainer):
    """Names mean queues in one factory, topics in the other ones."""

    names = ApplicationContainer.settings.provided.app
    factory = ApplicationContainer.native_connection_factory

    queue = providers.Singleton(Queue, names["queue_name"])
    topic = providers.Singleton(Topic, names["topic_name"])
    messaging = providers.Singleton(JmsMessagingTemplate, ApplicationContainer.jms_template)
    queue_listener = providers.Singleton(
        SimpleJmsListenerContainerFactory, factory, pub_sub_domain=False
    )
    topic_listener = providers.Singleton(
        SimpleJmsListenerContainerFactory, factory, pub_sub_domain=True
    )
    durable_listener = providers.Singleton(
        SimpleJmsListenerContainerFactory,
        factory,
        subscription_durable=True,  # of a topic, therefore
        client_id="tutorial",
    )


def run(module: str) -> None:
    """Run a program of the tutorial by itself: the module of this name, until it is stopped."""
    LogOutput().apply(SETTINGS.logging)
    JmsApplication(sys.modules[module], settings=SETTINGS, container=Configuration).run()
