"""Memory accounting: the bytes used, their limit, and the sends that wait for space.

Usages form a tree, broker -> destination. A usage is full when it or an ancestor has reached its
limit. A message may exceed the limit; the next one waits. (activemq-broker M1, M2)
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from typing import Final

from pyjms.errors import ResourceAllocationException
from pyjms.jms.destination import Destination

CONSUMER_SIZE: Final = 3 * 1024
"""Bytes that a consumer takes, without its selector and its matches."""
CHARACTER_SIZE: Final = 100
"""Bytes that a compiled selector takes for each character."""
MATCH_SIZE: Final = 512
"""Bytes that a destination takes for each consumer that it has."""
TEMPORARY_SIZE: Final = 5 * 1024
"""Bytes that a temporary destination takes."""
MEMBER_SIZE: Final = 1024
"""Bytes that a session or a producer takes."""


class ClientMemory:
    """An estimate of what the consumers and other resources of one client take in memory."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int = 0) -> None:
        """Start with nothing; `limit` is in bytes, 0: none."""
        self.limit: int = limit
        self.used: int = 0

    def reserve(self, size: int) -> None:
        """Add `size` bytes.

        Raises:
            ResourceAllocationException: the limit would be exceeded.
        """
        if self.limit and self.used + size > self.limit:
            raise ResourceAllocationException(
                "The consumers and other resources of the connection would take more than the "
                f"broker's client_memory_limit of {self.limit} bytes",
                hint="close consumers, temporary destinations, sessions or producers, or use "
                "shorter selectors and fewer patterns",
            )
        self.used += size

    def release(self, size: int) -> None:
        """Subtract `size` bytes."""
        self.used -= size


_NONE_WAIT: Final[dict[MemoryUsage, None]] = {}
"""What usages have that are not roots. Nothing is added to it."""


class MemoryUsage:
    """A number of bytes with a limit (0: none) and a parent. Source: ActiveMQ MemoryUsage."""

    __slots__ = (
        "limit",
        "mark",
        "of",
        "parent",
        "relieved_time",
        "relieved_used",
        "used",
        "waiters",
        "waiting_descendants",
        "was_short",
    )

    def __init__(
        self, of: Destination | str, limit: int = 0, parent: MemoryUsage | None = None
    ) -> None:
        self.of = of
        """The destination, or a name."""
        self.limit: int = limit
        self.parent = parent
        self.used: int = 0
        self.mark: int = 100
        """The percentage at which it is short: messages should leave memory, and none be read."""
        self.was_short: bool = False
        """Whether this usage or an ancestor was above `mark` when bytes were added last."""
        self.relieved_used: int = 0
        """The bytes that were used after messages had been made to leave memory for the last time;
        see `MemoryRelief`."""
        self.relieved_time: float = 0.0
        self.waiters: deque[Callable[[], None]] | None = None
        """Callbacks that wait for space, oldest first; None: there were none yet."""
        self.waiting_descendants: dict[MemoryUsage, None] = {} if parent is None else _NONE_WAIT
        """Root only: the usages of the tree that have waiters."""

    @property
    def name(self) -> str:
        """The name, as in advisories: `Main:memory`, `Main:memory:queue://a:memory`."""
        if isinstance(self.of, str):
            return self.of
        prefix = "" if self.parent is None else f"{self.parent.name}:"
        return f"{prefix}{self.of.qualified_name}:memory"

    @property
    def is_full(self) -> bool:
        """Whether this usage or an ancestor has reached its limit."""
        usage: MemoryUsage | None = self
        while usage is not None:
            if usage.limit and usage.used >= usage.limit:
                return True
            usage = usage.parent
        return False

    def is_above(self, percent: int) -> bool:
        """Whether this usage or an ancestor has reached `percent` of its limit."""
        usage: MemoryUsage | None = self
        while usage is not None:
            if usage.limit and usage.used * 100 >= usage.limit * percent:
                return True
            usage = usage.parent
        return False

    @property
    def is_short(self) -> bool:
        """Whether this usage or an ancestor is above `mark`."""
        return self.is_above(self.mark)

    @property
    def has_share(self) -> bool:
        """Whether it uses so much that, while memory is short, it must not use more.

        That is so above its own mark; else from one percent of an ancestor, or when the ancestor
        is half way between the mark and its limit.
        """
        if self.limit and self.used * 100 >= self.limit * self.mark:
            return True
        root, most = self._root(), (self.mark + 100) // 2
        return self.used * 100 >= root.limit or root.is_above(most)

    @property
    def room(self) -> int | None:
        """The bytes up to the mark, at least one percent of the limit; None without a limit."""
        found: int | None = None
        usage: MemoryUsage | None = self
        while usage is not None:
            if usage.limit:
                room = max(usage.limit // 100, usage.limit * self.mark // 100 - usage.used)
                found = room if found is None else min(found, room)
            usage = usage.parent
        return found

    @property
    def free(self) -> int:
        """The bytes below the marks of this usage and its ancestors; below 0: it is short."""
        found, mark = sys.maxsize, self.mark
        usage: MemoryUsage | None = self
        while usage is not None:
            if usage.limit:
                found = min(found, usage.limit * mark // 100 - usage.used)
            usage = usage.parent
        return found

    @property
    def percent(self) -> int:
        """Percentage of this usage's own limit that is used; 0 without a limit."""
        return self.used * 100 // self.limit if self.limit else 0

    @property
    def has_waiting(self) -> bool:
        """Whether a sender waits for space in this usage."""
        return bool(self.waiters)

    def change_limit(self, limit: int) -> None:
        """Set the limit in bytes (0: none), and admit waiters that now have space."""
        self.limit = limit
        self._root().admit_waiters()

    def increase(self, size: int) -> None:
        """Add `size` bytes to this usage and its ancestors."""
        usage: MemoryUsage | None = self
        mark, is_short = self.mark, False
        while usage is not None:
            used = usage.used = usage.used + size
            if usage.limit and used * 100 >= usage.limit * mark:
                is_short = True
            usage = usage.parent
        self.was_short = is_short

    def decrease(self, size: int) -> None:
        """Subtract `size` bytes from this usage and its ancestors, and admit waiters in order."""
        usage: MemoryUsage = self
        usage.used -= size
        while usage.parent is not None:
            usage = usage.parent
            usage.used -= size
        if usage.waiting_descendants:
            usage.admit_waiters()

    def wait(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when there is space; return a function that cancels the request."""
        waiters = self.waiters = deque() if self.waiters is None else self.waiters
        waiters.append(callback)
        self._root().waiting_descendants[self] = None

        def withdraw() -> None:
            if callback in waiters:
                waiters.remove(callback)

        return withdraw

    def close(self) -> None:
        """Detach from the parent, which no longer counts these bytes; admit the waiters."""
        parent = self.parent
        if parent is None:
            return
        self._root().waiting_descendants.pop(self, None)
        self.parent = None
        self.waiting_descendants = {}
        waiters, self.waiters = self.waiters, None
        for callback in waiters or ():
            callback()
        parent.decrease(self.used)

    def _root(self) -> MemoryUsage:
        usage = self
        while usage.parent is not None:
            usage = usage.parent
        return usage

    def admit_waiters(self) -> None:
        """Call the waiters of each usage below this root that has space again."""
        for usage in tuple(self.waiting_descendants):
            waiters = usage.waiters
            while waiters and not usage.is_full:
                waiters.popleft()()
            if not usage.waiters:
                self.waiting_descendants.pop(usage, None)
