"""The session: makes producers and consumers, and keeps what they did as one unit.

One listener at a time, one user at a time but for close. What is acknowledged, committed,
rolled back or recovered is all that its consumers handed out, closed ones included.
(JMS 4.4; ActiveMQ A3 to A6, X7, N8, N11, N18)
"""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from pyjms.client.delivery.browser import ActiveMQQueueBrowser, BrowsingConsumer
from pyjms.client.delivery.consumer import ActiveMQMessageConsumer
from pyjms.client.delivery.dispatcher import ListenerDispatcher
from pyjms.client.options.destination_options import check_destination, consumer_info, selector_of
from pyjms.client.producer import ActiveMQMessageProducer
from pyjms.client.session.acknowledgement import SessionAcks
from pyjms.client.session.resources import SessionMembers
from pyjms.client.session.transaction import LocalTransaction
from pyjms.client.session.unstarted_warning import UnstartedWarning
from pyjms.client.tasks import OwnedTasks
from pyjms.enums import AcknowledgeMode
from pyjms.errors import (
    ConnectionFailedException,
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
)
from pyjms.jms import api
from pyjms.jms.api import MessageListener
from pyjms.jms.bodies import BytesMessage, MapMessage, ObjectMessage, StreamMessage, TextMessage
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.jms.message import Message
from pyjms.wire.openwire.commands import (
    ConsumerId,
    ProducerId,
    RemoveInfo,
    RemoveSubscriptionInfo,
    SessionId,
)

if TYPE_CHECKING:
    from pyjms.client.connection.connection import ActiveMQConnection

__all__ = ["ActiveMQSession"]

logger = logging.getLogger(__name__)

_C = TypeVar("_C", bound=ActiveMQMessageConsumer)


class ActiveMQSession(api.Session):
    """A session of an `ActiveMQConnection`, which makes it."""

    def __init__(
        self, connection: ActiveMQConnection, session_id: SessionId, mode: AcknowledgeMode
    ) -> None:
        self.connection = connection
        self.session_id = session_id
        self.transaction = LocalTransaction(self)
        self.dispatcher = ListenerDispatcher(session_id, connection.send_now)
        self.is_started = connection.is_started
        self.has_listener = False
        """Whether receive() is refused: some listener is set."""
        self.is_closed = False
        self.failure: JMSException | None = None
        options = connection.options
        self.reorders = options.non_blocking_redelivery or options.message_priority_supported
        """Whether messages may be handed out in another order than the broker's."""
        self.acks = SessionAcks(self)
        self.send_ack = self.acks.sender
        self._mode = mode
        self._is_transacted = mode == AcknowledgeMode.TRANSACTED
        self._listener: MessageListener | None = None
        self.members = SessionMembers(connection)
        self._consumer_numbers = itertools.count(1)
        self._producer_numbers = itertools.count(1)
        self.tasks = OwnedTasks(session_id)
        patience = 0.0 if self.is_started else options.warn_about_unstarted_connection_timeout
        self.unstarted = UnstartedWarning(connection.connection_id, patience)

    # --- what it is

    @property
    def transacted(self) -> bool:
        return self._is_transacted

    @property
    def acknowledge_mode(self) -> AcknowledgeMode:
        return self._mode

    @property
    def is_individual_acknowledge(self) -> bool:
        """Whether each message is acknowledged by itself."""
        return self._mode == AcknowledgeMode.INDIVIDUAL

    # --- handles and messages

    def create_queue(self, name: str) -> Queue:
        self.check_open()
        return TemporaryQueue(name) if _name(name).startswith("ID:") else Queue(name)

    def create_topic(self, name: str) -> Topic:
        self.check_open()
        return TemporaryTopic(name) if _name(name).startswith("ID:") else Topic(name)

    def create_message(self) -> Message:
        self.check_open()
        return Message()

    def create_text_message(self, text: str | None = None) -> TextMessage:
        self.check_open()
        return TextMessage(text)

    def create_bytes_message(self, data: bytes | None = None) -> BytesMessage:
        self.check_open()
        message = BytesMessage()
        if data is not None:
            message.write_bytes(data)
        return message

    def create_map_message(self) -> MapMessage:
        self.check_open()
        return MapMessage()

    def create_stream_message(self) -> StreamMessage:
        self.check_open()
        return StreamMessage()

    def create_object_message(self, data: bytes | None = None) -> ObjectMessage:
        self.check_open()
        return ObjectMessage(data)

    async def create_temporary_queue(self) -> TemporaryQueue:
        self.check_open()
        return await self.connection.temporaries.create(TemporaryQueue)

    async def create_temporary_topic(self) -> TemporaryTopic:
        self.check_open()
        return await self.connection.temporaries.create(TemporaryTopic)

    async def delete_temporary(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        """Delete a temporary destination of this connection; sending to it fails from then on.

        Raises:
            JMSException: somebody still consumes from it.
        """
        self.check_open()
        await self.connection.temporaries.delete(destination)

    # --- producers and consumers

    async def create_producer(
        self, destination: Destination | None = None
    ) -> ActiveMQMessageProducer:
        self.check_open()
        number = next(self._producer_numbers)
        producer = ActiveMQMessageProducer(
            self,
            ProducerId(self.session_id.connection_id, number, self.session_id.value),
            None if destination is None else check_destination(destination),
        )
        self.members.add_producer(producer)
        try:
            await self.connection.request(producer.info)
        except BaseException:
            self.members.producer_closed(producer)
            raise
        return producer

    async def create_consumer(
        self, destination: Destination, selector: str | None = None, *, no_local: bool = False
    ) -> ActiveMQMessageConsumer:
        return await self._open_consumer(
            destination, selector, ActiveMQMessageConsumer, no_local=no_local
        )

    async def create_durable_subscriber(
        self, topic: Topic, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> ActiveMQMessageConsumer:
        """Subscribe so that messages are kept while nobody listens.

        Raises:
            JMSException: the connection has no client id of its own, or the name is in use.
        """
        self.check_open()
        if not self.connection.has_own_client_id:
            raise JMSException(
                "You cannot create a durable subscriber without specifying a unique clientID"
                " on a Connection",
                hint="call connection.set_client_id() first, or give the factory a client_id",
            )
        if topic is not None and not isinstance(topic, Topic):
            raise InvalidDestinationException(f"{topic} is no topic")
        return await self._open_consumer(
            topic,
            selector,
            ActiveMQMessageConsumer,
            no_local=no_local,
            subscription_name=name,
        )

    async def create_browser(
        self, queue: Queue, selector: str | None = None
    ) -> ActiveMQQueueBrowser:
        self.check_open()
        browser = ActiveMQQueueBrowser(self, check_destination(queue), selector_of(selector))
        self.members.add_browser(browser)
        return browser

    async def unsubscribe(self, name: str) -> None:
        """End a durable subscription.

        Raises:
            InvalidDestinationException: there is none of this name.
            JMSException: it is in use.
        """
        self.check_open()
        connection = self.connection
        await connection.request(
            RemoveSubscriptionInfo(connection.connection_id, name, connection.announced_client_id)
        )

    async def open_browsing_consumer(
        self, queue: Destination, selector: str | None
    ) -> BrowsingConsumer:
        """Make the consumer that shows a browser the messages of a queue."""
        return await self._open_consumer(queue, selector, BrowsingConsumer, browser=True)

    async def _open_consumer(
        self,
        destination: Destination,
        selector: str | None,
        kind: type[_C],
        **details: Any,
    ) -> _C:
        self.check_open()
        self.connection.temporaries.check_consumable(check_destination(destination))
        consumer_id = ConsumerId(
            self.session_id.connection_id, self.session_id.value, next(self._consumer_numbers)
        )
        info = consumer_info(self, consumer_id, destination, selector, **details)
        consumer = kind(self, info)
        self.members.add_consumer(consumer)
        try:
            await self.connection.request(info)
        except BaseException:
            consumer.dispose()
            self.members.drop_consumer(consumer)
            raise
        consumer.keep_acknowledging()
        return consumer

    # --- acknowledgement, transactions, recovery

    async def commit(self) -> None:
        self.check_open()
        if not self._is_transacted:
            raise IllegalStateException("Not a transacted session")
        await self.transaction.commit()

    async def rollback(self) -> None:
        self.check_open()
        if not self._is_transacted:
            raise IllegalStateException("Not a transacted session")
        await self.transaction.rollback()

    async def recover(self) -> None:
        self.check_open()
        if self._is_transacted:
            raise IllegalStateException("This session is transacted")
        for consumer in self.members.all_consumers:
            consumer.roll_back()
        self.members.release_lingering()

    def before_transaction_end(self) -> None:
        """Acknowledge in the transaction what was handed out."""
        for consumer in self.members.all_consumers:
            consumer.ledger.before_end()

    def after_commit(self) -> None:
        """What was handed out is done with."""
        for consumer in self.members.all_consumers:
            consumer.ledger.settle()
        self.members.release_lingering()

    def after_rollback(self) -> None:
        """What was handed out comes again."""
        for consumer in self.members.all_consumers:
            consumer.roll_back()
        self.members.release_lingering()

    # --- listeners

    @property
    def message_listener(self) -> MessageListener | None:
        self.check_open()
        return self._listener

    async def set_message_listener(self, listener: MessageListener | None) -> None:
        """Have `listener` called with the messages of all consumers by `run`. (N18)"""
        self.check_open()
        self._listener = listener
        self.listeners_changed()

    async def run(self) -> None:
        """Hand the waiting messages of all consumers to the session's listener."""
        self.check_open()
        listener = self._listener
        if listener is None:
            raise IllegalStateException("run() needs a message listener on the session")
        for consumer in list(self.members.consumers):
            while not self.is_closed and (dispatch := consumer.next_dispatch()) is not None:
                await consumer.call(listener, dispatch)

    def listeners_changed(self) -> None:
        """Look again whether any listener is set."""
        self.has_listener = self._listener is not None or any(
            consumer.has_listener for consumer in self.members.consumers
        )

    @property
    def has_own_listener(self) -> bool:
        """Whether the session itself has a listener: its consumers' are not called."""
        return self._listener is not None

    # --- life

    def start(self) -> None:
        """Let messages flow."""
        self.is_started = True
        self.unstarted.cancel()
        self._update_flow()

    async def stop(self) -> None:
        """Hand nothing out any more; wait for the running listener."""
        self.is_started = False
        self._update_flow()
        await self.dispatcher.wait_idle()

    async def close(self) -> None:
        """Close it and all it made; waits for its running listener, unless that is the caller.

        An open transaction is rolled back. When cancelled meanwhile, the listener is too.
        """
        if self.is_closed:
            return
        self.is_closed = True
        try:
            await self.stop()
            await self.transaction.rollback()
        except ConnectionFailedException as error:
            logger.debug("Closing %s without the broker: %s", self.session_id, error)
        finally:
            last = self.dispose()
            self.connection.session_closed(self)
            self.connection.oneway_if_open(RemoveInfo(self.session_id, last))
            with anyio.CancelScope(shield=True):
                await self.end_tasks()

    def dispose(self, failure: JMSException | None = None) -> int:
        """End it on this side; return the last sequence number that was handed out."""
        self.is_closed = True
        self.is_started = False
        self.failure = failure
        self.dispatcher.stop_soon()
        self.tasks.cancel()
        return self.members.dispose(failure)

    async def end_tasks(self) -> None:
        """Await what `dispose` has ended; cancels a listener that still runs."""
        await self.dispatcher.abort()
        await self.tasks.wait()

    def check_open(self) -> None:
        """Refuse calls on a closed session.

        Raises:
            IllegalStateException: it is closed.
            ConnectionFailedException: the connection has failed.
        """
        if self.is_closed:
            if self.failure is not None:
                raise self.connection.failed_error()
            raise IllegalStateException("The Session is closed")

    def _update_flow(self) -> None:
        for consumer in self.members.consumers:
            consumer.update_flow()


def _name(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a destination's name is a str, not {type(name).__name__}")
    return name
