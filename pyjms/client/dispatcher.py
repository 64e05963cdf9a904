"""The task that calls a session's listeners, one message at a time for all its consumers.

JMS allows one listener of a session to run at a time, so a session has one task for all of them.
It starts with the first message for a listener and runs until the session ends.

Consumers that have messages wait in a queue, each at most once (`is_queued`). The task delivers
one message of the first consumer and appends the consumer to the queue again if it has more, so
consumers take turns and none starves another. After a burst the task lets other tasks run.

A burst lasts about a millisecond, so that it delivers more messages than one read from the socket
brings (some 50 messages of 1 KiB in 64 KiB). With shorter bursts the buffer would grow to the
prefetch limit: its messages would have left the processor's caches when they are delivered, and
each garbage collection would traverse them. With such bursts, ten subscribers of a topic got a
third fewer messages.

When the queue is empty, the task flushes the transport: the acknowledgements and sends of a burst
are sent in one write. The acknowledgements that ledgers have deferred to the end of the burst
(`at_end_of_burst`) are queued before that, at the latest in the loop's next turn, because a
listener may wait for a long time.

`running` has a running listener. Closing waits until it has returned; a listener that closes
its own consumer or session must not wait for itself, which a context variable detects.

A listener's exceptions are handled by the consumer. Any other exception (a message that cannot be
converted, a logging handler that fails) would end the task, and the session would deliver nothing
any more: it fails the connection instead, and the broker redelivers.
(JMS 1.1, section 4.4.6; activemq-edges N8)
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from anyio.lowlevel import checkpoint

from pyjms.errors import ConnectionFailedException, JMSException
from pyjms.runtime.clock import Waiters, now
from pyjms.runtime.event_loop import BackgroundTask, LoopHandle, Waiter, spawn

if TYPE_CHECKING:
    from pyjms.client.session import ActiveMQSession


def background_failure(what: str, error: BaseException) -> JMSException:
    """Return the failure of a connection that the background work `what` has caused.

    A failure of the transport itself is returned unchanged.
    """
    if isinstance(error, ConnectionFailedException):
        return error
    failure = JMSException(
        f"{what} failed: {error!r}",
        hint="the connection was closed, so that the broker redelivers its messages",
    )
    failure.linked_exception = failure.__cause__ = error
    return failure


class OwnedTasks:
    """The running background tasks of one connection or session.

    They are not awaited while they work, so a failure would go unnoticed and the work would stop
    silently: `fail` fails the connection instead.
    """

    def __init__(self, owner: object, fail: Callable[[JMSException], None]) -> None:
        self._owner = owner
        self._fail = fail
        self._tasks: list[BackgroundTask] = []

    def spawn(self, function: Callable[..., Awaitable[Any]], *args: Any) -> BackgroundTask:
        """Start `function(*args)`; a failure fails the connection."""
        self._tasks = [task for task in self._tasks if not task.done]
        name = f"pyjms {self._owner} {function.__name__}"
        task = spawn(function, *args, name=name, on_error=partial(self._on_failure, name))
        self._tasks.append(task)
        return task

    def cancel(self) -> None:
        """Cancel all tasks."""
        for task in self._tasks:
            task.cancel()

    async def wait(self) -> None:
        """Wait until all tasks have ended."""
        for task in self._tasks:
            await task.wait()

    def _on_failure(self, name: str, error: BaseException) -> None:
        self._fail(background_failure(f"The background task {name}", error))


_BURST_SECONDS = 0.001  # after which other tasks run
_CLOCK_INTERVAL = 32  # deliveries between two looks at the clock
_LONGEST_BURST = 16 * _CLOCK_INTERVAL  # deliveries, whatever the clock says

_current: ContextVar[ListenerDispatcher | None] = ContextVar("pyjms_listener", default=None)


class ListenerTarget:
    """What a dispatcher calls: a consumer's listener, completion listeners, announcements."""

    is_queued: bool = False
    """Set while the dispatcher has it in its queue."""
    takes_turns: bool = False
    """Whether its calls are made in turn with those of other sessions; see ListenerTurns."""
    listener_name: str
    """The description of the listener in messages about failures."""

    @abstractmethod
    async def deliver_one(self) -> bool:
        """Make one call; return whether more calls are due."""


class ListenerDispatcher:
    """Delivers buffered messages to the listeners of one session."""

    def __init__(self, session: ActiveMQSession) -> None:
        self._name = f"ActiveMQ Session Task-{session.session_id}"
        self._connection = session.connection
        self._turns = session.connection.listener_turns
        self._queue: deque[ListenerTarget] = deque()
        self._sleeper: Waiter | None = None
        self.running: ListenerTarget | None = None
        """Whose listener is running; its sends are flushed at the end of the burst."""
        self._idle = Waiters()
        self._endings: list[Callable[[], object]] = []
        self._is_timed = False
        self._stopped = False
        self._task: BackgroundTask | None = None

    def wake(self, consumer: ListenerTarget) -> None:
        """Schedule the listener of `consumer` behind those already scheduled."""
        if consumer.is_queued or self._stopped:
            return
        consumer.is_queued = True
        self._queue.append(consumer)
        if self._task is None:
            self._task = spawn(self._run, name=self._name, on_error=self._on_failure)
        self._wake_task()

    @property
    def is_own_call(self) -> bool:
        """Whether the caller runs inside a listener of this session."""
        return self.running is not None and _current.get() is self

    def at_end_of_burst(self, function: Callable[[], object]) -> bool:
        """Call `function()` when the burst ends, or when one of its listeners waits for something.

        Returns False, and does not call it, if no listener is running.
        """
        if self.running is None:
            return False
        self._endings.append(function)
        return True

    async def wait_idle(self, consumer: ListenerTarget | None = None) -> None:
        """Wait until no listener (of `consumer`) is running; return at once inside one."""
        while (
            self.running is not None
            and (consumer is None or consumer is self.running)
            and not self.is_own_call
        ):
            await self._idle.wait()

    def stop_soon(self) -> None:
        """Call no more listeners after the one that is running."""
        self._stopped = True
        self._queue.clear()
        self._wake_task()

    async def abort(self) -> None:
        """End the task and cancel a listener that is running, except the caller's own."""
        self.stop_soon()
        if self._task is not None and not self.is_own_call:
            self._task.cancel()
            await self._task.wait()

    async def _run(self) -> None:
        _current.set(self)
        queue = self._queue
        loop = LoopHandle()
        while not self._stopped:
            left, burst_end = _LONGEST_BURST, now() + _BURST_SECONDS
            while queue:
                consumer = queue.popleft()
                consumer.is_queued = False
                self.running = consumer
                if self._endings and not self._is_timed:
                    self._is_timed = True
                    loop.call_next(self._end_in_next_pass)
                try:
                    if self._turns is None or not consumer.takes_turns:
                        more = await consumer.deliver_one()
                    else:
                        more = await self._turns.deliver_one(consumer)
                except Exception as error:
                    what = f"The delivery to {consumer.listener_name}"
                    raise background_failure(what, error) from error
                finally:
                    self.running = None
                    if self._idle.event is not None:
                        self._idle.wake()
                if more and not consumer.is_queued and not self._stopped:
                    consumer.is_queued = True
                    queue.append(consumer)
                left -= 1
                if not left % _CLOCK_INTERVAL and (not left or now() >= burst_end):
                    self._end_burst()
                    await checkpoint()
                    left, burst_end = _LONGEST_BURST, now() + _BURST_SECONDS
            self._end_burst()
            self._connection.send_now()
            if not self._stopped:
                self._sleeper = Waiter()
                await self._sleeper.wait()

    def _end_burst(self) -> None:
        endings, self._endings = self._endings, []
        for function in endings:
            function()

    def _end_in_next_pass(self) -> None:
        """End the burst if one of its listeners still runs, because it waits for something."""
        self._is_timed = False
        try:
            self._end_burst()
        except JMSException as error:
            self._on_failure(error)

    def _on_failure(self, error: BaseException) -> None:
        self._connection.fail(
            error
            if isinstance(error, JMSException)
            else background_failure(f"The task {self._name}", error)
        )

    def _wake_task(self) -> None:
        if self._sleeper is not None:
            self._sleeper.wake()


class _Wait:
    """A consumer that waits for its turn."""

    __slots__ = ("consumer", "event", "is_granted")

    def __init__(self, consumer: ListenerTarget) -> None:
        self.consumer = consumer
        self.event = anyio.Event()
        self.is_granted = False


class ListenerTurns:
    """Turns: one listener of a connection runs at a time, in the order in which they ask.

    With `jms.alwaysSessionAsync=false`, the single reading thread of an ActiveMQ connection calls
    the listeners of all its sessions. Here only the listeners wait for each other: a listener may
    wait for a response from the broker, which in ActiveMQ would never arrive. (activemq-edges N19)
    """

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting: deque[_Wait] = deque()

    async def deliver_one(self, consumer: ListenerTarget) -> bool:
        """Make one call of `consumer` in its turn; return whether more calls are due."""
        if not await self._take(consumer):
            return False
        try:
            return await consumer.deliver_one()
        finally:
            self._give_back()

    async def _take(self, consumer: ListenerTarget) -> bool:
        """Wait for a turn; return False if it was withdrawn meanwhile. Cancellable."""
        if not self._is_taken:
            self._is_taken = True
            return True
        wait = _Wait(consumer)
        self._waiting.append(wait)
        try:
            await wait.event.wait()
        except BaseException:
            if wait.is_granted:
                self._give_back()
            elif wait in self._waiting:
                self._waiting.remove(wait)
            raise
        return wait.is_granted

    def _give_back(self) -> None:
        """End a turn; the next waiting consumer gets it."""
        if not self._waiting:
            self._is_taken = False
            return
        wait = self._waiting.popleft()
        wait.is_granted = True
        wait.event.set()

    def withdraw(self, consumer: ListenerTarget) -> None:
        """Cancel the waits of `consumer`."""
        for wait in [wait for wait in self._waiting if wait.consumer is consumer]:
            self._waiting.remove(wait)
            wait.event.set()
