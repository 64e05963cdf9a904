"""The one task that calls a session's listeners: one message at a time, whoever consumes it.

The task starts with the first listener's message and lives as long as the session. A
listener may stop or close what it belongs to: waiting for itself is left out. (JMS 4.4.6;
ActiveMQ N8)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING

import anyio
from anyio.lowlevel import checkpoint

from pyjms._wakeup import BackgroundTask, Waiter, spawn

if TYPE_CHECKING:
    from pyjms.client.delivery.consumer import ActiveMQMessageConsumer
    from pyjms.wire.openwire.commands import SessionId

__all__ = ["ListenerDispatcher"]

_BURST = 32  # deliveries after which other tasks get their turn

_inside: ContextVar[ListenerDispatcher | None] = ContextVar("pyjms_listener", default=None)


class ListenerDispatcher:
    """Brings buffered messages to the listeners of one session."""

    def __init__(self, session_id: SessionId, send_now: Callable[[], object]) -> None:
        self._name = f"ActiveMQ Session Task-{session_id}"
        self._send_now = send_now
        self._ready: deque[ActiveMQMessageConsumer] = deque()
        self._sleeper: Waiter | None = None
        self._busy: ActiveMQMessageConsumer | None = None
        self._idle: anyio.Event | None = None
        self._stopped = False
        self._task: BackgroundTask | None = None

    def wake(self, consumer: ActiveMQMessageConsumer) -> None:
        """Have the listener of `consumer` called with what it has, in turn with others."""
        if consumer.is_queued or self._stopped:
            return
        consumer.is_queued = True
        self._ready.append(consumer)
        if self._task is None:
            self._task = spawn(self._run, name=self._name)
        self._wake_task()

    @property
    def is_busy(self) -> bool:
        """Whether a listener runs; what it sends leaves at the end of its burst, or soon."""
        return self._busy is not None

    @property
    def is_own_call(self) -> bool:
        """Whether the caller runs inside a listener of this session."""
        return self._busy is not None and _inside.get() is self

    async def wait_idle(self, consumer: ActiveMQMessageConsumer | None = None) -> None:
        """Wait until no listener (of `consumer`) runs; not at all inside one."""
        while self._busy is not None and consumer in {None, self._busy} and not self.is_own_call:
            if self._idle is None:
                self._idle = anyio.Event()
            await self._idle.wait()

    def stop_soon(self) -> None:
        """Call no listener any more after the running one."""
        self._stopped = True
        self._ready.clear()
        self._wake_task()

    async def abort(self) -> None:
        """End the task; a listener that still runs is cancelled, but never the caller's own."""
        self.stop_soon()
        if self._task is not None and not self.is_own_call:
            self._task.cancel()
            await self._task.wait()

    async def _run(self) -> None:
        _inside.set(self)
        ready = self._ready
        left = _BURST
        while not self._stopped:
            while ready:
                consumer = ready.popleft()
                consumer.is_queued = False
                self._busy = consumer
                try:
                    more = await consumer.deliver_one()
                finally:
                    self._rest()
                if more:
                    self.wake(consumer)
                left -= 1
                if left <= 0:
                    left = _BURST
                    await checkpoint()
            self._send_now()
            if not self._stopped:
                self._sleeper = Waiter()
                await self._sleeper.wait()

    def _wake_task(self) -> None:
        if self._sleeper is not None:
            self._sleeper.wake()

    def _rest(self) -> None:
        self._busy = None
        if self._idle is not None:
            self._idle.set()
            self._idle = None
