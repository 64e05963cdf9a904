"""Producers and consumers of one domain: wrappers that add the names of the domain's API."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final, TypeVar, cast

from pyjms._forwarding import DelegatedAttribute, delegated
from pyjms.enums import DeliveryMode
from pyjms.jms.api.delegating import DelegatingConsumer
from pyjms.jms.api.endpoints import MessageConsumer, MessageListener, MessageProducer
from pyjms.jms.destination import Destination, Queue, Topic

__all__ = ["QueueReceiver", "QueueSender", "TopicPublisher", "TopicSubscriber"]

_target = attrgetter("target")

_F = TypeVar("_F", bound=Callable[..., Any])


def _overloaded(function: _F) -> _F:
    """Delegate a method with overloads, and keep them for type checkers."""
    return cast("_F", delegated(cast("Callable[..., Any]", function), _target))


class _Producer(MessageProducer):
    """A producer that delegates every call to `target`."""

    def __init__(self, target: MessageProducer) -> None:
        self.target = target

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.target!r}>"

    destination: Final = DelegatedAttribute[Destination | None](_target, read_only=True)
    delivery_mode = DelegatedAttribute[DeliveryMode](_target, read_only=False)
    priority = DelegatedAttribute[int](_target, read_only=False)
    time_to_live = DelegatedAttribute[float](_target, read_only=False)
    delivery_delay = DelegatedAttribute[float](_target, read_only=False)
    disable_message_id = DelegatedAttribute[bool](_target, read_only=False)
    disable_message_timestamp = DelegatedAttribute[bool](_target, read_only=False)
    stats: DelegatedAttribute[Any] = DelegatedAttribute(_target, read_only=True)  # ActiveMQ's
    transformer: DelegatedAttribute[Any] = DelegatedAttribute(_target, read_only=False)
    send_timeout: DelegatedAttribute[float | None] = DelegatedAttribute(_target, read_only=False)
    send: Final = _overloaded(MessageProducer.send)
    close: Final = delegated(MessageProducer.close, _target)


class QueueSender(_Producer):
    """Sends messages to queues. JMS: javax.jms.QueueSender (JMS 1.1 section 5.7)."""

    @property
    def queue(self) -> Queue | None:
        """The queue of all sends; None: each `send` specifies it."""
        return cast("Queue | None", self.destination)


class TopicPublisher(_Producer):
    """Publishes messages to topics. JMS: javax.jms.TopicPublisher (JMS 1.1 section 6.7)."""

    publish: Final = _overloaded(MessageProducer.send)

    @property
    def topic(self) -> Topic | None:
        """The topic of all messages; None: each `publish` specifies it."""
        return cast("Topic | None", self.destination)


class _Consumer(DelegatingConsumer):
    """A consumer that delegates every call to `target`."""

    def __init__(self, target: MessageConsumer) -> None:
        super().__init__(target)
        self.target = target

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.target!r}>"

    is_closed: Final = DelegatedAttribute[bool](_target, read_only=True)
    message_listener: Final = DelegatedAttribute[MessageListener | None](_target, read_only=True)
    transformer: DelegatedAttribute[Any] = DelegatedAttribute(_target, read_only=False)
    set_message_listener: Final = delegated(MessageConsumer.set_message_listener, _target)
    receive: Final = delegated(MessageConsumer.receive, _target)
    receive_checked: Final = delegated(MessageConsumer.receive_checked, _target)
    close: Final = delegated(MessageConsumer.close, _target)


class QueueReceiver(_Consumer):
    """Receives the messages of a queue. JMS: javax.jms.QueueReceiver (JMS 1.1 section 5.8)."""

    @property
    def queue(self) -> Queue:
        """The queue from which messages are received."""
        return cast("Queue", self.destination)


class TopicSubscriber(_Consumer):
    """Receives the messages of a topic. JMS: javax.jms.TopicSubscriber (JMS 1.1 section 6.10)."""

    def __init__(self, target: MessageConsumer, *, no_local: bool) -> None:
        super().__init__(target)
        self.no_local = no_local
        """Whether messages published over the same connection are skipped."""

    @property
    def topic(self) -> Topic:
        """The topic from which messages are received."""
        return cast("Topic", self.destination)
