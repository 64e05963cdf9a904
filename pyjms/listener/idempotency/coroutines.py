"""A coroutine interface for blocking and coroutine stores."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import cast

from pyjms.core.workers import call_in_worker
from pyjms.listener.idempotency.stores import (
    AsyncIdempotencyStore,
    Claim,
    EitherIdempotencyStore,
    IdempotencyStore,
)

__all__ = ["as_coroutines", "without_coroutines"]


def as_coroutines(store: EitherIdempotencyStore) -> AsyncIdempotencyStore:
    """Return a store with coroutines; a blocking store is called in the consumer's thread."""
    plain = without_coroutines(store)
    return cast(AsyncIdempotencyStore, store) if plain is None else _Awaitable(plain)


def without_coroutines(store: EitherIdempotencyStore) -> IdempotencyStore | None:
    """Return the store if it has no coroutines, as `def` handlers require; otherwise None."""
    return None if inspect.iscoroutinefunction(store.claim) else cast(IdempotencyStore, store)


class _Awaitable:
    def __init__(self, store: IdempotencyStore) -> None:
        self._store = store

    @property
    def after_commit(self) -> bool:
        return self._store.after_commit

    async def claim(self, key: str, arguments: Sequence[object]) -> Claim:
        if self._store.blocks:
            return await call_in_worker(self._store.claim, key, arguments)
        return self._store.claim(key, arguments)

    async def complete(self, key: str) -> None:
        if self._store.blocks:
            await call_in_worker(self._store.complete, key)
        else:
            self._store.complete(key)

    async def release(self, key: str) -> None:
        if self._store.blocks:
            await call_in_worker(self._store.release, key)
        else:
            self._store.release(key)
