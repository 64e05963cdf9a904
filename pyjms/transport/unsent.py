"""Long values that wait to be sent, without being copied, and a limit on the memory they take.

A value that many connections have to send is in memory once. The bytes that wait for one connection
are limited by its writer's high-water mark plus one frame. `UnsentBudget` limits the long values
that wait for all connections together, without blocking senders: it ends the connections of peers
that do not read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import anyio

from pyjms.errors import ConnectionFailedException
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, spawn
from pyjms.runtime.logging import get_logger

logger: Final = get_logger(__name__)

_SHORT_PATIENCE: Final = 1.0
"""Seconds that a value may wait while more than twice the allowed bytes wait."""
_SLOWEST: Final = 64 * 1024
"""Bytes per second: a peer that reads at least that fast is slow, but not ended."""


class _Value:
    """A waiting value; `held` references it, so that its `id()` is not reused."""

    __slots__ = ("connections", "held")

    def __init__(self, held: bytes) -> None:
        self.held = held
        self.connections = 1


class UnsentBudget:
    """A limit on the memory of long values that wait to be sent: `limit` bytes (0: no limit).

    While the limit is exceeded, connections with a value that has waited for `write_timeout`
    seconds are ended, the longest wait first, unless their peers read 64 KiB per second. While more
    than twice the limit waits, a value may wait for only one second. A single value is always
    allowed, however many connections have to send it. Belongs to one loop.
    """

    def __init__(self, limit: int, write_timeout: float) -> None:
        self.limit = limit
        self.write_timeout = write_timeout
        self.used: int = 0
        """Bytes of the waiting values; one that several connections have to send counts once."""
        self._values: dict[int, _Value] = {}  # by the value's id()
        self._waiting: dict[UnsentParts, float] = {}  # the start of each wait, oldest first
        self._enforcing: BackgroundTask | None = None
        self._changed: anyio.Event | None = None

    def begin(self, parts: UnsentParts, value: bytes) -> None:
        """Count a value that a connection has to send."""
        known = self._values.get(id(value))
        if known is None:
            self._values[id(value)] = _Value(value)
            self.used += len(value)
        else:
            known.connections += 1
        if parts not in self._waiting:
            self._start(parts)
        if self._exceeded:
            if self._enforcing is None or self._enforcing.done:
                self._enforcing = spawn(self._enforce, name="limit of what peers do not read")
            else:
                self._notify()

    def end(self, parts: UnsentParts, value: bytes, *, has_more: bool) -> None:
        """Stop counting a value; `has_more`: the connection has other values to send."""
        known = self._values[id(value)]
        known.connections -= 1
        if not known.connections:
            del self._values[id(value)]
            self.used -= len(value)
        self._waiting.pop(parts, None)
        if has_more:
            self._start(parts)
        self._notify()

    @property
    def _exceeded(self) -> bool:
        return bool(self.limit) and self.used > self.limit and len(self._values) > 1

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed.set()

    async def _enforce(self) -> None:
        """End connections until the limit holds; runs as a task, outside of the senders' calls."""
        while self._exceeded:
            parts, begun = next(iter(self._waiting.items()))
            patience = self.write_timeout
            if self.used > 2 * self.limit:
                patience = min(patience, _SHORT_PATIENCE)
            left = begun + patience - _clock.now()
            if left <= 0:
                self._end_or_renew(parts, patience)
                continue
            self._changed = anyio.Event()
            with _clock.timeout(left):
                await self._changed.wait()
            self._changed = None

    def _end_or_renew(self, parts: UnsentParts, patience: float) -> None:
        if patience < self.write_timeout or parts.taken < self.write_timeout * _SLOWEST:
            parts.abort(self)
            return
        del self._waiting[parts]
        self._start(parts)

    def _start(self, parts: UnsentParts) -> None:
        parts.taken = 0
        self._waiting[parts] = _clock.now()


class UnsentParts:
    """The long values that one connection has to send and the bytes between them, in order."""

    def __init__(self) -> None:
        self.waiting: deque[memoryview] = deque()
        """The parts to send; they are removed only by `remove` and `take`."""
        self.size: int = 0
        """The number of bytes to send."""
        self.taken: int = 0
        """The number of bytes sent since the budget started to count a value."""
        self._values: deque[bytes | None] = deque()  # for each part; None: not a long value
        self._budget: UnsentBudget | None = None
        self._fail: Callable[[Exception], object] = _nothing

    def count_in(self, budget: UnsentBudget, fail: Callable[[Exception], object]) -> None:
        """Start to count the values in `budget`; `fail(error)` ends the connection."""
        self._budget, self._fail = budget, fail

    def add(self, data: bytes | bytearray, value: bytes) -> None:
        """Add bytes, which must not change any more, followed by a long value."""
        if data:
            self.waiting.append(memoryview(data))
            self._values.append(None)
        self.waiting.append(memoryview(value))
        self._values.append(value)
        self.size += len(data) + len(value)
        if self._budget is not None:
            self._budget.begin(self, value)

    def remove(self, count: int) -> None:
        """Remove the next `count` bytes."""
        self.size -= count
        self.taken += count
        while count:
            first = self.waiting[0]
            if count < len(first):
                self.waiting[0] = first[count:]
                return
            count -= len(first)
            self._remove_first()

    def take(self, size: int) -> bytes:
        """Remove and return `size` bytes, or fewer if there are fewer."""
        data = bytearray()
        while self.waiting and len(data) < size:
            part = self.waiting[0][: size - len(data)]
            data += part
            self.remove(len(part))
        return bytes(data)

    def clear(self) -> None:
        """Remove everything. Idempotent."""
        while self.waiting:
            self._remove_first()
        self.size = 0

    def abort(self, budget: UnsentBudget) -> None:
        """End the connection, as its peer does not read and other connections need the memory."""
        error = ConnectionFailedException(
            f"The peer has not read a message of {len(self._long_value)} bytes in time, and "
            f"messages of {budget.used} bytes wait, while the limit is {budget.limit}",
            hint="the broker's unsent_frames_limit and frame_write_timeout set the limits",
        )
        logger.warning("Closing a connection: %s", error)
        self._fail(error)
        self.clear()

    @property
    def _long_value(self) -> bytes:
        return next((value for value in self._values if value is not None), b"")

    def _remove_first(self) -> None:
        self.waiting.popleft()
        value = self._values.popleft()
        if value is not None and self._budget is not None:
            self._budget.end(self, value, has_more=bool(self._long_value))


def _nothing(_error: Exception) -> None:
    """Do nothing: the connection is not counted."""
