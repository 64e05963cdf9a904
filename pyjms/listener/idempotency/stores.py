"""Stores of the keys of handled messages: the interfaces, and the in-memory store."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from enum import Enum
from typing import Final, Protocol, TypeAlias

from pyjms import _clock

__all__ = [
    "AsyncIdempotencyStore",
    "Claim",
    "EitherIdempotencyStore",
    "IdempotencyStore",
    "MemoryIdempotencyStore",
]

_BUSY: Final = float("inf")


class Claim(Enum):
    """The result of claiming a key."""

    NEW = "new"
    """The caller has the key now, and calls `complete` or `release` afterwards."""
    DUPLICATE = "duplicate"
    """The key was completed before."""
    BUSY = "busy"
    """Another consumer has the key; the caller waits, and claims it again."""


class IdempotencyStore(Protocol):
    """Remembers keys. Its methods are called from the threads of consumers, or from the loop."""

    @property
    def blocks(self) -> bool:
        """Whether its methods block, so that they are only called in threads."""

    @property
    def after_commit(self) -> bool:
        """Whether `complete` is called after the commit of the message; otherwise before it."""

    def claim(self, key: str, arguments: Sequence[object]) -> Claim:
        """Claim `key` for a handler, which is called with `arguments` if the result is NEW."""

    def complete(self, key: str) -> None:
        """Remember a claimed key: its message was handled."""

    def release(self, key: str) -> None:
        """Forget a claimed key: its message was not handled."""


class AsyncIdempotencyStore(Protocol):
    """Remembers keys with coroutines, for `async def` handlers. Called on the loop."""

    @property
    def after_commit(self) -> bool:
        """Whether `complete` is called after the commit of the message; otherwise before it."""

    async def claim(self, key: str, arguments: Sequence[object]) -> Claim:
        """Claim `key` for a handler, which is called with `arguments` if the result is NEW."""

    async def complete(self, key: str) -> None:
        """Remember a claimed key: its message was handled."""

    async def release(self, key: str) -> None:
        """Forget a claimed key: its message was not handled. Not cancelled."""


EitherIdempotencyStore: TypeAlias = IdempotencyStore | AsyncIdempotencyStore


class MemoryIdempotencyStore:
    """Remembers keys in this process, for a time. Thread-safe; nothing blocks.

    It detects messages that one process gets twice, because they were sent twice or redelivered
    after a lost connection; not across restarts or processes.

    Args:
        seconds: how long a key is remembered.
        maximum: how many keys are remembered; beyond that the oldest is forgotten.

    Raises:
        TypeError: an argument is not a number.
        ValueError: `seconds` or `maximum` is not positive.
    """

    blocks = False
    after_commit = True

    def __init__(self, *, seconds: float = 86_400.0, maximum: int = 100_000) -> None:
        _clock.check_seconds("seconds", seconds)
        if maximum < 1 or seconds <= 0:
            raise ValueError("'seconds' and 'maximum' must be more than 0")
        self._seconds = seconds
        self._maximum = maximum
        self._ends: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._ends)

    def claim(self, key: str, arguments: Sequence[object]) -> Claim:
        """Claim `key`; `arguments` do not matter here."""
        now = _clock.now()
        with self._lock:
            self._forget(now)
            end = self._ends.get(key)
            if end is not None and end > now:
                return Claim.BUSY if end == _BUSY else Claim.DUPLICATE
            self._ends[key] = _BUSY
            return Claim.NEW

    def complete(self, key: str) -> None:
        """Remember a claimed key, starting now."""
        with self._lock:
            self._ends[key] = _clock.now() + self._seconds
            self._ends.move_to_end(key)

    def release(self, key: str) -> None:
        """Forget a claimed key."""
        with self._lock:
            self._ends.pop(key, None)

    def _forget(self, now: float) -> None:
        while self._ends:
            end = next(iter(self._ends.values()))
            if end > now and len(self._ends) < self._maximum:
                return
            self._ends.popitem(last=False)
