"""The connection and session bound to the current task, by connection factory; and closing them.

A listener container binds the session of the message that it delivers, a transaction manager the
session of its transaction; a template with the same factory object uses that session instead of
opening one. A factory that only shares or caches the connections of another factory
(`target_connection_factory`) counts as the same. Bindings are context variables: a task that is
started within a binding inherits it, and must not use the session at the same time. (spring-jms
1.9, 4.1, 7.1)
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Context, ContextVar, Token
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import anyio

from pyjms.errors import TransactionRolledBackException
from pyjms.jms.api import Closeable, Connection, ConnectionFactory, Session
from pyjms.runtime import clock as _clock
from pyjms.runtime.fork import call_in_child
from pyjms.runtime.logging import get_logger

if TYPE_CHECKING:
    from pyjms.template.synchronization import Synchronizations

logger: Final = get_logger(__name__)


class BoundResource:
    """A connection and a session that were opened by another component, which closes them.

    `transactional`: that component also commits; `rollback_only` requests a rollback instead.
    `deadline` is in seconds of `_clock.now()`; None: there is no deadline.
    """

    __slots__ = (
        "connection", "deadline", "joined", "rollback_only", "session", "transactional",
    )  # fmt: skip

    def __init__(
        self,
        connection: Connection,
        session: Session,
        transactional: bool = False,
        *,
        deadline: float | None = None,
    ) -> None:
        self.connection: Connection = connection
        self.session: Session = session
        self.transactional: bool = transactional
        self.deadline: float | None = deadline
        self.rollback_only: bool = False
        self.joined: dict[ConnectionFactory, BoundResource] = {}
        """Sessions of other factories that are committed or rolled back together with this one."""

    @property
    def is_transaction(self) -> bool:
        """Whether a transaction manager or a transacted container will commit the session."""
        return self.transactional or self.session.transacted

    def remaining(self) -> float | None:
        """Return the seconds until the deadline; None: there is no deadline.

        Raises:
            TransactionRolledBackException: it has passed; the transaction can only be rolled back.
        """
        if self.deadline is None:
            return None
        left = self.deadline - _clock.now()
        if left <= 0:
            self.rollback_only = True
            raise TransactionRolledBackException(
                "Transaction timed out", hint="it will be rolled back; use a longer timeout"
            )
        return left


_Bindings = dict[int, tuple[ConnectionFactory, BoundResource | None]]

_EMPTY: _Bindings = {}
_synchronizations: ContextVar[Synchronizations | None] = ContextVar(
    "pyjms_synchronizations", default=None
)
_bindings: ContextVar[_Bindings] = ContextVar("pyjms_bound_resources", default=_EMPTY)
_NONE_BEGUN: Mapping[int, object] = {}
_statuses: ContextVar[Mapping[int, object]] = ContextVar(
    "pyjms_transaction_statuses", default=_NONE_BEGUN
)


@call_in_child
def _forget_sessions_of_listeners() -> None:
    """Remove the bindings of listeners in a forked child process: templates open connections.

    A transaction stays bound, so that sends within its block are refused in the child process.
    """
    kept = {
        key: (factory, resource)
        for key, (factory, resource) in _bindings.get().items()
        if resource is None or resource.transactional
    }
    _bindings.set(kept)


def bound_resource(factory: ConnectionFactory) -> BoundResource | None:
    """Return the resource that is bound to this factory object, or to the factory it wraps."""
    bindings, current = _bindings.get(), _synchronizations.get()
    if not bindings and current is None:
        return None
    inner: ConnectionFactory | None = factory
    while inner is not None:
        found = bindings.get(id(inner))
        if found is not None:
            return found[1]
        session = None if current is None else current.session_of(inner)
        if session is not None:
            return session
        inner = getattr(inner, "target_connection_factory", None)
    return None


def provider_factory(factory: object) -> Any:
    """Return the factory behind all wrappers, also those that add credentials."""
    while (inner := getattr(factory, "target_connection_factory", None)) is not None or (
        inner := getattr(factory, "target", None)
    ) is not None:
        factory = inner
    return factory


def innermost_factory(factory: ConnectionFactory) -> ConnectionFactory:
    """Return the factory inside those that share, pool or cache what it creates."""
    while (inner := getattr(factory, "target_connection_factory", None)) is not None:
        factory = inner
    return factory


def active_transaction() -> BoundResource | None:
    """Return the current task's innermost managed transaction, of any factory."""
    for _, resource in reversed(_bindings.get().values()):
        if resource is not None and resource.transactional:
            return resource
    return None


class bind:  # noqa: N801 - used as a function: `with bind(factory, resource):`
    """Bind `resource` to `factory` within a block; an inner binding hides an outer one."""

    __slots__ = ("_factory", "_resource", "_token")

    def __init__(self, factory: ConnectionFactory, resource: BoundResource | None) -> None:
        self._factory = factory
        self._resource = resource
        self._token: Token[_Bindings] | None = None

    def __enter__(self) -> BoundResource | None:
        bindings = dict(_bindings.get())
        bindings[id(self._factory)] = (self._factory, self._resource)
        self._token = _bindings.set(bindings)
        return self._resource

    def __exit__(self, *error: object) -> None:
        assert self._token is not None
        _bindings.reset(self._token)


@contextmanager
def bindings_of(context: Context) -> Iterator[None]:
    """Use the bindings of another context within a block."""
    token = _bindings.set(context.get(_bindings, _EMPTY))  # absent if nothing was ever bound
    synchronized = _synchronizations.set(context.get(_synchronizations))
    statuses = _statuses.set(context.get(_statuses, _NONE_BEGUN))
    try:
        yield
    finally:
        _statuses.reset(statuses)
        _synchronizations.reset(synchronized)
        _bindings.reset(token)


def current_synchronizations() -> Synchronizations | None:
    """Return the synchronizations of the current task's transaction, or None."""
    return _synchronizations.get()


@contextmanager
def use_synchronizations(holder: Synchronizations) -> Iterator[Synchronizations]:
    """Set `holder` as the synchronizations of the transaction within a block."""
    token = _synchronizations.set(holder)
    try:
        yield holder
    finally:
        _synchronizations.reset(token)


def status_of(manager: object) -> object | None:
    """Return the status of the transaction that `manager` has begun for the current task."""
    return _statuses.get().get(id(manager))


@contextmanager
def use_status(manager: object, status: object) -> Iterator[None]:
    """Set the `status` of the transaction of `manager` within a block."""
    token = _statuses.set({**_statuses.get(), id(manager): status})
    try:
        yield
    finally:
        _statuses.reset(token)


# --- Closing of resources on every path, without hiding the exception of a block.

_R = TypeVar("_R", bound=Closeable)
_T = TypeVar("_T")


class using(Generic[_R]):  # noqa: N801 - named like contextlib.closing
    """Close a resource at the end of an `async with` block.

    If the block fails or is cancelled, its exception propagates; closing then runs shielded from
    cancellation, and an error while closing is only logged at DEBUG.
    """

    def __init__(self, resource: _R) -> None:
        self._resource = resource

    async def __aenter__(self) -> _R:
        return self._resource

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            await self._resource.close()
        else:
            await close_quietly(self._resource)


async def close_quietly(*resources: Closeable | None) -> None:
    """Close resources in this order, even while cancelled; errors are logged at DEBUG.

    None stands for a resource that was never opened.
    """
    for resource in resources:
        if resource is not None:
            await quietly(resource.close, f"close {resource!r}")


async def close_all_quietly(opened: Sequence[Closeable]) -> None:
    """Close what was opened, the last first, as `close_quietly` does."""
    await close_quietly(*reversed(opened))


async def quietly(action: Callable[[], Awaitable[object]], description: str) -> None:
    """Await `action()`, even while cancelled; an error is logged at DEBUG with `description`."""
    with anyio.CancelScope(shield=True):
        try:
            await action()
        except Exception as error:
            logger.debug("Could not %s: %s", description, error)


async def call(function: Callable[..., Awaitable[_T] | _T], *args: object) -> _T:
    """Call a function or coroutine function and return its result."""
    result = function(*args)
    if inspect.isawaitable(result):
        return await result
    return result
