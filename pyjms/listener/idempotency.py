"""Idempotent handlers: claim the key of a message, call the handler or skip it, then remember.

The key comes from a header, a format string, or a function of the payload. A field in braces is the
name of a header or property, or `payload`, followed by attributes and keys:
`{payload.customer.id}`, `{payload[number]}`; for a dict, an attribute name is a key.
"""

from __future__ import annotations

import inspect
import string
import threading
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias, TypeVar, cast

import anyio

from pyjms.errors import (
    ConfigurationException,
    MessageConversionException,
    Skip,
    UnsupportedOperationException,
)
from pyjms.jms.api import Session, Synchronization
from pyjms.jms.message import Message
from pyjms.listener.decorators import IdempotentMark
from pyjms.listener.handler import HandlerListener, HandlerParameter
from pyjms.runtime import clock as _clock
from pyjms.runtime.distribution import entry_points
from pyjms.runtime.logging import get_logger
from pyjms.template.resources import call
from pyjms.template.workers import call_in_worker

logger: Final = get_logger(__name__)

T = TypeVar("T")

GROUP: Final = "pyjms.idempotency_stores"
_BUSY_DELAY: Final = 1.0
"""Seconds between the claims of a key that another consumer has."""

_claimed: ContextVar[list[str] | None] = ContextVar("pyjms_claimed", default=None)

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


KeyReader = Callable[[Mapping[str, object], object], str]
"""Returns the key of a message, of its headers and its payload."""

_PAYLOAD: Final = "payload"


def key_reader(key: str | Callable[[Any], object], handler: str) -> KeyReader:
    """Return a function that reads the key described by `@idempotent(key=...)`."""
    if callable(key):
        function = key
        return lambda _headers, payload: _text(function(payload), "its function")
    if "{" not in key:
        return lambda headers, _payload: _text(_header(headers, key), key)
    try:
        parts = list(string.Formatter().parse(key))
    except ValueError as error:
        raise ConfigurationException(
            f"Handler {handler}: the key {key!r} cannot be read: {error}",
            hint='write fields as in "{jms_type}:{payload.number}"',
        ) from error
    if any(field == "" for _, field, _, _ in parts):
        raise ConfigurationException(
            f"Handler {handler}: the key {key!r} has a field without a name",
            hint='write fields as in "{jms_type}:{payload.number}"',
        )

    def read(headers: Mapping[str, object], payload: object) -> str:
        found = []
        for literal, field, _spec, _conversion in parts:
            found.append(literal)
            if field is not None:
                found.append(_text(_value(field, headers, payload), field))
        return "".join(found)

    return read


def _value(field: str, headers: Mapping[str, object], payload: object) -> object:
    names = field.replace("]", "").replace("[", ".").split(".")
    value: object = payload if names[0] == _PAYLOAD else _header(headers, names[0])
    for name in filter(None, names[1:]):
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return value


def _header(headers: Mapping[str, object], name: str) -> object:
    """Return a header or property; not the `id` that each reading of a message makes anew."""
    value = headers.get(name)
    return None if isinstance(value, uuid.UUID) else value


def _text(value: object, source: str) -> str:
    if value is None or value == "":
        raise MessageConversionException(
            f"The message has no idempotency key: {source} is missing (a field of the payload is "
            f'written "{{payload.{source}}}")',
            target=str,
        )
    return str(value)


def store_of(mark: IdempotentMark) -> EitherIdempotencyStore:
    """Return the store of a mark; a store that is named, and the default, is created once."""
    if mark.store is None:
        mark.store = MemoryIdempotencyStore()
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
            hint="see pyjms.listener.idempotency.IdempotencyStore",
        )
    return cast(EitherIdempotencyStore, mark.store)


class _KeyIsBusyError(Exception):
    """Another consumer is handling a message with the same key."""


class IdempotentHandlerListener(HandlerListener):
    """A listener that calls an idempotent handler with messages whose keys are new.

    `call` claims the key, in the handler's thread or on the loop, because the arguments are known
    only there. `_call_and_reply` completes or releases the claim, on the loop: if the store
    requires it after the commit, by a synchronization of the session's transaction. `_claimed`
    passes the key from the former to the latter.

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
        self._store = store_of(mark)
        if inspect.iscoroutinefunction(self._store.claim) and not self.is_coroutine:
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
            arguments = dict(zip(self._names, values, strict=True))
            # of a handler whose parameters are fields, these are the payload
            payload = arguments.get(self._payload_name, arguments if self._fields else None)
            key = self._read_key(self._read_headers(message), payload)
        except Exception as error:
            raise self._not_invoked(error, message) from error.__cause__ or error
        if self.is_coroutine:
            return self._claim_and_call(key, values)
        self._check(key, cast(IdempotencyStore, self._store).claim(key, values))
        return self._call_with(values)

    async def _claim_and_call(self, key: str, values: Sequence[object]) -> Any:
        self._check(key, await _ask(self._store, self._store.claim, key, values))
        return await self._call_with(values)

    def _check(self, key: str, claim: Claim) -> None:
        if claim is Claim.DUPLICATE:
            self.mark.duplicates += 1
            raise Skip(f"its key {key!r} has been handled before")
        if claim is Claim.BUSY:
            raise _KeyIsBusyError(f"another consumer handles the key {key!r}")
        claimed = _claimed.get()
        if claimed is not None:
            claimed.append(key)

    def _supplier(self, parameter: HandlerParameter, payload: HandlerParameter | None) -> Any:
        if payload is not None:
            self._payload_name = payload.name
        return super()._supplier(parameter, payload)

    async def _call_and_reply(self, message: Message, session: Session) -> Any:
        keys: list[str] = []
        token = _claimed.set(keys)
        try:
            result = await self._call_when_key_is_free(message, session)
            for key in keys:
                await self._complete(key, session)
        except BaseException:
            with anyio.CancelScope(shield=True):
                for key in keys:
                    await _ask(self._store, self._store.release, key)
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

    async def _complete(self, key: str, session: Session) -> None:
        if self._store.after_commit and session.transacted:
            try:
                session.add_synchronization(_EndOfClaim(self._store, key))
            except UnsupportedOperationException as error:
                logger.debug("Key %r is remembered before the commit: %s", key, error)
            else:
                return
        await _ask(self._store, self._store.complete, key)


class _EndOfClaim(Synchronization):
    """Ends a claim with the transaction of its message."""

    def __init__(self, store: EitherIdempotencyStore, key: str) -> None:
        self._store = store
        self._key = key

    async def after_commit(self) -> None:
        await _ask(self._store, self._store.complete, self._key)

    async def after_rollback(self) -> None:
        await _ask(self._store, self._store.release, self._key)


async def _ask(
    store: EitherIdempotencyStore, method: Callable[..., Awaitable[T] | T], *args: object
) -> T:
    """Call a method of a store on the loop, or in the consumer's thread if it blocks."""
    if not inspect.iscoroutinefunction(store.claim) and cast(IdempotencyStore, store).blocks:
        return cast("T", await call_in_worker(method, *args))
    return await call(method, *args)
