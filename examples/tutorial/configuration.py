"""The objects of the application: a container factory for each domain, and what sends.

Spring: a @Configuration class with the beans queueFactory, topicFactory and durableFactory.
"""

from __future__ import annotations

import logging
import sys

from dependency_injector import providers

from pyjms import ApplicationContainer, JmsApplication, SimpleJmsListenerContainerFactory
from pyjms.aio import JmsMessagingTemplate

__all__ = ["QUEUE", "TOPIC", "Configuration", "run"]

QUEUE = "active.queue"
TOPIC = "active.topic.name.model"


class Configuration(ApplicationContainer):
    """Names mean queues in one factory, topics in the other ones."""

    queue_factory = providers.Singleton(
        SimpleJmsListenerContainerFactory,
        ApplicationContainer.native_connection_factory,
        message_converter=ApplicationContainer.message_converter,
    )
    topic_factory = providers.Singleton(
        SimpleJmsListenerContainerFactory,
        ApplicationContainer.native_connection_factory,
        message_converter=ApplicationContainer.message_converter,
        pub_sub_domain=True,
    )
    durable_factory = providers.Singleton(
        SimpleJmsListenerContainerFactory,
        ApplicationContainer.native_connection_factory,
        message_converter=ApplicationContainer.message_converter,
        subscription_durable=True,  # of a topic, therefore
        client_id="tutorial",
    )
    messaging = providers.Singleton(JmsMessagingTemplate, ApplicationContainer.jms_template)


def run(module: str) -> None:
    """Run a program of the tutorial by itself: the module of this name, until it is stopped."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    JmsApplication(sys.modules[module], container=Configuration).run()
