"""The session: creates producers and consumers, whose work forms one unit of work.

A session runs one listener at a time, and is used by one task at a time, except for `close`.
Acknowledge, commit, rollback and recover apply to everything that its consumers have delivered,
including closed consumers. (JMS 1.1, section 4.4; activemq-edges N8, N11, N18)

Life cycle: open, then closed by the application (rolls back, waits for the running listener and
tells the broker), or disposed by the connection (which tells the broker itself, or has failed).
Start and stop follow the connection's.

Closed consumers. A consumer that is closed while delivered messages are not settled lingers: the
broker is told of its end only when they are settled, so that commit, rollback and acknowledge still
cover them. (JMS 1.1, section 4.5; activemq-broker X7)

Acknowledgements are sent without waiting. With `jms.sendAcksAsync=false`, those outside
transactions require a response, for which `receive` and `await message.acknowledge()` wait. The
responses to a listener's acknowledgements are awaited after the listener, and a refusal is passed
to the exception listener. (activemq-broker A5)

Concurrent use. JMS allows one thread at a time (JMS 1.1, section 4.4.6). Tasks of one event loop do
not run at the same time, so fewer calls are errors. The following are refused:

- a call from another thread or event loop than the connection's, to which the transport belongs;
- `commit`, `rollback` and `recover` while another task waits in `receive`, and any call while
  another task is in `commit` or `rollback`: the transaction of such a call would be undetermined.

`thread` and `ending` are public because the methods called for every message compare them, and call
`check_use` only if it may raise.

Transactions: none, or local ones; `pyjms.client.xa` adds XA branches. A session has one
`SessionTransaction`, chosen when it is created. A transacted session has at most one transaction at
a time, and begins it with the first work: a send, or a message delivered. Without work, a commit or
rollback sends nothing to the broker.

    state         send, delivery        commit()               rollback()
    -----------   -------------------   --------------------   -------------------
    none          BEGIN; -> active      nothing                nothing
    active        carries the id        COMMIT_ONE_PHASE       ROLLBACK
                                        -> none                -> none

Before either end the consumers acknowledge, in the transaction, what was delivered. Afterwards:

    commit succeeded                 delivered messages are settled
    commit refused by the broker     they are redelivered: the broker has rolled back
    commit cancelled                 they are settled: the command has been sent. If they are
                                     dispatched again, the broker was lost before it executed the
                                     commit; then they are delivered like any other message
    commit without response          unknown; the caller decides (ConnectionFailedException)
    rollback, whatever the outcome   they are redelivered

Synchronizations are called before the end, when they may still work in the transaction, and after
it: `after_commit` if messages are settled, otherwise `after_rollback`; the latter also if the
connection is lost or closed before the end, since the broker then rolls back. Each `before_end` is
called once, even if a cancelled commit is repeated. The callbacks after the end are not cancelled:
the outcome is decided, and each synchronization must be informed of it.

With a failover transport the broker may be lost during a transaction. Messages that the lost broker
delivered must be delivered again by the next broker, to the same consumers; otherwise a commit
rolls back, after waiting for `consumer_failover_redelivery_wait_period`. (activemq-edges F5)

`id` is cleared before the request, so that work that starts during a commit belongs to the next
transaction. (openwire-encoding 13; activemq-broker X1, X3, X7)
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextvars import ContextVar
from functools import partial
from inspect import isawaitable
from threading import get_ident
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Final, NoReturn, TypeVar

import anyio
from anyio.lowlevel import current_token

from pyjms.client.browser import ActiveMQQueueBrowser
from pyjms.client.consumer import ActiveMQMessageConsumer
from pyjms.client.destination_options import check_destination, consumer_info, selector_or_none
from pyjms.client.dispatcher import ListenerDispatcher, ListenerTarget, OwnedTasks
from pyjms.client.producer import ActiveMQMessageProducer, SendCompletions
from pyjms.enums import AcknowledgeMode
from pyjms.errors import (
    ConnectionFailedException,
    IllegalStateException,
    InvalidDestinationException,
    JMSException,
    RequestTimeoutException,
    TransactionRolledBackException,
)
from pyjms.jms import api
from pyjms.jms.api import (
    LocalTransactionEventListener,
    MessageListener,
    MessageTransformer,
    Synchronization,
)
from pyjms.jms.blob import BlobMessage
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.jms.message import Acknowledger, Message
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import (
    BackgroundTask,
    Waiter,
    current_task,
    name_of,
    spawn,
    with_cleanup,
)
from pyjms.runtime.logging import get_logger
from pyjms.transport.openwire.correlator import RequestTransport
from pyjms.wire.openwire.commands import (
    ConsumerId,
    LocalTransactionId,
    MessageAck,
    MessageDispatch,
    ProducerId,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Response,
    SessionId,
    TransactionId,
    TransactionInfo,
    TransactionType,
)

if TYPE_CHECKING:
    from pyjms.client.connection import ActiveMQConnection

logger: Final = get_logger(__name__)


_BEGIN = int(TransactionType.BEGIN)
_COMMIT = int(TransactionType.COMMIT_ONE_PHASE)
_ROLLBACK = int(TransactionType.ROLLBACK)


class Synchronizations:
    """The synchronizations of a transaction in progress, in the order of registration."""

    def __init__(self) -> None:
        self.registered: list[Synchronization] = []
        self._called = 0
        self.is_calling: bool = False
        """Whether a `before_end` is running; it may neither commit nor roll back."""

    def add(self, synchronization: Synchronization) -> None:
        """Register a synchronization."""
        self.registered.append(synchronization)

    async def before_end(self) -> None:
        """Call `before_end` of each, including those that are registered during the calls.

        Raises:
            Exception: raised by a synchronization; the later ones are not called.
        """
        while self._called < len(self.registered):
            synchronization = self.registered[self._called]
            self._called += 1
            self.is_calling = True
            try:
                result = synchronization.before_end()
                if result is not None and isawaitable(result):
                    await result
            finally:
                self.is_calling = False

    def detach(self) -> Sequence[Synchronization]:
        """Return the synchronizations of the ending transaction, and start with an empty list."""
        if not self.registered:
            return ()
        registered, self.registered, self._called = self.registered, [], 0
        return registered


async def after_commit(synchronizations: Sequence[Synchronization]) -> None:
    """Call `after_commit` of each; not cancellable. Errors are logged."""
    await _call([synchronization.after_commit for synchronization in synchronizations])


async def after_rollback(synchronizations: Sequence[Synchronization]) -> None:
    """Call `after_rollback` of each; not cancellable. Errors are logged."""
    await _call([synchronization.after_rollback for synchronization in synchronizations])


async def _call(functions: Sequence[Callable[[], Awaitable[None] | None]]) -> None:
    for function in functions:
        try:
            result = function()
            if result is not None and isawaitable(result):
                with anyio.CancelScope(shield=True):
                    await result
        except Exception:
            logger.exception("A synchronization failed after the end of its transaction")


class SessionTransaction:
    """The transactions of a session; in this class none, as the session is not transacted."""

    def __init__(self) -> None:
        self.id: TransactionId | None = None
        """The id of the transaction to which new work belongs; None: there is none."""
        self.has_stale: bool = False
        """Whether a broker was lost while messages delivered in it were not settled."""

    def begin(self) -> TransactionId:
        """Return the id of the transaction; begin a transaction if there is none."""
        raise IllegalStateException(
            "Not a transacted session", hint="create it with create_session(transacted=True)"
        )

    async def commit(self) -> None:
        """Commit and wait for the broker."""
        self.begin()

    async def rollback(self) -> None:
        """Roll back and wait for the broker."""
        self.begin()

    async def close(self) -> None:
        """End an open transaction, because the session is closing."""

    def abandon(self) -> Sequence[Synchronization]:
        """Return the synchronizations that no end will call, as the session is disposed."""
        return ()

    def add_synchronization(self, synchronization: Synchronization) -> None:
        """Register a synchronization with the transaction; begin one if there is none."""
        self.begin()

    def set_listener(self, listener: LocalTransactionEventListener | None) -> None:
        """Set a listener that is called when local transactions begin and end."""
        self.begin()

    def on_redelivery(self) -> None:
        """Record that a message delivered by a lost broker was delivered again."""


class LocalTransaction(SessionTransaction):
    """A session's work since its last commit or rollback. `id` is None before any work."""

    def __init__(self, session: ActiveMQSession) -> None:
        super().__init__()
        self._session = session
        self._connection = session.connection
        self._listener: LocalTransactionEventListener | None = None
        self._synchronizations = Synchronizations()
        self._redelivery = anyio.Event()

    def begin(self) -> TransactionId:
        if self.id is None:
            connection = self._connection
            own = connection.connection_id
            transaction_id = LocalTransactionId(next(connection.transaction_numbers), own)
            connection.hold(TransactionInfo(own, transaction_id, _BEGIN))
            self.id = transaction_id
            if self._listener is not None:
                _notify(self._listener.begin_event)
        return self.id

    def add_synchronization(self, synchronization: Synchronization) -> None:
        self.begin()
        self._synchronizations.add(synchronization)

    def set_listener(self, listener: LocalTransactionEventListener | None) -> None:
        self._listener = listener

    async def commit(self) -> None:
        """Commit and wait for the broker; see the module for the outcomes.

        Raises:
            TransactionRolledBackException: the broker rolled back, or the session was closed
                in the meantime; messages are redelivered.
            ConnectionFailedException: the outcome is unknown.
            IllegalStateException: called by a synchronization's `before_end`.
        """
        began = self.id
        if began is None:
            return
        failure: BaseException | None = None  # handled after `except`: see with_cleanup
        if self._synchronizations.registered:
            self._refuse_in_synchronization("commit()")
            try:
                await self._synchronizations.before_end()
            except Exception as error:
                failure = error
            if failure is not None:
                await self._roll_back()
                raise failure
        if self.has_stale and self._session.stale_count():
            await self._wait_for_redelivery()
        if self.id is None:
            raise TransactionRolledBackException("The session was closed before the commit")
        synchronizations = self._detach()
        try:
            await self._end(_COMMIT)
        except BaseException as error:
            failure = error
        if failure is not None:
            await self._fail_commit(failure, synchronizations)
        self._session.settle()
        await self._tell_commit(synchronizations)

    async def _fail_commit(
        self, error: BaseException, synchronizations: Sequence[Synchronization]
    ) -> NoReturn:
        """Do what follows from the outcome, and raise it."""
        if isinstance(error, anyio.get_cancelled_exc_class()):
            self._session.settle_in_doubt()
            await self._tell_commit(synchronizations)
            raise error
        if not isinstance(error, JMSException):
            raise error
        has_outcome = not isinstance(error, ConnectionFailedException | RequestTimeoutException)
        if has_outcome:
            logger.debug("Commit failed and was rolled back: %s", error)  # raised below as well
            self._session.redeliver_unsettled()
        await self._tell_rollback(synchronizations)
        if not has_outcome or isinstance(error, TransactionRolledBackException):
            raise error
        refusal = TransactionRolledBackException(error.reason or str(error))
        refusal.linked_exception = error
        raise refusal from error

    async def rollback(self) -> None:
        """Roll back: sends are dropped and messages redelivered, whatever the broker responds.

        Raises:
            IllegalStateException: called by a synchronization's `before_end`.
        """
        self._refuse_in_synchronization("rollback()")
        await self.close()

    async def close(self) -> None:
        """Roll back, even if a synchronization closes the session."""
        if self.id is None:
            return
        try:
            await self._synchronizations.before_end()
        except Exception:
            logger.exception("A synchronization failed before the rollback")
        await self._roll_back()

    def abandon(self) -> Sequence[Synchronization]:
        return self._synchronizations.detach()

    def on_redelivery(self) -> None:
        self._redelivery.set()

    async def _wait_for_redelivery(self) -> None:
        """Wait until all messages delivered by a lost broker were redelivered; otherwise roll back.

        Raises:
            TransactionRolledBackException: not all messages were redelivered in time.
        """
        session = self._session
        with _clock.timeout(self._connection.options.consumer_failover_redelivery_wait_period):
            while session.stale_count():
                self._redelivery = anyio.Event()
                await self._redelivery.wait()
        missing, transaction_id = session.stale_count(), self.id
        if missing:
            await self._roll_back()
            raise TransactionRolledBackException(
                f"rolling back transaction ({transaction_id}) post failover recovery. {missing} "
                "previously delivered message(s) not replayed to consumer",
                hint="they are delivered again, to this or another consumer; handle them then",
            )

    def _refuse_in_synchronization(self, call: str) -> None:
        if self._synchronizations.is_calling:
            raise IllegalStateException(
                f"{call} cannot be called in before_end of a synchronization",
                hint="the transaction is already ending; raise an error there to roll it back",
            )

    async def _roll_back(self) -> None:
        if self.id is None:
            return  # the session was closed in the meantime
        synchronizations = self._detach()
        await with_cleanup(
            partial(self._end, _ROLLBACK), partial(self._after_rollback, synchronizations)
        )

    async def _after_rollback(self, synchronizations: Sequence[Synchronization]) -> None:
        self._session.redeliver_unsettled()
        await self._tell_rollback(synchronizations)

    def _detach(self) -> Sequence[Synchronization]:
        """Acknowledge the delivered messages, and return the synchronizations to call."""
        self._session.acknowledge_in_transaction()
        return self._synchronizations.detach()

    async def _end(self, how: int) -> None:
        transaction_id, self.id = self.id, None
        self.has_stale = False
        connection = self._connection
        await connection.request(TransactionInfo(connection.connection_id, transaction_id, how))

    async def _tell_commit(self, synchronizations: Sequence[Synchronization]) -> None:
        if self._listener is not None:
            _notify(self._listener.commit_event)
        if synchronizations:
            await after_commit(synchronizations)

    async def _tell_rollback(self, synchronizations: Sequence[Synchronization]) -> None:
        if self._listener is not None:
            _notify(self._listener.rollback_event)
        if synchronizations:
            await after_rollback(synchronizations)


def _notify(event: Callable[[], None]) -> None:
    try:
        event()
    except Exception:
        logger.exception("A listener of local transactions failed")


_C = TypeVar("_C", bound=ActiveMQMessageConsumer)

_UNKNOWN: Final = -2
"""RemoveInfo.last_delivered_sequence_id of a session without consumers."""

_ends: ContextVar[tuple[ActiveMQSession, ...]] = ContextVar("pyjms_ending_sessions", default=())
"""The sessions whose unit of work ends in the current context, as seen by synchronizations."""


class ActiveMQSession(api.Session):
    """A session of an `ActiveMQConnection`, which creates it."""

    consumer_class: ClassVar[type[ActiveMQMessageConsumer]] = ActiveMQMessageConsumer
    takes_chunks: ClassVar[bool] = True  # of connection consumers
    # read for every message: plain attributes in the place of the interface's properties
    transacted: bool = False
    acknowledge_mode: AcknowledgeMode = AcknowledgeMode.AUTO

    def __init__(
        self, connection: ActiveMQConnection, session_id: SessionId, mode: AcknowledgeMode
    ) -> None:
        options = connection.options
        self.connection = connection
        self.session_id = session_id
        self.stats: Final = (
            connection.stats.add_session(str(session_id)) if connection.stats else None
        )
        self.transformer: MessageTransformer | None = connection.transformer
        """The message transformer of new producers and consumers."""
        self.acknowledge_mode = mode
        self.transacted = mode == AcknowledgeMode.TRANSACTED
        self.reorders: bool = options.non_blocking_redelivery or options.message_priority_supported
        """Whether messages may be delivered in another order than the broker's."""
        self.is_started: bool = connection.is_started
        self.is_closed: bool = False
        self.failure: JMSException | None = None
        self.has_listener: bool = False
        """Whether a listener is set on the session or a consumer: receive() is refused."""
        self._listener: MessageListener | None = None
        self._runs: set[_Run] = set()

        self.consumers: list[ActiveMQMessageConsumer] = []
        self._lingering: list[ActiveMQMessageConsumer] = []
        self._producers: dict[ProducerId, ActiveMQMessageProducer] = {}
        self._browsers: set[ActiveMQQueueBrowser] = set()
        self._consumer_numbers = itertools.count(1)
        self._producer_numbers = itertools.count(1)
        self.undurable_queues: set[Queue] = set()
        """The queues of shared subscriptions that end with their last consumer."""

        self.thread: int = get_ident()
        """The thread of the session's event loop."""
        self.ending: tuple[object, str] | None = None
        """The call in progress that ends the unit of work, with its task; or None."""
        self._token = current_token()
        self._thread_name = threading.current_thread().name

        self.tasks: OwnedTasks = OwnedTasks(session_id, connection.fail)
        self.dispatcher: ListenerDispatcher = ListenerDispatcher(self)
        self.completions: SendCompletions = SendCompletions(self)
        self.outstanding_sends: Final = self.completions.outstanding
        """The asynchronous sends; if there are none, `wait_for_completions` would not wait."""
        self.transaction: SessionTransaction = self._new_transaction()
        self._abandoned: BackgroundTask | None = None
        self.ack_responses: AckResponses | None = (
            None if options.send_acks_async else AckResponses(connection.transport)
        )
        """The expected responses to acknowledgements; None: they are sent without waiting."""
        self.send_ack: Final[Callable[[MessageAck], None]] = (
            connection.oneway if self.ack_responses is None else self._send_ack_and_expect
        )
        self._created_at = _clock.now()
        self._warns_unstarted = (
            not self.is_started and options.warn_about_unstarted_connection_timeout > 0
        )

    def __repr__(self) -> str:
        return f"<session {self.session_id}>"

    def _new_transaction(self) -> SessionTransaction:
        return LocalTransaction(self) if self.transacted else SessionTransaction()

    def create_blob_message(
        self,
        url: str | None = None,
        *,
        file: str | os.PathLike[str] | None = None,
        stream: BinaryIO | None = None,
        deleted_by_broker: bool | None = None,
    ) -> BlobMessage:
        self._check_open()
        from pyjms.client.blobs import new_blob_message  # noqa: PLC0415 - rare, and slow to import

        policy = self.connection.options.blob_transfer_policy
        return new_blob_message(
            policy, url, file=file, stream=stream, deleted_by_broker=deleted_by_broker
        )

    # Temporary destinations.

    async def create_temporary_queue(self) -> TemporaryQueue:
        self._check_open()
        return await self.connection.temporaries.create(TemporaryQueue)

    async def create_temporary_topic(self) -> TemporaryTopic:
        self._check_open()
        return await self.connection.temporaries.create(TemporaryTopic)

    async def delete_temporary(self, destination: TemporaryQueue | TemporaryTopic) -> None:
        self._check_open()
        await self.connection.temporaries.delete(destination)

    # Producers, consumers and browsers.

    async def create_producer(
        self, destination: Destination | None = None
    ) -> ActiveMQMessageProducer:
        self._check_open()
        own = self.session_id
        producer_id = ProducerId(own.connection_id, next(self._producer_numbers), own.value)
        target = None if destination is None else check_destination(destination)
        producer = ActiveMQMessageProducer(self, producer_id, target)
        self._producers[producer_id] = producer
        self.connection.producers[producer_id] = producer
        try:
            await self.connection.request(producer.info)
        except BaseException as error:
            self.remove_producer(producer_id, is_registered=not _is_refusal(error))
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
        *,
        no_local: bool = False,
        timeout: float | None = None,
    ) -> ActiveMQMessageConsumer:
        return await self.open_consumer(
            destination,
            selector,
            self.consumer_class,
            pulls=True,
            timeout=timeout,
            no_local=no_local,
        )

    async def create_durable_subscriber(
        self, topic: Topic, name: str, selector: str | None = None, *, no_local: bool = False
    ) -> ActiveMQMessageConsumer:
        return await self.open_durable_subscriber(
            topic, name, selector, self.consumer_class, no_local=no_local
        )

    async def open_durable_subscriber(
        self,
        topic: Destination,
        name: str,
        selector: str | None,
        kind: type[_C],
        *,
        no_local: bool = False,
        prefetch: int | None = None,
    ) -> _C:
        """Open a durable subscriber of class `kind`; otherwise as `open_consumer`."""
        self._check_open()
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
        return await self.open_consumer(
            topic, selector, kind, subscription_name=name, no_local=no_local, prefetch=prefetch
        )

    async def create_shared_consumer(
        self, topic: Topic, name: str, selector: str | None = None
    ) -> ActiveMQMessageConsumer:
        from pyjms.client import shared_subscriptions  # noqa: PLC0415 - rare

        return await shared_subscriptions.subscribe(self, topic, name, selector, durable=False)

    async def create_shared_durable_consumer(
        self, topic: Topic, name: str, selector: str | None = None
    ) -> ActiveMQMessageConsumer:
        from pyjms.client import shared_subscriptions  # noqa: PLC0415 - rare

        return await shared_subscriptions.subscribe(self, topic, name, selector, durable=True)

    async def create_browser(
        self, queue: Queue, selector: str | None = None
    ) -> ActiveMQQueueBrowser:
        self._check_open()
        browser = ActiveMQQueueBrowser(self, check_destination(queue), selector_or_none(selector))
        self._browsers.add(browser)
        return browser

    async def unsubscribe(self, name: str) -> None:
        self._check_open()
        connection = self.connection
        if name in connection.shared_subscriptions:
            from pyjms.client import shared_subscriptions  # noqa: PLC0415 - rare

            await shared_subscriptions.unsubscribe(connection, name)
            return
        await connection.request(
            RemoveSubscriptionInfo(connection.connection_id, name, connection.registered_client_id)
        )

    async def open_consumer(
        self,
        destination: Destination,
        selector: str | None,
        kind: type[_C],
        *,
        no_local: bool = False,
        subscription_name: str | None = None,
        browser: bool = False,
        prefetch: int | None = None,
        pulls: bool = False,
        timeout: float | None = None,
    ) -> _C:
        """Open a consumer of class `kind`; see `consumer_info` for the arguments.

        With `pulls`, its first message is requested, for a `receive` with this timeout.

        Raises:
            JMSException: the broker refused it, or the connection has failed.
        """
        self._check_open()
        connection, session_id = self.connection, self.session_id
        connection.temporaries.check_consumable(check_destination(destination))
        info = consumer_info(
            ConsumerId(session_id.connection_id, session_id.value, next(self._consumer_numbers)),
            destination,
            selector,
            options=connection.options,
            acknowledge_mode=self.acknowledge_mode,
            client_id=connection.registered_client_id,
            optimizes_acks=connection.optimizes_acks,
            no_local=no_local,
            subscription_name=subscription_name,
            browser=browser,
            pulls=pulls,
            prefetch=prefetch,
        )
        consumer = kind(self, info)
        self.consumers.append(consumer)
        connection.consumers[consumer.consumer_id] = consumer
        try:
            if pulls:
                await self._register_and_pull(consumer, timeout)
            else:
                await connection.request(info)
        except BaseException as error:
            if _is_refusal(error):
                consumer.is_removed_by_broker = True  # it has never been registered there
            consumer.dispose()
            if consumer in self.consumers:
                self.consumers.remove(consumer)
            self._release(consumer, _UNKNOWN)
            raise
        consumer.ledger.start_timer(self.tasks)
        return consumer

    async def _register_and_pull(
        self, consumer: ActiveMQMessageConsumer, timeout: float | None
    ) -> None:
        """Register a consumer and pull its first message right away.

        One round trip instead of two for every message that a JmsTemplate receives.
        """
        waiter = Waiter()
        outcomes: list[Response | Exception] = []

        def complete(outcome: Response | Exception) -> None:
            outcomes.append(outcome)
            waiter.wake()

        self.connection.transport.request_soon(consumer.info, complete)
        consumer.pulls.request_ahead(timeout)
        self.connection.send_now()
        await waiter.wait()
        if isinstance(outcomes[0], Exception):
            raise outcomes[0]

    def remove_producer(self, producer_id: ProducerId, *, is_registered: bool = True) -> None:
        """Remove a producer that is closed, and tell the broker if it may know it."""
        self._producers.pop(producer_id, None)
        self.connection.producers.pop(producer_id, None)
        if is_registered:
            self.connection.oneway_if_open(RemoveInfo(producer_id))

    def remove_browser(self, browser: ActiveMQQueueBrowser) -> None:
        """Remove a browser that is closed."""
        self._browsers.discard(browser)

    def remove_consumer(self, consumer: ActiveMQMessageConsumer) -> None:
        """Remove a consumer that is closed; with unsettled messages it lingers."""
        if consumer in self.consumers:
            self.consumers.remove(consumer)
            self._lingering.append(consumer)
            self.release_closed_consumers(only_settled=True)
        self.update_has_listener()

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
        closed, self._lingering = self._lingering, []
        for consumer in closed:
            if only_settled and consumer.has_unsettled:
                self._lingering.append(consumer)
            else:
                consumer.dispose()
                self._release(consumer, consumer.last_delivered_sequence_id)

    def _release(self, consumer: ActiveMQMessageConsumer, last: int) -> None:
        consumer.deregister()
        if not consumer.is_removed_by_broker:
            self.connection.oneway_if_open(RemoveInfo(consumer.consumer_id, last))

    @property
    def all_consumers(self) -> list[ActiveMQMessageConsumer]:
        """The open consumers, and the closed ones with messages that are not settled."""
        return [*self.consumers, *self._lingering]

    # Listeners.

    @property
    def message_listener(self) -> MessageListener | None:
        self._check_open()
        return self._listener

    async def set_message_listener(self, listener: MessageListener | None) -> None:
        """Set the listener to which `run` delivers. (activemq-edges N18)"""
        self._check_open()
        self._listener = listener
        self.update_has_listener()

    async def run(self) -> None:
        """Call the listener with the messages buffered by the consumers.

        Raises:
            IllegalStateException: there is no listener, or the caller is a listener of the session.
        """
        self._check_open()
        if self._listener is None:
            raise IllegalStateException("run() needs a listener: call set_message_listener() first")
        if self.dispatcher.is_own_call:
            raise IllegalStateException("run() cannot be called by a listener of the session")
        run = _Run(self, self._listener)
        self._runs.add(run)
        try:
            self.dispatcher.wake(run)
            await run.done.wait()
        finally:
            self._runs.discard(run)

    def update_has_listener(self) -> None:
        """Update `has_listener` after a change of a listener."""
        self.has_listener = self._listener is not None or any(
            consumer.has_listener for consumer in self.consumers
        )

    @property
    def has_own_listener(self) -> bool:
        """Whether the session itself has a listener, which replaces those of its consumers."""
        return self._listener is not None

    # The unit of work: what the application calls.

    async def commit(self) -> None:
        await self._end_unit("commit()", self.transaction.commit)

    async def rollback(self) -> None:
        await self._end_unit("rollback()", self.transaction.rollback)

    async def _end_unit(self, call: str, end: Callable[[], Awaitable[None]]) -> None:
        """Call `end`, and mark the session meanwhile, so that other tasks do not use it.

        Raises:
            IllegalStateException: as for `check_use`, or another task waits in `receive`.
        """
        self._check_open()
        self.completions.check(call)
        self.check_use(call)
        self._check_receives(call)
        token = None
        if self.ending is None:  # otherwise called by a synchronization, thus within `commit`
            self.ending = (current_task(), call)
            token = _ends.set((*_ends.get(), self))
        try:
            if self.outstanding_sends:
                await self.completions.wait()
            await end()
        finally:
            if token is not None:
                _ends.reset(token)
                self.ending = None

    async def recover(self) -> None:
        self._check_open()
        if self.transacted:
            raise IllegalStateException(
                "This session is transacted", hint="rollback() redelivers its messages"
            )
        self.check_use("recover()")
        self._check_receives("recover()")
        self.redeliver_unsettled()

    async def wait_for_completions(self) -> None:
        self.completions.check("wait_for_completions()")
        await self.completions.wait()

    def add_synchronization(self, synchronization: Synchronization) -> None:
        self._check_open()
        self.transaction.add_synchronization(synchronization)

    def set_local_transaction_event_listener(
        self, listener: LocalTransactionEventListener | None
    ) -> None:
        self._check_open()
        self.transaction.set_listener(listener)

    # The unit of work: the messages that it has received.

    def acknowledge(self, message: Message | None = None) -> Awaitable[None] | None:
        """CLIENT: acknowledge everything that the session has delivered.

        Raises:
            IllegalStateException: the session is closed.
        """
        self._check_open()
        for consumer in self.all_consumers:
            consumer.ledger.acknowledge()
        self.release_closed_consumers()
        return self.ack_responses

    def acknowledge_in_transaction(self) -> None:
        """Acknowledge the delivered messages, because the transaction is about to end."""
        for consumer in (*self.consumers, *self._lingering):
            consumer.ledger.acknowledge_in_transaction()

    def stale_count(self) -> int:
        """The number of deliveries by a lost broker that the present one has not repeated."""
        return sum(consumer.ledger.stale_count for consumer in self.all_consumers)

    def settle(self) -> None:
        """Settle the delivered messages after a commit."""
        for consumer in (*self.consumers, *self._lingering):
            consumer.ledger.settle()
        if self._lingering:
            self.release_closed_consumers()

    def settle_in_doubt(self) -> None:
        """Settle the delivered messages, but accept redeliveries, which mean a rollback."""
        for consumer in self.all_consumers:
            for dispatch in consumer.ledger.unsettled:
                consumer.forget(dispatch)
        self.settle()

    def redeliver_unsettled(self) -> None:
        """Redeliver the delivered messages after a rollback or `recover`."""
        for consumer in self.all_consumers:
            consumer.redeliverer.roll_back()
        self.release_closed_consumers()

    def acknowledger_for(
        self, acknowledge_one: Callable[[MessageDispatch], None] | None
    ) -> Acknowledger:
        """Return the function that `acknowledge()` calls on the messages of a consumer.

        `acknowledge_one` is the ledger's function for mode INDIVIDUAL.
        """
        if self.acknowledge_mode == AcknowledgeMode.INDIVIDUAL and acknowledge_one is not None:

            def acknowledge(message: Message) -> Awaitable[None] | None:
                self._check_open()
                assert isinstance(message.provider_delivery, MessageDispatch)
                acknowledge_one(message.provider_delivery)
                self.release_closed_consumers(only_settled=True)
                return self.ack_responses

            return acknowledge
        return self.acknowledge if self.acknowledge_mode == AcknowledgeMode.CLIENT else self._ignore

    def _ignore(self, message: Message) -> None:
        self._check_open()

    def _send_ack_and_expect(self, ack: MessageAck) -> None:
        assert self.ack_responses is not None
        if ack.transaction_id is None:
            self.ack_responses.send(ack)
        else:
            self.connection.oneway(ack)

    # Concurrent use: see the module.

    def check_use(self, call: str) -> None:
        """Refuse a call that must not be made now.

        Raises:
            IllegalStateException: the call is made on another event loop, or while another task is
                in `commit` or `rollback`.
        """
        if self.thread != get_ident():
            self._check_loop(call)
        # listeners may use the session at any time
        if self.ending is None or self in _ends.get() or self.dispatcher.is_own_call:
            return
        task, ending = self.ending
        raise self._double_use(
            f"task {name_of(current_task())!r} called {call}",
            f"task {name_of(task)!r} is in {ending}",
        )

    def _check_receives(self, call: str) -> None:
        """Refuse `call` while a task waits in `receive`.

        Raises:
            IllegalStateException: a task waits.
        """
        for consumer in self.consumers:
            if consumer.receivers:
                raise self._double_use(
                    f"task {name_of(current_task())!r} called {call}",
                    f"another task waits in receive() of consumer {consumer.consumer_id}",
                )

    def _check_loop(self, call: str) -> None:
        try:
            is_own = current_token() == self._token
        except RuntimeError:
            is_own = False
        here = threading.current_thread().name
        if not is_own:
            raise self._double_use(
                f"thread {here!r} called {call}",
                f"it belongs to the event loop of thread {self._thread_name!r}",
            )
        self.thread, self._thread_name = get_ident(), here  # the loop runs in another thread now

    def _double_use(self, this: str, other: str) -> IllegalStateException:
        return IllegalStateException(
            f"The session {self.session_id} is used twice at the same time: {this}, and {other}",
            hint="create one session for each task or thread that works at the same time",
        )

    # Life cycle.

    def start(self) -> None:
        """Start delivery."""
        self.is_started = True
        self._warns_unstarted = False
        self._update_flow()

    async def stop(self) -> None:
        """Stop delivery and wait until no listener is running."""
        self.is_started = False
        self._update_flow()
        await self.dispatcher.wait_idle()

    def _update_flow(self) -> None:
        for consumer in self.consumers:
            consumer.update_flow()

    def warn_unstarted(self) -> None:
        """Warn, once, that a message arrived long after an unstarted session was created.

        The application has forgotten `connection.start()`. (activemq-edges N7)
        """
        connection = self.connection
        timeout = connection.options.warn_about_unstarted_connection_timeout
        if self._warns_unstarted and _clock.now() - self._created_at >= timeout:
            self._warns_unstarted = False
            logger.warning(
                "Received a message on a connection which is not yet started."
                " Have you forgotten to call Connection.start()? Connection: %s",
                connection.connection_id,
            )

    def seconds_until_warning(self) -> float:
        """Return the time until a message is warned of that an unstarted session keeps; 0: now."""
        if not self._warns_unstarted:
            return 0.0
        timeout = self.connection.options.warn_about_unstarted_connection_timeout
        return max(0.0, self._created_at + timeout - _clock.now())

    async def finish(self) -> None:
        """Wait until no listener and no completion listener is running, before the close."""
        await self.completions.finish()
        await self.stop()

    async def end_shared_subscriptions(self) -> None:
        """End the shared subscriptions that are not durable and have no other consumers."""
        if self.undurable_queues:
            from pyjms.client import shared_subscriptions  # noqa: PLC0415 - rare

            await shared_subscriptions.end_undurable(self)

    async def close(self) -> None:
        self.completions.check("close()")
        if self.is_closed:
            return
        self.is_closed = True
        await with_cleanup(self._finish_with_broker, self.finish_close)

    async def _finish_with_broker(self) -> None:
        try:
            await self.finish()
            await self.transaction.close()
            await self.end_shared_subscriptions()
        except ConnectionFailedException as error:
            logger.debug("Closing %s without the broker: %s", self.session_id, error)

    async def finish_close(self) -> None:
        """Dispose the session, tell the broker, and wait for the session's tasks."""
        last = self.dispose()
        self.connection.remove_session(self)
        self.connection.oneway_if_open(RemoveInfo(self.session_id, last))
        with anyio.CancelScope(shield=True):
            await self.end_tasks()

    def dispose(self, failure: JMSException | None = None) -> int:
        """Close it without telling the broker; return the last sequence id delivered."""
        self.is_closed = True
        self.is_started = False
        self.failure = failure
        self.dispatcher.stop_soon()
        for run in self._runs:
            run.done.set()
        self.completions.dispose(failure)
        self.tasks.cancel()
        # the broker rolls an open transaction back on its own
        synchronizations = self.transaction.abandon()
        if synchronizations:
            name = "pyjms rollback of a lost session"
            self._abandoned = spawn(after_rollback, synchronizations, name=name)
        last = _UNKNOWN
        for consumer in self.all_consumers:
            consumer.dispose(failure)
            last = max(last, consumer.last_delivered_sequence_id)
            consumer.deregister()
        for producer in self._producers.values():
            producer.dispose(failure)
            self.connection.producers.pop(producer.producer_id, None)
        for browser in self._browsers:
            browser.dispose()
        self.consumers.clear()
        self._lingering.clear()
        self._producers.clear()
        self._browsers.clear()
        if self.stats is not None:
            self.stats.close()
        return last

    async def end_tasks(self) -> None:
        """Wait for the tasks that `dispose` has ended; cancels a listener that is still running."""
        await self.dispatcher.abort()
        await self.completions.end()
        await self.tasks.wait()
        if self._abandoned is not None:
            await self._abandoned.wait()

    def mark_failed(self, failure: JMSException) -> None:
        """Make every further call raise the connection's failure; do not close or wake anything."""
        self.is_closed = True
        self.failure = failure
        for consumer in self.all_consumers:
            consumer.mark_failed(failure)
        for producer in self._producers.values():
            producer.mark_failed(failure)
        for browser in self._browsers:
            browser.dispose()

    def check_open(self) -> None:
        """Refuse calls on a closed session: for its consumers, producers and browsers."""
        self._check_open()

    def _check_open(self) -> None:
        """Refuse calls on a closed session.

        Raises:
            IllegalStateException: it is closed.
            ConnectionFailedException: the connection has failed.
        """
        if self.is_closed:
            if self.failure is not None:
                raise self.connection.failed_error()
            raise IllegalStateException("The Session is closed")


def _is_refusal(error: BaseException) -> bool:
    """Whether the broker has refused a registration, so that it does not know the object."""
    return isinstance(error, JMSException) and not isinstance(error, RequestTimeoutException)


class _Run(ListenerTarget):
    """One call of `run`, made by the session's listener dispatcher, one message at a time."""

    def __init__(self, session: ActiveMQSession, listener: MessageListener) -> None:
        self.listener_name = "the listener of a session"
        self._session = session
        self._listener = listener
        self.done = anyio.Event()

    async def deliver_one(self) -> bool:
        """Deliver the next message of any consumer; return whether there may be more."""
        for consumer in list(self._session.consumers):
            dispatch = consumer.next_dispatch()
            if dispatch is not None:
                await consumer.call_listener(self._listener, dispatch)
                return True
        self.done.set()
        return False


class AckResponses:
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
