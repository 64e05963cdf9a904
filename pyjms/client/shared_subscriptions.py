"""Shared subscriptions of JMS 2.0, mapped onto virtual topics.

ActiveMQ and the bundled broker have no shared subscriptions, but virtual topics: a message for the
topic `VirtualTopic.x` is copied to every existing queue `Consumer.*.VirtualTopic.x`, and the
consumers of a queue share its messages. So a shared subscription is such a queue:

    subscription            queue                                       ends
    ---------------------   -----------------------------------------   -------------------------
    without a client id     Consumer.<name>.VirtualTopic.x              durable: by unsubscribe
    with a client id        Consumer.<client id>:<name>.VirtualTopic.x  else: with the last consumer

A subscription ends when its queue is removed, which the broker refuses as long as the queue has a
consumer: so every consumer that closes requests the removal, and the last one succeeds. (JMS 2.0,
section 8.3; jms-api 4.9; activemq-broker V1)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from pyjms.errors import (
    ConnectionFailedException,
    InvalidDestinationException,
    JMSException,
    JMSSecurityException,
    UnsupportedOperationException,
)
from pyjms.jms.destination import Queue, Topic
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.commands import DestinationInfo

if TYPE_CHECKING:
    from pyjms.client.connection import ActiveMQConnection
    from pyjms.client.consumer import ActiveMQMessageConsumer
    from pyjms.client.session import ActiveMQSession

logger: Final = get_logger(__name__)

_VIRTUAL: Final = "VirtualTopic."
_REMOVE: Final = 1
_BROKER_ID: Final = "ID:"
"""The prefix of broker ids of ActiveMQ; those of Artemis are UUIDs."""


async def subscribe(
    session: ActiveMQSession, topic: Topic, name: str, selector: str | None, *, durable: bool
) -> ActiveMQMessageConsumer:
    """Open a consumer of the subscription `name` of `topic`.

    Raises:
        InvalidDestinationException: the destination is not a topic.
        ValueError: the name is empty.
        UnsupportedOperationException: the topic is not a virtual topic, there is a selector, or the
            broker is neither ActiveMQ nor the bundled one.
    """
    session.check_open()
    connection = session.connection
    queue = _queue_of(connection, topic, name, selector)
    consumer = await session.open_consumer(queue, None, session.consumer_class)
    if durable:
        connection.shared_subscriptions.setdefault(name, set()).add(queue)
    else:
        session.undurable_queues.add(queue)
        consumer.on_closed = partial(_end, connection, queue)
    return consumer


async def unsubscribe(connection: ActiveMQConnection, name: str) -> None:
    """End the durable subscription `name`.

    Raises:
        JMSException: it has consumers.
    """
    queues = connection.shared_subscriptions[name]
    for queue in list(queues):
        await _remove(connection, queue)
        queues.discard(queue)
    del connection.shared_subscriptions[name]


async def end_undurable(session: ActiveMQSession) -> None:
    """End the session's subscriptions that are not durable and have no other consumers."""
    queues, session.undurable_queues = session.undurable_queues, set()
    for queue in queues:
        session.drop_consumers_of(queue)
        await _end(session.connection, queue)


def _queue_of(
    connection: ActiveMQConnection, topic: Topic, name: str, selector: str | None
) -> Queue:
    """Return the queue that implements the subscription; raises like `subscribe`."""
    if not isinstance(topic, Topic) or topic.is_temporary:
        raise InvalidDestinationException(f"{topic} cannot have a shared subscription")
    if not name:
        raise ValueError("The name of a shared subscription cannot be None or empty")
    owner = connection.registered_client_id if connection.has_own_client_id else None
    parts = [name] if owner is None else [owner, name]
    subscription = ":".join(quote(part, safe=" /@+=-_").replace(".", "%2E") for part in parts)
    queue = f"Consumer.{subscription}.{topic.physical_name}"
    if not topic.physical_name.startswith(_VIRTUAL) or topic.is_pattern or topic.is_composite:
        raise UnsupportedOperationException(
            f"{topic} cannot have shared subscriptions: they need a virtual topic",
            hint=f"send to topic {_VIRTUAL}{topic.physical_name}; or have the broker copy the "
            f"topic's messages to a queue for {name!r}, and consume that",
        )
    if selector and selector.strip():
        raise UnsupportedOperationException(
            "A shared subscription cannot have a selector: messages that do not match would "
            f"stay in the queue {queue}",
            hint="consume that queue with a selector, on a broker whose virtual topics are "
            "selectorAware",
        )
    broker_id = connection.broker_id
    if broker_id is not None and not str(broker_id).startswith(_BROKER_ID):
        raise UnsupportedOperationException(
            f"The broker {broker_id} has no virtual topics by default, so that {topic} cannot "
            "have shared subscriptions",
            hint="on Artemis consume the queue of an address: `address::queue`",
        )
    return Queue(queue)


async def _end(connection: ActiveMQConnection, queue: Queue) -> None:
    try:
        await _remove(connection, queue)
    except (JMSSecurityException, ConnectionFailedException) as error:
        logger.warning("%s was not removed with its last consumer: %s", queue, error)
    except JMSException as error:
        logger.debug("%s has other consumers: %s", queue, error)


async def _remove(connection: ActiveMQConnection, queue: Queue) -> None:
    info = DestinationInfo(connection.connection_id, queue, _REMOVE)
    await connection.request(info, connection.options.close_timeout)
