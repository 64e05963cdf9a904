"""The session: creates producers and consumers, whose work forms one unit of work.

A session runs one listener at a time, and is used by one task at a time, except for `close`.
Acknowledge, commit, rollback and recover apply to everything that its consumers have delivered,
including closed consumers.

The package's docstring describes its collaborators. (JMS 1.1, section 4.4; activemq-broker A3 to
A6, X7; activemq-edges N8, N11, N18)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final, TypeVar, Unpack

import anyio

from pyjms._logger import get_logger
from pyjms.client.delivery import ActiveMQMessageConsumer, ActiveMQQueueBrowser
from pyjms.client.delivery.browser import BrowsingConsumer
from pyjms.client.delivery.dispatcher import ListenerDispatcher
from pyjms.client.delivery.variants import browser_kind, consumer_kind
from pyjms.client.interfaces import ClientConnection
from pyjms.client.measured_producer import new_producer
from pyjms.client.options.destination_options import (
    check_destination,
    consumer_info,
    selector_or_none,
)
from pyjms.client.producer import ActiveMQMessageProducer
from pyjms.client.session.acknowledgement import SessionAcks
from pyjms.client.session.completions import SendCompletions
from pyjms.client.session.one_user import SessionUse
from pyjms.client.session.registration import FirstPull, register
from pyjms.client.session.resources import SessionResources
from pyjms.client.session.running import SessionRuns
from pyjms.client.session.shared_subscriptions import SharedSubscriptions
from pyjms.client.session.transaction import SessionTransaction
from pyjms.client.session.unit_of_work import UnitOfWork
from pyjms.client.session.unstarted_warning import UnstartedWarning
from pyjms.client.tasks import OwnedTasks
from pyjms.enums import AcknowledgeMode
from pyjms.errors import (
    ConnectionFailedException,
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    RequestTimeoutException,
)
from pyjms.jms.api import MessageListener, MessageTransformer
from pyjms.jms.api.session import PullOptions
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.wire.openwire.commands import (
    ConsumerId,
    ProducerId,
    RemoveInfo,
    RemoveSubscriptionInfo,
    SessionId,
)

__all__ = ["ActiveMQSession"]

logger: Final = get_logger(__name__)

_C = TypeVar("_C", bound=ActiveMQMessageConsumer)


class ActiveMQSession(UnitOfWork):
    """A session of an `ActiveMQConnection`, which creates it."""

    consumer_class: type[ActiveMQMessageConsumer] = ActiveMQMessageConsumer
    takes_chunks = True  # of connection consumers

    def __init__(
        self,
        connection: ClientConnection,
        session_id: SessionId,
        mode: AcknowledgeMode,
        on_close: Callable[[ActiveMQSession], None],
    ) -> None:
        self.connection = connection
        self.session_id = session_id
        self.stats: Final = (
            connection.stats.add_session(str(session_id)) if connection.stats else None
        )
        self.transformer: MessageTransformer | None = connection.transformer
        """The message transformer of new producers and consumers."""
        self.consumer_class = consumer_kind(self, self.consumer_class)
        self.resources: SessionResources = SessionResources(connection, self.stats)
        self.transaction: SessionTransaction = self.new_transaction(mode)
        self.dispatcher: ListenerDispatcher = ListenerDispatcher(
            session_id, connection.send_now, connection.fail
        )
        self.use: SessionUse = SessionUse(session_id, self.dispatcher)
        self._runs = SessionRuns(self.dispatcher, self.resources)
        self.completions: SendCompletions = SendCompletions(connection, session_id, self.dispatcher)
        self.shared: SharedSubscriptions = SharedSubscriptions(connection, self.resources)
        self.is_started: bool = connection.is_started
        self.has_listener: bool = False
        """Whether a listener is set on the session or a consumer: receive() is refused."""
        self.is_closed: bool = False
        self.failure: JMSException | None = None
        options = connection.options
        self.reorders: bool = options.non_blocking_redelivery or options.message_priority_supported
        """Whether messages may be delivered in another order than the broker's."""
        self.acks: SessionAcks = SessionAcks(connection, mode, self.resources, self.check_open)
        self.send_ack: Final = self.acks.sender
        self._mode = mode
        self._is_transacted = mode == AcknowledgeMode.TRANSACTED
        self._on_close = on_close
        self._listener: MessageListener | None = None
        self._consumer_numbers = itertools.count(1)
        self._producer_numbers = itertools.count(1)
        self.tasks: OwnedTasks = OwnedTasks(session_id, connection.fail)
        unstarted_timeout = options.warn_about_unstarted_connection_timeout
        self._unstarted = UnstartedWarning(
            connection.connection_id, 0.0 if self.is_started else unstarted_timeout
        )

    def __repr__(self) -> str:
        return f"<session {self.session_id}>"

    # --- mode

    @property
    def transacted(self) -> bool:
        return self._is_transacted

    @property
    def acknowledge_mode(self) -> AcknowledgeMode:
        return self._mode

    # --- temporary destinations

    async def create_temporary_queue(self) -> TemporaryQueue:
        self.check_open()
        return await self.connection.create_temporary(TemporaryQueue)

    async def create_temporary_topic(self) -> TemporaryTopic:
        self.check_open()
        return await self.connection.create_temporary(TemporaryTopic)

    async def delete_temporary(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        self.check_open()
        await self.connection.delete_temporary(destination)

    # --- producers and consumers

    async def create_producer(
        self, destination: Destination | None = None
    ) -> ActiveMQMessageProducer:
        self.check_open()
        own = self.session_id
        producer_id = ProducerId(own.connection_id, next(self._producer_numbers), own.value)
        checked = None if destination is None else check_destination(destination)
        producer = new_producer(self, producer_id, checked)
        self.resources.add_producer(producer)
        try:
            await self.connection.request(producer.info)
        except BaseException as error:
            refused = isinstance(error, JMSException) and not isinstance(
                error, RequestTimeoutException
            )
            self.resources.producer_closed(producer.producer_id, is_registered=not refused)
            raise
        return producer

    async def create_consumer(
        self, destination: Destination, selector: str | None = None, *, no_local: bool = False
    ) -> ActiveMQMessageConsumer:
        return await self.open_consumer(
            destination, selector, self.consumer_class, no_local=no_local
        )

    async def create_pull_consumer(
        self,
        destination: Destination,
        selector: str | None = None,
        **options: Unpack[PullOptions],
    ) -> ActiveMQMessageConsumer:
        pull = FirstPull(options.pop("timeout", None))
        return await self.open_consumer(destination, selector, self.consumer_class, pull, **options)

    async def create_durable_subscriber(
        self, topic: Topic, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> ActiveMQMessageConsumer:
        return await self.open_durable_subscriber(
            topic, name, selector, self.consumer_class, no_local=no_local
        )

    async def open_durable_subscriber(
        self, topic: Destination, name: str, selector: str | None, kind: type[_C], **details: Any
    ) -> _C:
        """Open a durable subscriber of class `kind`; `details` are passed to `consumer_info`."""
        self.check_open()
        if not self.connection.has_own_client_id:
            raise JMSException(
                "You cannot create a durable subscriber without specifying a unique clientID"
                " on a Connection",
                hint="call connection.set_client_id() first, or give the factory a client_id",
            )
        if topic is not None and not isinstance(topic, Topic):
            raise InvalidDestinationException(
                f"Cannot create a durable subscriber on {topic}: it is not a topic",
                hint="a queue keeps its messages anyway: use create_consumer()",
            )
        return await self.open_consumer(topic, selector, kind, subscription_name=name, **details)

    async def create_shared_consumer(
        self, topic: Topic, name: str, selector: str | None = None
    ) -> ActiveMQMessageConsumer:
        return await self._share(topic, name, selector, durable=False)

    async def create_shared_durable_consumer(
        self, topic: Topic, name: str, selector: str | None = None
    ) -> ActiveMQMessageConsumer:
        return await self._share(topic, name, selector, durable=True)

    async def create_browser(
        self, queue: Queue, selector: str | None = None
    ) -> ActiveMQQueueBrowser:
        self.check_open()
        selector = selector_or_none(selector)
        browser_class = browser_kind(self, BrowsingConsumer)
        browser = ActiveMQQueueBrowser(
            self,
            check_destination(queue),
            selector,
            lambda: self.open_consumer(queue, selector, browser_class, browser=True),
            self.resources.browser_closed,
        )
        self.resources.add_browser(browser)
        return browser

    async def unsubscribe(self, name: str) -> None:
        self.check_open()
        if await self.shared.unsubscribe(name):
            return
        connection = self.connection
        await connection.request(
            RemoveSubscriptionInfo(connection.connection_id, name, connection.registered_client_id)
        )

    async def _share(
        self, topic: Topic, name: str, selector: str | None, *, durable: bool
    ) -> ActiveMQMessageConsumer:
        self.check_open()
        queue = self.shared.queue_of(topic, name, selector)
        consumer = await self.open_consumer(queue, None, self.consumer_class)
        self.shared.opened(consumer, queue, name, durable=durable)
        return consumer

    async def open_consumer(
        self,
        destination: Destination,
        selector: str | None,
        kind: type[_C],
        pull: FirstPull | None = None,
        **details: Any,
    ) -> _C:
        """Open a consumer of class `kind`; `details` are passed to `consumer_info`."""
        self.check_open()
        connection, session_id = self.connection, self.session_id
        connection.check_consumable(check_destination(destination))
        info = consumer_info(
            ConsumerId(session_id.connection_id, session_id.value, next(self._consumer_numbers)),
            destination,
            selector,
            options=connection.options,
            acknowledge_mode=self._mode,
            client_id=connection.registered_client_id,
            optimizes_acks=connection.optimizes_acks,
            pulls=pull is not None,
            **details,
        )
        return await register(kind(self, info), self.resources, pull)

    # --- listeners

    @property
    def message_listener(self) -> MessageListener | None:
        self.check_open()
        return self._listener

    async def set_message_listener(self, listener: MessageListener | None) -> None:
        """Set the listener to which `run` delivers. (activemq-edges N18)"""
        self.check_open()
        self._listener = listener
        self.listeners_changed()

    async def run(self) -> None:
        self.check_open()
        await self._runs.run(self._listener)

    def listeners_changed(self) -> None:
        """Update `has_listener`."""
        self.has_listener = self._listener is not None or any(
            consumer.has_listener for consumer in self.resources.consumers
        )

    @property
    def has_own_listener(self) -> bool:
        """Whether the session itself has a listener, which replaces those of its consumers."""
        return self._listener is not None

    # --- for consumers and producers

    def message_before_start(self) -> None:
        """Record that a message arrived before the connection was started."""
        self._unstarted.on_message()

    def consumer_closed(self, consumer_id: ConsumerId) -> None:
        """Remove a consumer that the application closed."""
        self.resources.consumer_closed(consumer_id)
        self.listeners_changed()

    def producer_closed(self, producer_id: ProducerId) -> None:
        """Remove a producer that the application closed."""
        self.resources.producer_closed(producer_id)

    # --- life cycle

    def start(self) -> None:
        """Start delivery."""
        self.is_started = True
        self._unstarted.cancel()
        self._update_flow()

    async def stop(self) -> None:
        """Stop delivery and wait until no listener is running."""
        self.is_started = False
        self._update_flow()
        await self.dispatcher.wait_idle()

    async def finish(self) -> None:
        """Wait until no listener and no completion listener is running, before the close."""
        await self.completions.finish()
        await self.stop()

    async def close(self) -> None:
        self.completions.check("close()")
        if self.is_closed:
            return
        self.is_closed = True
        try:
            await self.finish()
            await self.transaction.close()
            await self.shared.close()
        except ConnectionFailedException as error:
            logger.debug("Closing %s without the broker: %s", self.session_id, error)
        finally:
            await self.finish_close()

    async def finish_close(self) -> None:
        """Dispose the session, tell the broker, and wait for the session's tasks."""
        last = self.dispose()
        self._on_close(self)
        self.connection.oneway_if_open(RemoveInfo(self.session_id, last))
        with anyio.CancelScope(shield=True):
            await self.end_tasks()

    def dispose(self, failure: JMSException | None = None) -> int:
        """Close it without telling the broker; return the last sequence id delivered."""
        self.is_closed = True
        self.is_started = False
        self.failure = failure
        self.dispatcher.stop_soon()
        self._runs.end()
        self.completions.dispose(failure)
        self.tasks.cancel()
        self.abandon_transaction()
        return self.resources.dispose(failure)

    async def end_tasks(self) -> None:
        """Wait for the tasks that `dispose` has ended; cancels a listener that is still running."""
        await self.dispatcher.abort()
        await self.completions.end()
        await self.tasks.wait()
        await self.wait_abandoned()

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
        for consumer in self.resources.consumers:
            consumer.update_flow()
