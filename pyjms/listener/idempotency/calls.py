"""Calls of idempotent handlers: claim the key, call the handler or skip, complete or release.

The plan claims the key, in the handler's thread or on the loop, because the arguments are known
only there. The adapter completes or releases the claim, on the loop: if the store requires it after
the commit, by a synchronization of the session's transaction. `_claimed` passes the key from the
plan to the adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Final, cast

import anyio

from pyjms import _clock
from pyjms._distribution import entry_points
from pyjms._logger import get_logger
from pyjms.annotation.idempotent import IdempotentMark
from pyjms.errors import ConfigurationException, Skip, UnsupportedOperationException
from pyjms.jms.api import Session
from pyjms.jms.message import Message
from pyjms.jms.transaction.synchronization import Synchronization
from pyjms.listener.handler.adapter import HandlerAdapter
from pyjms.listener.handler.arguments import CallPlan
from pyjms.listener.handler.parameters import HandlerParameter
from pyjms.listener.idempotency import stores
from pyjms.listener.idempotency.coroutines import as_coroutines, without_coroutines
from pyjms.listener.idempotency.keys import key_reader

__all__ = ["GROUP", "IdempotentAdapter", "IdempotentPlan", "store_of"]

logger: Final = get_logger(__name__)

GROUP: Final = "pyjms.idempotency_stores"
_BUSY_DELAY: Final = 1.0
"""Seconds between the claims of a key that another consumer has."""

_claimed: ContextVar[list[str] | None] = ContextVar("pyjms_claimed", default=None)


def store_of(mark: IdempotentMark) -> stores.EitherIdempotencyStore:
    """Return the store of a mark; a store that is named, and the default, is created once.

    Raises:
        ConfigurationException: there is no such entry point, or its object is not a store.
    """
    if mark.store is None:
        mark.store = stores.MemoryIdempotencyStore()
    elif isinstance(mark.store, str):
        found = list(entry_points(group=GROUP, name=mark.store))
        if not found:
            known = ", ".join(sorted({point.name for point in entry_points(group=GROUP)})) or "none"
            raise ConfigurationException(
                f"@idempotent: there is no store {mark.store!r}",
                hint=f"entry points in the group {GROUP}: {known}",
            )
        mark.store = found[0].load()()
    missing = [n for n in ("claim", "complete", "release") if not hasattr(mark.store, n)]
    if missing:
        raise ConfigurationException(
            f"@idempotent: {mark.store!r} is not a store, because it has no {missing[0]}",
            hint="see pyjms.listener.idempotency.stores.IdempotencyStore",
        )
    return cast(stores.EitherIdempotencyStore, mark.store)


class _KeyIsBusyError(Exception):
    """Another consumer is handling a message with the same key."""


class IdempotentPlan(CallPlan):
    """The plan by which an idempotent handler is called, with messages whose keys are new.

    Raises:
        ConfigurationException: a parameter cannot be supplied, or the key or the store is not
            known.
    """

    def __init__(
        self, handler: Callable[..., Any], *, mark: IdempotentMark, **options: Any
    ) -> None:
        self._payload_name = ""
        super().__init__(handler, **options)
        self.mark = mark
        store = store_of(mark)
        self.store: stores.AsyncIdempotencyStore = as_coroutines(store)
        self._plain = without_coroutines(store)
        if self._plain is None and not self.is_coroutine:
            raise ConfigurationException(
                f"Handler {self.name}: the store of its @idempotent has coroutines",
                hint="write `async def`, or use a blocking store, such as SqlIdempotencyStore",
            )
        self._read_key = key_reader(mark.key, self.name)

    def call(self, message: Message, session: Session | None) -> Any:
        """Call the handler and return its result (a coroutine, for a coroutine function).

        Raises:
            Skip: the message's key has been handled before.
            _KeyIsBusyError: another consumer is handling it.
            UnreadableMessageException: a parameter or the key cannot be made of this message.
            Exception: the handler's own.
        """
        try:
            values = [supply(message, session) for supply in self._suppliers]
            payload = dict(zip(self._names, values, strict=True)).get(self._payload_name)
            key = self._read_key(self._read_headers(message), payload)
        except Exception as error:
            raise self._not_invoked(error, message) from error.__cause__ or error
        if self.is_coroutine:
            return self._claim_and_call(key, values)
        assert self._plain is not None
        self._check(key, self._plain.claim(key, values))
        return self._call_with(values)

    async def _claim_and_call(self, key: str, values: Sequence[object]) -> Any:
        self._check(key, await self.store.claim(key, values))
        return await self._call_with(values)

    def _check(self, key: str, claim: stores.Claim) -> None:
        if claim is stores.Claim.DUPLICATE:
            self.mark.duplicates += 1
            raise Skip(f"its key {key!r} has been handled before")
        if claim is stores.Claim.BUSY:
            raise _KeyIsBusyError(f"another consumer handles the key {key!r}")
        claimed = _claimed.get()
        if claimed is not None:
            claimed.append(key)

    def _supplier(self, parameter: HandlerParameter, payload: HandlerParameter | None) -> Any:
        if payload is not None:
            self._payload_name = payload.name
        return super()._supplier(parameter, payload)


class IdempotentAdapter(HandlerAdapter):
    """A listener, `async (message, session)`, that calls the handler of an IdempotentPlan."""

    async def _call_and_reply(self, message: Message, session: Session) -> Any:
        assert isinstance(self._plan, IdempotentPlan)
        store = self._plan.store
        keys: list[str] = []
        token = _claimed.set(keys)
        try:
            result = await self._call_when_key_is_free(message, session)
            for key in keys:
                await self._complete(store, key, session)
        except BaseException:
            with anyio.CancelScope(shield=True):
                for key in keys:
                    await store.release(key)
            raise
        finally:
            _claimed.reset(token)
        return result

    async def _call_when_key_is_free(self, message: Message, session: Session) -> Any:
        """Wait while another consumer has the key, then call the handler.

        Redeliveries would be counted: the message could become a dead letter before the other
        consumer has finished.
        """
        while True:
            try:
                return await super()._call_and_reply(message, session)
            except _KeyIsBusyError as busy:
                logger.debug("Listener %s waits: %s", self.listener_id, busy)
                await _clock.sleep(_BUSY_DELAY)

    async def _complete(
        self, store: stores.AsyncIdempotencyStore, key: str, session: Session
    ) -> None:
        if store.after_commit and session.transacted:
            try:
                session.add_synchronization(_EndOfClaim(store, key))
            except UnsupportedOperationException as error:
                logger.debug("Key %r is remembered before the commit: %s", key, error)
            else:
                return
        await store.complete(key)


class _EndOfClaim(Synchronization):
    """Ends a claim with the transaction of its message."""

    def __init__(self, store: stores.AsyncIdempotencyStore, key: str) -> None:
        self._store = store
        self._key = key

    async def after_commit(self) -> None:
        await self._store.complete(self._key)

    async def after_rollback(self) -> None:
        await self._store.release(self._key)
