"""Sessions of one domain, which reject operations of the other. (jms-api 2.17)"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from operator import attrgetter
from typing import Any, ClassVar, Concatenate, Final, ParamSpec, TypeVar, cast

from pyjms._forwarding import delegated
from pyjms.errors import IllegalStateException, InvalidDestinationException
from pyjms.jms.api.delegating import DelegatingSession
from pyjms.jms.api.session import Session
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.jms.domain.endpoints import QueueReceiver, QueueSender, TopicPublisher, TopicSubscriber

__all__ = ["DomainSession", "QueueSession", "TopicSession"]

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D", bound="DomainSession")


def _refused(
    function: Callable[Concatenate[S, P], R], instead: str
) -> Callable[Concatenate[object, P], R]:
    """Return a replacement of `function` that rejects the call; the hint names `instead`."""

    def refuse(self: object, /, *args: P.args, **kwargs: P.kwargs) -> R:
        del args, kwargs
        raise IllegalStateException(
            f"Operation not supported by a {type(self).__name__}: {function.__name__}()",
            hint=f"use {instead}, or connection.create_session() for both domains",
        )

    async def refuse_when_awaited(self: object, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return refuse(self, *args, **kwargs)

    call: Any = refuse_when_awaited if inspect.iscoroutinefunction(function) else refuse
    call.__name__ = function.__name__
    call.__doc__ = (
        "Refuse the call: it belongs to the other domain.\n\n"
        "        Raises:\n            IllegalStateException: always.\n        "
    )
    return cast("Callable[Concatenate[object, P], R]", call)


def _refusing(**instead: str) -> Callable[[type[D]], type[D]]:
    """Return a class decorator that rejects calls of these methods, with hints what to use."""

    def decorate(kind: type[D]) -> type[D]:
        for name, hint in instead.items():
            setattr(kind, name, _refused(getattr(Session, name), hint))
        return kind

    return decorate


def _checked(
    function: Callable[Concatenate[Session, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Return a method that checks the domain of the destination, and calls the target's method."""
    delegate = delegated(function, attrgetter("target"))

    async def call(self: DomainSession, /, *args: P.args, **kwargs: P.kwargs) -> R:
        self.check(args[0] if args else kwargs.get("destination"))
        return await delegate(self, *args, **kwargs)

    functools.update_wrapper(call, function, updated=())  # it marks abstract methods
    return call


class DomainSession(DelegatingSession):
    """A session of one domain that wraps the unified session `target`.

    Like the target, it is for one task at a time, except `close`.
    """

    of_topics: ClassVar[bool]

    def __init__(self, target: Session) -> None:
        self.target = target

    def _target(self) -> Session:
        return self.target

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.target!r}>"

    close: Final = delegated(Session.close, attrgetter("target"))

    create_producer = _checked(Session.create_producer)
    create_consumer = _checked(Session.create_consumer)
    create_pull_consumer = _checked(Session.create_pull_consumer)

    def check(self, destination: object) -> None:
        """Reject a destination of the other domain.

        Raises:
            InvalidDestinationException: the destination belongs to the other domain.
        """
        if isinstance(destination, Destination) and destination.is_topic is not self.of_topics:
            other = "Queues" if self.of_topics else "Topics"
            raise InvalidDestinationException(
                f"{other} are not supported by a {type(self).__name__}: {destination}",
                hint="use connection.create_session(), whose sessions serve both domains",
            )


@_refusing(
    create_topic="create_queue()",
    create_temporary_topic="create_temporary_queue()",
    create_durable_subscriber="create_receiver()",
    create_shared_consumer="create_receiver()",
    create_shared_durable_consumer="create_receiver()",
    unsubscribe="a TopicSession",
)
class QueueSession(DomainSession):
    """A session of queues. JMS: javax.jms.QueueSession (JMS 1.1 section 5.5).

    Operations for topics raise IllegalStateException (JMS 1.1 section 4.11), and a topic as a
    destination raises InvalidDestinationException. ActiveMQ: ActiveMQQueueSession.
    """

    of_topics = False

    async def create_sender(self, queue: Queue | None = None) -> QueueSender:
        """Create a producer for `queue`; None: each `send` specifies it. Waits for the broker.

        Raises:
            InvalidDestinationException: it is a topic.
            JMSException: as for `create_producer`.
        """
        return QueueSender(await self.create_producer(queue))

    async def create_receiver(self, queue: Queue, selector: str | None = None) -> QueueReceiver:
        """Create a consumer of `queue`. Waits for the broker.

        Raises:
            InvalidDestinationException: it is a topic, or cannot be consumed from.
            InvalidSelectorException: the selector is malformed.
            JMSException: as for `create_consumer`.
        """
        return QueueReceiver(await self.create_consumer(queue, selector))


@_refusing(
    create_queue="create_topic()",
    create_temporary_queue="create_temporary_topic()",
    create_browser="a QueueSession",
)
class TopicSession(DomainSession):
    """A session of topics. JMS: javax.jms.TopicSession (JMS 1.1 section 6.5).

    Operations for queues raise IllegalStateException (JMS 1.1 section 4.11), and a queue as a
    destination raises InvalidDestinationException. ActiveMQ: ActiveMQTopicSession.
    """

    of_topics = True

    async def create_publisher(self, topic: Topic | None = None) -> TopicPublisher:
        """Create a producer for `topic`; None: each `publish` specifies it. Waits for the broker.

        Raises:
            InvalidDestinationException: it is a queue.
            JMSException: as for `create_producer`.
        """
        return TopicPublisher(await self.create_producer(topic))

    async def create_subscriber(
        self, topic: Topic, selector: str | None = None, *, no_local: bool = False
    ) -> TopicSubscriber:
        """Create a non-durable consumer of `topic`. Waits for the broker.

        Args:
            topic: the topic.
            selector: the condition of messages to receive; None or "": all messages.
            no_local: whether to skip messages published over this connection.

        Raises:
            InvalidDestinationException: it is a queue, or cannot be consumed from.
            InvalidSelectorException: the selector is malformed.
            JMSException: as for `create_consumer`.
        """
        consumer = await self.create_consumer(topic, selector, no_local=no_local)
        return TopicSubscriber(consumer, no_local=no_local)

    async def create_durable_subscriber(
        self, topic: Topic, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> TopicSubscriber:
        """Create a consumer of a durable subscription; see `Session.create_durable_subscriber`."""
        create = self.target.create_durable_subscriber
        consumer = await create(topic, name, selector, no_local=no_local)
        return TopicSubscriber(consumer, no_local=no_local)
