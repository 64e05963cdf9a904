"""Session, producer, consumer and browser of the blocking API.

Listeners set here are plain functions, called in a separate thread, so that they may block.
A `receive` that is interrupted (Ctrl-C) loses no message: a message that arrives at the same moment
is returned by the next `receive`. The thread of a listener is registered with its consumer, session
and connection; it ends when the first of them is closed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

from anyio import to_thread

from pyjms.client.producer import completion_listener_of
from pyjms.enums import DeliveryMode
from pyjms.errors import IllegalStateException
from pyjms.jms import api
from pyjms.jms.api import Synchronization
from pyjms.jms.message import Message
from pyjms.management import JMSConsumerStats, JMSProducerStats, JMSSessionStats
from pyjms.runtime.event_loop import LoopHandle
from pyjms.sync.facade import (
    Attribute,
    Facade,
    ReadOnly,
    SessionGuard,
    SessionPart,
    derive,
    sessions_in_use,
    trim_errors,
)
from pyjms.sync.portal import call_on_loop, close_at_exit
from pyjms.template.workers import Worker

if TYPE_CHECKING:
    from pyjms.sync.derived import (
        BrowserMembers,
        ConsumerMembers,
        OperationMembers,
        ProducerMembers,
        SessionMembers,
    )
else:
    ProducerMembers = derive(api.MessageProducer)
    ConsumerMembers = derive(
        api.MessageConsumer,
        omit="close message_listener receive receive_checked receive_no_wait set_message_listener "
        "set_message_available_listener",
    )
    BrowserMembers = derive(api.QueueBrowser)
    OperationMembers = derive(api.SessionOperations)
    SessionMembers = derive(
        api.Session,
        but=api.SessionOperations,
        omit="add_synchronization create_pull_consumer message_listener run set_message_listener",
    )

C = TypeVar("C", bound=api.Closeable)
L = TypeVar("L", api.MessageConsumer, api.Session)

STATS: Final = "The statistics; None if `stats_enabled` is off."

BlockingListener = Callable[[Message], object]
"""A function that is called with each message, in a separate thread, so that it may block."""


class ListenerThreads:
    """The listener threads of one object and of those that it created."""

    def __init__(self, parent: ListenerThreads | None) -> None:
        self._parent = parent
        self._workers: set[Worker] = set()

    def add(self, worker: Worker) -> None:
        """Register a thread, here and with the parents."""
        self._workers.add(worker)
        if self._parent is not None:
            self._parent.add(worker)

    def remove(self, workers: set[Worker]) -> None:
        """Unregister threads, here and with the parents."""
        self._workers -= workers
        if self._parent is not None:
            self._parent.remove(workers)

    def close(self) -> None:
        """End all threads registered here."""
        self.end(set(self._workers))

    def end(self, workers: set[Worker]) -> None:
        """End these threads and unregister them."""
        self.remove(workers)
        for worker in workers:
            worker.close()


class ThreadedListener:
    """Calls the methods of a completion listener or an AsyncCallback in a thread, where they block.

    One thread serves all listeners of one producer; it starts with the first call.
    """

    def __init__(self, listener: Any, thread: CompletionThread) -> None:
        self.listener = listener
        self._run = thread.run

    async def on_completion(self, message: Message) -> None:
        """Call the listener's method and wait until it has returned."""
        await self._run(self.listener.on_completion, message)

    async def on_success(self) -> None:
        """Call the callback's method and wait until it has returned."""
        await self._run(self.listener.on_success)

    async def on_exception(self, *failure: Any) -> None:
        """Call the method of either, with the message or not, and wait until it has returned."""
        await self._run(self.listener.on_exception, *failure)


class CompletionThread:
    """The thread of the completion listeners of one object; called on the loop."""

    def __init__(self, owner: object, threads: ListenerThreads, guard: SessionGuard) -> None:
        self._name = f"pyjms listener of {owner!r}"
        self._threads = threads
        self._guards = (guard,)
        self._worker: Worker | None = None

    async def run(self, function: Callable[..., object], *args: object) -> None:
        """Run `function(*args)` in the thread, which the first call starts."""
        if self._worker is None:
            self._worker = Worker(self._name)
            self._threads.add(self._worker)
        await _run_within(self._guards, self._worker, function, *args)


class CloseableFacade(Facade[C], Generic[C]):
    """A blocking object with `close`; `with` closes it."""

    __slots__ = ("_worker", "listener", "threads")

    threads: ListenerThreads
    listener: BlockingListener | None
    _worker: Worker | None

    def attach(self, core: object, loop: LoopHandle, owner: Facade[object] | None) -> None:
        """Set the core, and register the object's threads with those of the owner."""
        super().attach(core, loop, owner)
        parent = owner.threads if isinstance(owner, CloseableFacade) else None
        self.threads = ListenerThreads(parent)
        self.listener = None
        self._worker = None
        if owner is None or not isinstance(owner, CloseableFacade):
            close_at_exit(core, loop, "close")

    def close(self) -> None:
        """Close it and end its listener threads. Blocks. Idempotent.

        In a forked child process it has no effect on objects opened before the fork.

        Raises:
            IllegalStateException: called by a completion listener, for which it would wait.
        """
        if not self.loop.in_this_process:
            return
        is_refused = False
        try:
            call_on_loop(self.loop, self.core.close)
        except IllegalStateException:
            is_refused = True
            raise
        finally:
            if not is_refused:
                self.threads.close()

    def _set_listener(
        self,
        set_on_core: Callable[[Any], Coroutine[Any, Any, None]],
        listener: Callable[[Any], object] | None,
        previous: Callable[[Any], object] | None,
    ) -> None:
        """Set a listener that the core calls in a thread; end the previous listener's thread."""
        worker = None
        if listener is None:
            call_on_loop(self.loop, set_on_core, None)
        else:
            name = f"pyjms listener of {self.core!r}"
            guards = (self.guard,) if isinstance(self, SessionPart) else ()
            worker = call_on_loop(self.loop, _listen_in_thread, name, set_on_core, listener, guards)
        if previous is not None and self._worker is not None:
            self.threads.end({self._worker})
            self._worker = None
        if worker is not None:
            self.threads.add(worker)
            self._worker = worker

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class ListeningFacade(CloseableFacade[L], Generic[L]):
    """A blocking object with a message listener: a consumer, or a session."""

    __slots__ = ()

    @property
    def message_listener(self) -> BlockingListener | None:
        """The listener that was set here, or None."""
        return self.listener

    def set_message_listener(self, listener: BlockingListener | None) -> None:
        """Set the listener, which is called with each message in a thread; None removes it."""
        self._set_listener(self.core.set_message_listener, listener, self.listener)
        self.listener = listener


async def _listen_in_thread(
    name: str,
    set_on_core: Callable[[Any], Coroutine[Any, Any, None]],
    listener: Callable[[Any], object],
    guards: tuple[SessionGuard, ...],
) -> Worker:
    worker = Worker(name)

    async def call(argument: object) -> None:
        await _run_within(guards, worker, listener, argument)

    await set_on_core(call)
    return worker


async def _run_within(
    guards: tuple[SessionGuard, ...], worker: Worker, function: Callable[..., object], *args: object
) -> None:
    """Run `function(*args)` in the worker's thread, which may use these sessions."""
    token = sessions_in_use.set(guards)
    try:
        await worker.run(function, *args)
    finally:
        sessions_in_use.reset(token)


class SynchronizationInThread(Synchronization):
    """Calls the methods of `synchronization` in a thread, without blocking the loop."""

    def __init__(self, synchronization: Synchronization) -> None:
        self._target = synchronization

    async def before_end(self) -> None:
        await _call(self._target.before_end)

    async def after_commit(self) -> None:
        await _call(self._target.after_commit)

    async def after_rollback(self) -> None:
        await _call(self._target.after_rollback)


async def _call(function: Callable[[], object]) -> None:
    await to_thread.run_sync(function)


_CALLBACK: Final = 2
"""The position of `callback` among the arguments of `send`."""


class MessageProducer(
    SessionPart[api.MessageProducer], CloseableFacade[api.MessageProducer], ProducerMembers
):
    """Sends messages; its attributes are the defaults of `send`. JMS: MessageProducer."""

    __slots__ = ("_completions",)

    _completions: CompletionThread

    def attach(self, core: object, loop: LoopHandle, owner: Facade[object] | None) -> None:
        """Set the core and its loop."""
        super().attach(core, loop, owner)
        self._completions = CompletionThread(core, self.threads, self.guard)

    def arguments(
        self, name: str, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[Iterable[object], Mapping[str, object]]:
        """Return the arguments for the core's method; a listener is called in a thread."""
        if len(args) > _CALLBACK:
            kwargs["callback"] = args[_CALLBACK]
            args = args[:_CALLBACK]
        listener: Any = kwargs.get("completion_listener")
        callback: Any = kwargs.get("callback")
        for key, given in (("completion_listener", listener), ("callback", callback)):
            if given is not None:
                completion_listener_of(listener, callback)
                kwargs[key] = ThreadedListener(given, self._completions)
        return args, kwargs

    delivery_mode: Attribute[DeliveryMode] = Attribute(
        "The default delivery mode; PERSISTENT unless set."
    )
    priority: Attribute[int] = Attribute("The default priority, 0 to 9; 4 unless set.")
    time_to_live: Attribute[float] = Attribute(
        "The default time to live in seconds; 0: messages never expire."
    )
    delivery_delay: Attribute[float] = Attribute(
        "Seconds before messages are delivered (delivery delay); 0: immediately."
    )
    send_timeout: Attribute[float | None] = Attribute(
        "Seconds that each send waits for the broker's response; None: no limit."
    )
    transformer: Attribute[api.MessageTransformer | None] = Attribute(
        "Transforms messages that are sent; called on the loop, it must not block."
    )
    stats: Final = ReadOnly[JMSProducerStats | None](STATS)
    disable_message_id: Attribute[bool] = Attribute("A hint that message ids are not needed.")
    disable_message_timestamp: Attribute[bool] = Attribute(
        "Whether messages are sent without a timestamp."
    )


class MessageConsumer(
    SessionPart[api.MessageConsumer], ListeningFacade[api.MessageConsumer], ConsumerMembers
):
    """Receives messages. For one thread at a time. JMS: MessageConsumer."""

    __slots__ = ("_available_listener", "_interrupted")

    _available_listener: Callable[[MessageConsumer], object] | None
    _interrupted: deque[Message | None]

    transformer: Attribute[api.MessageTransformer | None] = Attribute(
        "Transforms messages that are delivered; called on the loop, it must not block."
    )
    stats: Final = ReadOnly[JMSConsumerStats | None](STATS)

    def attach(self, core: object, loop: LoopHandle, owner: Facade[object] | None) -> None:
        """Set the core and its loop."""
        super().attach(core, loop, owner)
        self._available_listener = None
        self._interrupted = deque()

    @trim_errors
    def receive(self, timeout: float | None = None) -> Message | None:
        """Wait for the next message and return it, or None after `timeout` seconds. Blocks.

        Interrupting the wait (Ctrl-C) loses no message. JMS: MessageConsumer.receive(timeout), in
        which 0 means no limit; here None means no limit, and 0 is receiveNoWait().

        Raises:
            IllegalStateException: the consumer is closed, or the session has a listener.
            ConnectionFailedException: the connection has failed.
        """
        while self._interrupted:
            if (message := self._interrupted.popleft()) is not None:
                return message
        return self.call(self.core.receive, timeout, keep=self._interrupted.append)

    def receive_no_wait(self) -> Message | None:
        """Return a message that has arrived already, or None."""
        return self.receive(0)

    @property
    def message_available_listener(self) -> Callable[[MessageConsumer], object] | None:
        """The listener for available messages that was set on this object; None: there is none."""
        return self._available_listener

    def set_message_available_listener(
        self, listener: Callable[[MessageConsumer], object] | None
    ) -> None:
        """Set a function that is called with this consumer when a message can be received.

        It is called in a thread, once for each message that arrives, unless the message was already
        received. It may call `receive(0)`, which may still return None, for example if the message
        has expired. None removes it. Blocks. ActiveMQ: MessageAvailableConsumer.

        Raises:
            IllegalStateException: the consumer is closed, or its session has a message listener.
            JMSException: the consumer has no prefetch, so messages arrive only on request.
            UnsupportedOperationException: the provider has no such listeners.
        """

        def call(_: api.MessageConsumer) -> object:
            assert listener is not None
            return listener(self)

        self._set_listener(
            self.core.set_message_available_listener,
            None if listener is None else call,
            self._available_listener,
        )
        self._available_listener = listener

    def __iter__(self) -> Iterator[Message]:
        """Receive messages until the consumer is closed."""
        while (message := self.receive()) is not None:
            yield message


class QueueBrowser(
    SessionPart[api.QueueBrowser], CloseableFacade[api.QueueBrowser], BrowserMembers
):
    """Iterates over the messages of a queue without removing them. JMS: QueueBrowser."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Message]:
        messages = aiter(self.core)
        while True:
            message = self.call(_next_or_none, messages)
            if message is None:
                return
            yield message


class Session(
    SessionPart[api.Session], ListeningFacade[api.Session], OperationMembers, SessionMembers
):
    """The context of order, acknowledgement and transactions. JMS: Session.

    For one thread at a time, except `close`: a call during another thread's call raises
    IllegalStateException, which names both threads. Listeners, and synchronizations for which a
    call waits, may use the session that calls them.
    """

    __slots__ = ()

    transformer: Attribute[api.MessageTransformer | None] = Attribute(
        "The message transformer of new producers and consumers."
    )
    stats: Final = ReadOnly[JMSSessionStats | None](STATS)

    def add_synchronization(self, synchronization: Synchronization) -> None:
        """Register callbacks for the end of the session's transaction, called in a thread.

        Its methods are plain functions and may use the session; `commit` and `rollback` wait for
        them. A transacted session without a transaction begins one.

        Raises:
            IllegalStateException: the session is closed or not transacted.
            JMSException: an XA session is not associated with a branch.
        """
        self.call(_add_synchronization, self.core, SynchronizationInThread(synchronization))

    def run(self) -> None:
        """Deliver the consumers' buffered messages to the session's listener. Blocks.

        Called by the pool of a connection consumer, in a thread. Meanwhile only the listener may
        use the session. JMS: Session.run (JMS 1.1 section 8.2.4).

        Raises:
            IllegalStateException: the session is closed, has no listener, or the listener is
                running.
        """
        call_on_loop(self.loop, self.core.run)


async def _add_synchronization(session: api.Session, synchronization: Synchronization) -> None:
    session.add_synchronization(synchronization)


async def _next_or_none(messages: Any) -> Message | None:
    return await anext(messages, None)
