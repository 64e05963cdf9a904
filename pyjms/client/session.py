"""The session: creates producers and consumers, whose work forms one unit of work.

A session runs one listener at a time, and is used by one task at a time, except for `close`.
Acknowledge, commit, rollback and recover apply to everything that its consumers have delivered,
including closed consumers.

The package's docstring describes its collaborators. (JMS 1.1, section 4.4; activemq-broker A3 to
A6, X7; activemq-edges N8, N11, N18)

The consumers, producers and browsers of a session, and the unit of work that they form.

A consumer that is closed while delivered messages are not settled lingers: the broker is told of
its end only when they are settled, so that commit, rollback and acknowledge still cover them.
(JMS 1.1, section 4.5; activemq-broker X7)

Registration of a consumer with the broker and its session.

A pull consumer's first MessagePull is sent right after its ConsumerInfo: one round trip instead of
two for every message that a JmsTemplate receives.

Acknowledgement by a session: what `message.acknowledge()` does, and how acks are sent.

By default acknowledgements are sent without waiting. With `jms.sendAcksAsync=false`,
acknowledgements outside transactions require a response, for which `receive` and
`await message.acknowledge()` wait. The responses to a listener's acknowledgements are awaited after
the listener, and a refusal is passed to the exception listener.
(JMS 1.1, section 4.4.11; activemq-broker A5)

Detects concurrent use of a session in the coroutine API.

JMS: a session is for one thread at a time, except `close` (JMS 1.1, section 4.4.6). Tasks of one
event loop do not run at the same time, so fewer calls are errors. The following are refused:

- a call from another thread or event loop than the connection's, to which the transport belongs;
- `commit`, `rollback` and `recover` while another task waits in `receive`, and any call while
  another task is in `commit` or `rollback`: the transaction of such a call would be undetermined.

Shared subscriptions of JMS 2.0, mapped onto virtual topics.

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

Sessions: units of order, acknowledgement and transaction, and their parts.

    an ActiveMQSession owns   for
    -----------------------   ----------------------------------------------------------------
    SessionResources          open consumers, producers and browsers; closed, unsettled consumers
    SessionTransaction        its transactions: none, or local ones
    SessionAcks               sending acknowledgements, `message.acknowledge()`
    ListenerDispatcher        the task that calls listeners (pyjms.client.browser)

Life cycle: open, then closed by the application (rolls back, waits for the running listener and
tells the broker), or disposed by the connection (which tells the broker itself, or has failed).
Start and stop follow the connection's.
"""

from __future__ import annotations

import itertools
import threading
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from threading import get_ident
from typing import Any, Final, NamedTuple, TypeVar, Unpack
from urllib.parse import quote

import anyio
from anyio import get_current_task
from anyio.lowlevel import current_token

from pyjms.client import blobs
from pyjms.client.browser import ActiveMQMessageConsumer, ActiveMQQueueBrowser, BrowsingConsumer
from pyjms.client.chunks import ChunkConsumer
from pyjms.client.completions import SendCompletions
from pyjms.client.destination_options import (
    check_destination,
    check_name,
    consumer_info,
    selector_or_none,
)
from pyjms.client.dispatcher import ListenerDispatcher
from pyjms.client.interfaces import ClientConnection, ListenerDispatch
from pyjms.client.producer import ActiveMQMessageProducer, new_producer
from pyjms.client.tasks import OwnedTasks
from pyjms.client.transaction import (
    LocalTransaction,
    NoTransaction,
    SessionTransaction,
    after_rollback,
)
from pyjms.client.variants import browser_kind, consumer_kind
from pyjms.enums import AcknowledgeMode
from pyjms.errors import (
    ConnectionFailedException,
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    JMSSecurityException,
    RequestTimeoutException,
    UnsupportedOperationException,
)
from pyjms.jms import api
from pyjms.jms.api import MessageListener, MessageTransformer
from pyjms.jms.api.session import BlobSource, PullOptions
from pyjms.jms.blob import BlobMessage
from pyjms.jms.bodies import BytesMessage, MapMessage, ObjectMessage, StreamMessage, TextMessage
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.jms.message import Acknowledger, Message
from pyjms.jms.synchronization import LocalTransactionEventListener, Synchronization
from pyjms.management import JMSSessionStats
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, Waiter, spawn
from pyjms.runtime.logging import get_logger
from pyjms.transport.openwire import RequestTransport
from pyjms.wire.openwire.commands import (
    ConsumerId,
    DestinationInfo,
    MessageAck,
    MessageDispatch,
    ProducerId,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Response,
    SessionId,
)

__all__ = ["ActiveMQSession", "SessionResources", "register"]

# --- Objects that a session creates without a request to the broker: destinations and messages.


class LocalCreations(api.Session):
    """The part of a session that creates local objects."""

    connection: ClientConnection

    @abstractmethod
    def check_open(self) -> None:
        """Refuse calls on a closed session."""

    def create_queue(self, name: str) -> Queue:
        self.check_open()
        return TemporaryQueue(name) if check_name(name).startswith("ID:") else Queue(name)

    def create_topic(self, name: str) -> Topic:
        self.check_open()
        return TemporaryTopic(name) if check_name(name).startswith("ID:") else Topic(name)

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

    def create_blob_message(
        self, url: str | None = None, **source: Unpack[BlobSource]
    ) -> BlobMessage:
        self.check_open()
        return blobs.new_blob_message(self.connection.options.blob_transfer_policy, url, **source)

    def create_object_message(self, data: bytes | None = None) -> ObjectMessage:
        self.check_open()
        return ObjectMessage(data)


_UNKNOWN = -2  # RemoveInfo.last_delivered_sequence_id of a session without consumers


class SessionResources:
    """The objects that one session has created and not closed."""

    def __init__(self, connection: ClientConnection, stats: JMSSessionStats | None) -> None:
        self._connection = connection
        self._stats = stats
        self.consumers: list[ActiveMQMessageConsumer] = []
        self._lingering: list[ActiveMQMessageConsumer] = []
        self._producers: dict[ProducerId, ActiveMQMessageProducer] = {}
        self._browsers: set[ActiveMQQueueBrowser] = set()

    @property
    def all_consumers(self) -> list[ActiveMQMessageConsumer]:
        """The open consumers, and the closed ones with messages that are not settled."""
        return [*self.consumers, *self._lingering]

    def consumes(self, destination: Destination) -> bool:
        """Return whether an open consumer consumes from `destination`."""
        return any(consumer.destination == destination for consumer in self.consumers)

    # --- adding and removing

    def add_consumer(self, consumer: ActiveMQMessageConsumer) -> None:
        """Add a consumer and route its dispatches to it."""
        self.consumers.append(consumer)
        self._connection.add_consumer(consumer)

    def add_chunks(self, consumer: ChunkConsumer) -> None:
        """Add a consumer of chunks, which the broker dispatches to its connection consumer."""
        self.consumers.append(consumer)

    def consumer_closed(self, consumer_id: ConsumerId) -> None:
        """Remove a consumer that the application closed; with unsettled messages it lingers."""
        for consumer in self.consumers:
            if consumer.consumer_id == consumer_id:
                self.consumers.remove(consumer)
                self._lingering.append(consumer)
                self.release_closed_consumers(only_settled=True)
                return

    def drop_consumer(self, consumer: ActiveMQMessageConsumer) -> None:
        """Remove a consumer that the broker may not know."""
        if consumer in self.consumers:
            self.consumers.remove(consumer)
        self._release(consumer, _UNKNOWN)

    def drop_consumers_of(self, destination: Destination) -> None:
        """Remove all consumers of `destination`, settled or not, and tell the broker."""
        for consumers in (self.consumers, self._lingering):
            for consumer in [c for c in consumers if c.destination == destination]:
                consumers.remove(consumer)
                consumer.dispose()
                self._release(consumer, consumer.last_delivered_sequence_id)

    def release_closed_consumers(self, *, only_settled: bool = False) -> None:
        """Tell the broker of the end of lingering consumers."""
        if not self._lingering:
            return
        lingering = [c for c in self._lingering if only_settled and c.has_unsettled]
        released = [c for c in self._lingering if c not in lingering]
        self._lingering = lingering
        for consumer in released:
            consumer.dispose()
            self._release(consumer, consumer.last_delivered_sequence_id)

    def add_producer(self, producer: ActiveMQMessageProducer) -> None:
        """Add a producer and route its window acknowledgements to it."""
        self._producers[producer.producer_id] = producer
        self._connection.add_producer(producer)

    def producer_closed(self, producer_id: ProducerId, *, is_registered: bool = True) -> None:
        """Remove a producer and tell the broker, if it may know it."""
        self._producers.pop(producer_id, None)
        self._connection.remove_producer(producer_id)
        if is_registered:
            self._connection.oneway_if_open(RemoveInfo(producer_id))

    def add_browser(self, browser: ActiveMQQueueBrowser) -> None:
        """Add a browser, to be closed with the session."""
        self._browsers.add(browser)

    def browser_closed(self, browser: ActiveMQQueueBrowser) -> None:
        """Remove a browser."""
        self._browsers.discard(browser)

    # --- the unit of work

    def acknowledge(self) -> None:
        """CLIENT: acknowledge the delivered messages."""
        for consumer in self.all_consumers:
            consumer.ledger.acknowledge()
        self.release_closed_consumers()

    def acknowledge_in_transaction(self) -> None:
        """Acknowledge the delivered messages, because the transaction is about to end."""
        for consumer in self.all_consumers:
            consumer.ledger.acknowledge_in_transaction()

    def stale_count(self) -> int:
        """The number of deliveries by a lost broker that the present one has not repeated."""
        return sum(consumer.ledger.stale_count for consumer in self.all_consumers)

    def settle(self) -> None:
        """Settle the delivered messages after a commit."""
        for consumer in self.all_consumers:
            consumer.ledger.settle()
        self.release_closed_consumers()

    def settle_in_doubt(self) -> None:
        """Settle the delivered messages, but accept redeliveries, which mean a rollback."""
        for consumer in self.all_consumers:
            for dispatch in consumer.ledger.delivered:
                consumer.forget(dispatch)
        self.settle()

    def roll_back(self) -> None:
        """Redeliver the delivered messages after a rollback or `recover`."""
        for consumer in self.all_consumers:
            consumer.roll_back()
        self.release_closed_consumers()

    def mark_failed(self, failure: JMSException) -> None:
        """Make every further call raise the connection's failure; do not close or wake anything."""
        for consumer in self.all_consumers:
            consumer.failure = failure
            consumer.is_closed = True
        for producer in self._producers.values():
            producer.mark_failed(failure)
        for browser in self._browsers:
            browser.dispose()

    def dispose(self, failure: JMSException | None) -> int:
        """Close everything without the broker; return the last sequence id delivered."""
        last = _UNKNOWN
        for consumer in self.all_consumers:
            consumer.dispose(failure)
            last = max(last, consumer.last_delivered_sequence_id)
            if isinstance(consumer, ChunkConsumer):
                consumer.released()
            else:
                self._connection.remove_consumer(consumer.consumer_id)
        for producer in self._producers.values():
            producer.dispose(failure)
            self._connection.remove_producer(producer.producer_id)
        for browser in self._browsers:
            browser.dispose()
        self.consumers.clear()
        self._lingering.clear()
        self._producers.clear()
        self._browsers.clear()
        if self._stats is not None:
            self._stats.closed()
        return last

    def _release(self, consumer: ActiveMQMessageConsumer, last: int) -> None:
        if isinstance(consumer, ChunkConsumer):
            consumer.released()
            return
        self._connection.remove_consumer(consumer.consumer_id)
        if not consumer.is_removed_by_broker:
            self._connection.oneway_if_open(RemoveInfo(consumer.consumer_id, last))


_C = TypeVar("_C", bound=ActiveMQMessageConsumer)


class FirstPull(NamedTuple):
    """The timeout of the first `receive` of a new consumer, in seconds; None: for ever."""

    timeout: float | None


async def register(consumer: _C, resources: SessionResources, pull: FirstPull | None) -> _C:
    """Register `consumer` and return it. After cancellation or a refusal it is removed again.

    Raises:
        JMSException: the broker refused it, or the connection has failed.
    """
    connection = consumer.session.connection
    resources.add_consumer(consumer)
    try:
        if pull is None:
            await connection.request(consumer.info)
        else:
            await _register_and_pull(consumer, pull)
    except BaseException as error:
        if isinstance(error, JMSException) and not isinstance(error, RequestTimeoutException):
            consumer.is_removed_by_broker = True  # it has never been registered there
        consumer.dispose()
        resources.drop_consumer(consumer)
        raise
    consumer.ledger.start_timer(consumer.session.tasks)
    return consumer


async def _register_and_pull(consumer: ActiveMQMessageConsumer, pull: FirstPull) -> None:
    connection = consumer.session.connection
    waiter = Waiter()
    outcomes: list[Response | Exception] = []

    def complete(outcome: Response | Exception) -> None:
        outcomes.append(outcome)
        waiter.wake()

    connection.transport.request_soon(consumer.info, complete)
    consumer.pulls.request_ahead(pull.timeout)
    connection.send_now()
    await waiter.wait()
    if isinstance(outcomes[0], Exception):
        raise outcomes[0]


# --- `Session.run`: calls the session's listener with the messages buffered by its consumers.


class _Run:
    """One call of `run`, made by the session's listener dispatcher, one message at a time."""

    is_queued = False
    listener_name = "the listener of a session"

    def __init__(self, resources: SessionResources, listener: MessageListener) -> None:
        self._resources = resources
        self._listener = listener
        self.done = anyio.Event()

    async def deliver_one(self) -> bool:
        """Deliver the next message of any consumer; return whether there may be more."""
        for consumer in list(self._resources.consumers):
            dispatch = consumer.next_dispatch()
            if dispatch is not None:
                await consumer.call_listener(self._listener, dispatch)
                return True
        self.done.set()
        return False


class SessionRuns:
    """The calls of `run` of one session."""

    def __init__(self, dispatcher: ListenerDispatch, resources: SessionResources) -> None:
        self._dispatcher = dispatcher
        self._resources = resources
        self._runs: set[_Run] = set()

    async def run(self, listener: MessageListener | None) -> None:
        """Call `listener` with the buffered messages; cancelling ends only the wait.

        Raises:
            IllegalStateException: there is no listener, or the caller is a listener of the session.
        """
        if listener is None:
            raise IllegalStateException("run() needs a listener: call set_message_listener() first")
        if self._dispatcher.is_own_call:
            raise IllegalStateException("run() cannot be called by a listener of the session")
        run = _Run(self._resources, listener)
        self._runs.add(run)
        try:
            self._dispatcher.wake(run)
            await run.done.wait()
        finally:
            self._runs.discard(run)

    def end(self) -> None:
        """End all waits, because the session is closed."""
        for run in self._runs:
            run.done.set()


class PendingAckResponses:
    """The pending responses to acknowledgements of one session. Awaitable."""

    def __init__(self, transport: RequestTransport) -> None:
        self._transport = transport
        self._pending = 0
        self._error: Exception | None = None
        self._complete = anyio.Event()

    def send(self, ack: MessageAck) -> None:
        """Send `ack` and expect a response. Synchronous."""
        if self._pending == 0:
            self._complete = anyio.Event()
        self._pending += 1
        try:
            self._transport.request_soon(ack, self._on_response)
        except JMSException:
            self._pending -= 1
            raise

    async def wait(self) -> None:
        """Wait for all responses; not cancellable, so that no received message is lost.

        Raises:
            JMSException: the broker refused one of the acknowledgements.
        """
        while self._pending:
            with anyio.CancelScope(shield=True):
                await self._complete.wait()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def __await__(self) -> Generator[object, object, None]:
        return self.wait().__await__()

    def _on_response(self, response: Response | Exception) -> None:
        self._pending -= 1
        if isinstance(response, Exception):
            self._error = self._error or response
        if self._pending == 0:
            self._complete.set()


class SessionAcks:
    """The acknowledgements of one session."""

    def __init__(
        self,
        connection: ClientConnection,
        mode: AcknowledgeMode,
        resources: SessionResources,
        check_open: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._mode = mode
        self._resources = resources
        self._check_open = check_open
        asynchronous = connection.options.send_acks_async
        self._responses = None if asynchronous else PendingAckResponses(connection.transport)
        self.waits_for_responses: bool = not asynchronous

    @property
    def sender(self) -> Callable[[MessageAck], None]:
        """The synchronous function that sends an acknowledgement."""
        return self._connection.oneway if self._responses is None else self._send

    def _send(self, ack: MessageAck) -> None:
        assert self._responses is not None
        if ack.transaction_id is None:
            self._responses.send(ack)
        else:
            self._connection.oneway(ack)

    async def wait(self) -> None:
        """Wait for pending responses, if responses are awaited.

        Raises:
            JMSException: the broker refused one of the acknowledgements.
        """
        if self._responses is not None:
            await self._responses.wait()

    async def wait_or_report(self) -> None:
        """Wait like `wait`, but pass a refusal to the exception listener."""
        try:
            await self.wait()
        except JMSException as error:
            self._connection.report(error)

    def acknowledger_for(
        self, acknowledge_one: Callable[[MessageDispatch], None] | None
    ) -> Acknowledger:
        """Return the function that `acknowledge()` calls on the messages of a consumer.

        `acknowledge_one` is the ledger's function for mode INDIVIDUAL.
        """
        if self._mode == AcknowledgeMode.INDIVIDUAL and acknowledge_one is not None:
            return lambda message: self._acknowledge_one(acknowledge_one, message)
        return self.acknowledge if self._mode == AcknowledgeMode.CLIENT else self._ignore

    def acknowledge(self, message: Message | None = None) -> Awaitable[None] | None:
        """CLIENT: acknowledge everything that the session has delivered.

        Raises:
            IllegalStateException: the session is closed.
        """
        self._check_open()
        self._resources.acknowledge()
        return self._responses

    def _acknowledge_one(
        self, acknowledge_one: Callable[[MessageDispatch], None], message: Message
    ) -> Awaitable[None] | None:
        self._check_open()
        assert isinstance(message.provider_delivery, MessageDispatch)
        acknowledge_one(message.provider_delivery)
        self._resources.release_closed_consumers(only_settled=True)
        return self._responses

    def _ignore(self, message: Message) -> None:
        self._check_open()


_ends: ContextVar[tuple[SessionUse, ...]] = ContextVar("pyjms_ending_sessions", default=())
"""The sessions whose unit of work ends in the current context, as seen by synchronizations."""


class SessionUse:
    """The thread of one session, and the task that ends its unit of work.

    `thread` and `ending` are public because the methods called for every message compare them, and
    call `check` only if it may raise.
    """

    __slots__ = ("_dispatcher", "_name", "_thread_name", "_token", "ending", "thread")

    def __init__(self, name: object, dispatcher: ListenerDispatcher) -> None:
        """Record the running loop as the session's; `name` is used in error messages.

        Listeners called by `dispatcher` may use the session at any time.
        """
        self._name = name
        self._dispatcher = dispatcher
        self._token = current_token()
        self._thread_name = threading.current_thread().name
        self.thread: int = get_ident()
        self.ending: str | None = None
        """The call in progress that ends the unit of work, with its task; or None."""

    def check(self, call: str) -> None:
        """Refuse a call that must not be made now.

        Raises:
            IllegalStateException: the call is made on another event loop, or while another task is
                in `commit` or `rollback`.
        """
        if self.thread != get_ident():
            self._check_loop(call)
        is_part = self in _ends.get() or self._dispatcher.is_own_call
        if self.ending is not None and not is_part:
            raise self._refusal(f"task {get_current_task().name!r} called {call}", self.ending)

    @contextmanager
    def end(self, call: str, resources: SessionResources) -> Iterator[None]:
        """Record that the current task is in `call`, which ends the unit of work.

        Raises:
            IllegalStateException: as for `check`, or another task waits in `receive`.
        """
        self.check(call)
        self.check_receives(call, resources)
        if self.ending is not None:  # called by a synchronization, thus within `commit`
            yield
            return
        self.ending = f"task {get_current_task().name!r} is in {call}"
        token = _ends.set((*_ends.get(), self))
        try:
            yield
        finally:
            _ends.reset(token)
            self.ending = None

    def check_receives(self, call: str, resources: SessionResources) -> None:
        """Refuse `call` while a task waits in `receive`.

        Raises:
            IllegalStateException: a task waits.
        """
        for consumer in resources.consumers:
            if consumer.receivers.waiting:
                raise self._refusal(
                    f"task {get_current_task().name!r} called {call}",
                    f"another task waits in receive() of consumer {consumer.consumer_id}",
                )

    def _check_loop(self, call: str) -> None:
        try:
            is_own = current_token() == self._token
        except RuntimeError:
            is_own = False
        here = threading.current_thread().name
        if not is_own:
            raise self._refusal(
                f"thread {here!r} called {call}",
                f"it belongs to the event loop of thread {self._thread_name!r}",
            )
        self.thread, self._thread_name = get_ident(), here  # the loop runs in another thread now

    def _refusal(self, this: str, other: str) -> IllegalStateException:
        return IllegalStateException(
            f"The session {self._name} is used twice at the same time: {this}, and {other}",
            hint="create one session for each task or thread that works at the same time",
        )


# --- The ends of a session's unit of work: commit, rollback, recover, and waiting for sends.


class UnitOfWork(LocalCreations):
    """The part of a session that ends its units of work."""

    resources: SessionResources
    transaction: SessionTransaction
    completions: SendCompletions
    use: SessionUse
    _abandoned: BackgroundTask | None = None

    async def commit(self) -> None:
        await self._end("commit()", self.transaction.commit)

    async def rollback(self) -> None:
        await self._end("rollback()", self.transaction.rollback)

    async def _end(self, call: str, end: Callable[[], Awaitable[None]]) -> None:
        self.check_open()
        self.completions.check(call)
        with self.use.end(call, self.resources):
            if self.completions.outstanding:
                await self._finish_sends(call)
            await end()

    async def recover(self) -> None:
        self.check_open()
        if self.transacted:
            raise IllegalStateException(
                "This session is transacted", hint="rollback() redelivers its messages"
            )
        self.use.check("recover()")
        self.use.check_receives("recover()", self.resources)
        self.resources.roll_back()

    @property
    def has_outstanding_sends(self) -> bool:
        """Whether completion listeners are pending, so that `wait_for_completions` would wait."""
        return self.completions.is_busy

    async def wait_for_completions(self) -> None:
        await self._finish_sends("wait_for_completions()")

    def add_synchronization(self, synchronization: Synchronization) -> None:
        self.check_open()
        self.transaction.add_synchronization(synchronization)

    def abandon_transaction(self) -> None:
        """Call the synchronizations of a transaction that the broker rolls back on its own."""
        left = self.transaction.abandon()
        if left:
            self._abandoned = spawn(after_rollback, left, name="pyjms rollback of a lost session")

    async def wait_abandoned(self) -> None:
        """Wait until the synchronizations of an abandoned transaction have been called."""
        if self._abandoned is not None:
            await self._abandoned.wait()

    def set_local_transaction_event_listener(
        self, listener: LocalTransactionEventListener | None
    ) -> None:
        self.check_open()
        self.transaction.set_listener(listener)

    def new_transaction(self, mode: AcknowledgeMode) -> SessionTransaction:
        """Return a new transaction object for this session's mode."""
        if mode == AcknowledgeMode.TRANSACTED:
            return LocalTransaction(self.connection, self.resources)
        return NoTransaction()

    async def _finish_sends(self, call: str) -> None:
        self.completions.check(call)
        await self.completions.wait()


# --- The warning for applications that forgot `connection.start()`. (activemq-edges N7)

logger: Final = get_logger(__name__)


class UnstartedWarning:
    """Logs a warning, once, if messages arrive at a session whose connection is not started."""

    def __init__(self, connection_id: object, timeout: float) -> None:
        self._connection_id = connection_id
        self._timeout = timeout
        self._created_at = _clock.now()
        self._is_over = timeout <= 0

    def cancel(self) -> None:
        """Disable the warning, because the connection was started."""
        self._is_over = True

    def on_message(self) -> None:
        """Log the warning if the timeout has passed since the session was created."""
        if self._is_over or _clock.now() - self._created_at <= self._timeout:
            return
        self._is_over = True
        logger.warning(
            "Received a message on a connection which is not yet started."
            " Have you forgotten to call Connection.start()? Connection: %s",
            self._connection_id,
        )


_VIRTUAL: Final = "VirtualTopic."
_REMOVE: Final = 1
_BROKER_ID: Final = "ID:"
"""The prefix of broker ids of ActiveMQ; those of Artemis are UUIDs."""


class SharedSubscriptions:
    """The shared subscriptions of one session."""

    def __init__(self, connection: ClientConnection, resources: SessionResources) -> None:
        self._connection = connection
        self._resources = resources
        self._nondurable: set[Queue] = set()  # queues of subscriptions that are not durable

    def queue_of(self, topic: Topic, name: str, selector: str | None) -> Queue:
        """Return the queue that implements the subscription `name` of `topic`.

        Raises:
            InvalidDestinationException: the destination is not a topic.
            ValueError: the name is empty.
            UnsupportedOperationException: the topic is not a virtual topic, there is a selector,
                or the broker is neither ActiveMQ nor the bundled one.
        """
        if not isinstance(topic, Topic) or topic.is_temporary:
            raise InvalidDestinationException(f"{topic} cannot have a shared subscription")
        if not name:
            raise ValueError("The name of a shared subscription cannot be None or empty")
        subscription = self._subscription(name)
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
        broker_id = self._connection.broker_commands.broker_id
        if broker_id is not None and not str(broker_id).startswith(_BROKER_ID):
            raise UnsupportedOperationException(
                f"The broker {broker_id} has no virtual topics by default, so that {topic} cannot "
                "have shared subscriptions",
                hint="on Artemis consume the queue of an address: `address::queue`",
            )
        return Queue(queue)

    def opened(
        self, consumer: ActiveMQMessageConsumer, queue: Queue, name: str, *, durable: bool
    ) -> None:
        """Record a consumer of the subscription `name`, implemented by `queue`."""
        if durable:
            self._connection.shared_subscriptions.setdefault(name, set()).add(queue)
        else:
            self._nondurable.add(queue)
            consumer.on_closed = partial(self._end, queue)

    async def unsubscribe(self, name: str) -> bool:
        """End the durable subscription `name`; return False if this connection knows none.

        Raises:
            JMSException: it has consumers.
        """
        subscriptions = self._connection.shared_subscriptions
        if name not in subscriptions:
            return False
        for queue in list(subscriptions[name]):
            await self._remove(queue)
            subscriptions[name].discard(queue)
        del subscriptions[name]
        return True

    async def close(self) -> None:
        """End the subscriptions that are not durable and have no other consumers."""
        nondurable, self._nondurable = self._nondurable, set()
        for queue in nondurable:
            self._resources.drop_consumers_of(queue)
            await self._end(queue)

    async def _end(self, queue: Queue) -> None:
        try:
            await self._remove(queue)
        except (JMSSecurityException, ConnectionFailedException) as error:
            logger.warning("%s was not removed with its last consumer: %s", queue, error)
        except JMSException as error:
            logger.debug("%s has other consumers: %s", queue, error)

    async def _remove(self, queue: Queue) -> None:
        connection = self._connection
        info = DestinationInfo(connection.connection_id, queue, _REMOVE)
        await connection.request(info, connection.options.close_timeout)

    def _subscription(self, name: str) -> str:
        connection = self._connection
        owner = connection.registered_client_id if connection.has_own_client_id else None
        parts = [name] if owner is None else [owner, name]
        return ":".join(quote(part, safe=" /@+=-_").replace(".", "%2E") for part in parts)


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
