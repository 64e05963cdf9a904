"""The objects of the application; their names and numbers come from `application.yaml`."""

from __future__ import annotations

from dependency_injector import providers

from examples.activemq_notes.listeners import SimpleListener, VirtualTopicListener
from examples.activemq_notes.producer import SimpleProducer
from examples.activemq_notes.session_listener import SessionListener
from pyjms import ApplicationContainer, Queue, Topic

__all__ = ["Wiring"]


class Wiring(ApplicationContainer):
    """The template, its CachingConnectionFactory and the containers are those of the base."""

    names = ApplicationContainer.settings.provided.app
    broker = ApplicationContainer.settings.provided.activemq

    producer = providers.Singleton(
        SimpleProducer,
        ApplicationContainer.jms_template,
        queue=providers.Singleton(Queue, names["queue"]),
        topic=providers.Singleton(Topic, names["topic"]),
        virtual_topic=providers.Singleton(Topic, names["virtual_topic"]),
        wait=names["wait"],
    )
    simple_listener = providers.Singleton(SimpleListener)
    virtual_topic_listener = providers.Singleton(VirtualTopicListener)
    session_listener = providers.Singleton(
        SessionListener,
        ApplicationContainer.native_connection_factory,
        user=broker.user,
        password=broker.password.get_secret_value.call(),
    )
