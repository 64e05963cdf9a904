"""The `Resource` providers of an application's container, opened and closed by the application.

    not injected with Closing[...]   opened when the application starts, closed when it has stopped
    injected with Closing[...]       opened for each message, before the handler is called, and
                                     closed when the message's transaction has ended

What a resource of messages needs itself, such as the pool of a session, belongs to the application,
unless it is injected with Closing[...] somewhere, too.

Theory of operation
-------------------

dependency-injector itself opens an asynchronous resource with futures of asyncio, which a plain
function cannot await and trio does not have, and keeps one value for all messages. So the
application opens each resource by its function, and overrides the provider: with the value, or for
a resource of messages with a function that returns the value of the message that is being handled
(`_values`, a context variable, which threads of handlers inherit). Every provider that needs the
resource, such as a `Factory(Repository, session)`, thus gets it without knowing any of this.

A resource is closed as its kind requires: a generator is continued, a context manager is left, a
`Resource` of dependency-injector is shut down. If the message is rolled back, the exception is
raised at the generator's `yield`, and passed to `__exit__`. A transacted session says what became
of the message; without a transaction the end of the handler decides, as the message is acknowledged
then. A handler's exception closes at once: nothing else than a rollback can follow.

For a `def` handler, its resources of messages are opened and closed in its thread, unless they are
asynchronous.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any, Final

import anyio
from dependency_injector import providers
from dependency_injector import wiring as injection

from pyjms.errors import (
    ConfigurationException,
    Skip,
    TransactionRolledBackException,
    UnsupportedOperationException,
)
from pyjms.jms.api import Session, Synchronization
from pyjms.jms.message import Message
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.template.workers import Worker, current_worker

logger: Final = get_logger(__name__)

CLOSING: Final[Any] = vars(injection)["Closing"]
"""The marker of an object that is closed after the message."""

_RESOURCE: Final[type] = vars(providers)["BaseResource"]

_values: ContextVar[dict[Any, object] | None] = ContextVar("pyjms_message_resources", default=None)
"""The values of the resources that are open for the message that is being handled."""

_CLOSE_TIMEOUT: Final = 5.0
"""Seconds that the resources of a failed message may take to close."""


class _OpenResources:
    """Resources that were opened, and how they are closed: the last one first."""

    def __init__(self) -> None:
        self._exits: list[tuple[str, Callable[..., Awaitable[Any]]]] = []

    async def _run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function that may block."""
        return function(*args)

    async def open(self, resource: Any, name: str) -> object:
        """Open a resource and return its value."""
        make = providers.Factory(resource.provides, *resource.args, **resource.kwargs)
        made: Any = await self._run(make)
        if inspect.isawaitable(made):
            made = await made
        # dependency-injector has made context managers of generators
        if hasattr(made, "__enter__") and hasattr(made, "__exit__"):
            value = await self._run(made.__enter__)
            self._exits.append((name, lambda *how: self._run(made.__exit__, *how)))
        elif hasattr(made, "__aenter__") and hasattr(made, "__aexit__"):
            value = await made.__aenter__()
            self._exits.append((name, made.__aexit__))
        else:
            value = made
        return value

    async def close(self, error: BaseException | None = None, outcome: str = "") -> None:
        """Close all; failures are logged with `outcome`, what became of the message.

        Resources are told of `error`, and may raise it again.
        """
        how = (None, None, None) if error is None else (type(error), error, error.__traceback__)
        while self._exits:
            name, leave = self._exits.pop()
            try:
                await leave(*how)
            except Exception as failure:
                if failure is not error:
                    logger.exception("Resource %s could not be closed%s", name, outcome)


class ApplicationResources:
    """The resources of one application's container."""

    def __init__(self, container: Any) -> None:
        self._container = container
        self._of_messages: dict[Any, None] = {}
        self._open = _OpenResources()
        self._overridden: list[Any] = []

    def scope_of(
        self, injected: Iterable[tuple[Any, bool]], *, in_thread: bool
    ) -> MessageResources | None:
        """Return what opens a handler's resources for each message; None: it needs none.

        `injected` are the providers of its parameters, and whether the marker is `Closing[...]`.
        """
        pairs = list(injected)
        closed = self._find_needed(
            (provider for provider, is_closed in pairs if is_closed), only_nearest=True
        )
        self._of_messages |= dict.fromkeys(closed)
        needed = self._find_needed(provider for provider, _ in pairs)
        return MessageResources(self, needed, in_thread=in_thread) if needed else None

    def of_messages(self, needed: Iterable[Any]) -> list[tuple[Any, str]]:
        """Return those of `needed` that are opened for each message, with their names."""
        names = self._names()
        return [(each, names[each]) for each in needed if each in self._of_messages]

    async def open(self) -> None:
        """Open the resources of the application, as it starts. A second call does nothing."""
        if self._overridden:
            return
        names = self._names()
        for resource, name in names.items():
            if resource in self._of_messages:
                self._override(resource, providers.Callable(_reader(resource, name)))
        for resource, name in names.items():
            if resource in self._of_messages or not isinstance(resource, providers.Resource):
                continue  # a ContextLocalResource belongs to whoever asks for it
            try:
                if resource.initialized:  # by the program, which also shuts it down
                    value = resource()
                    value = await value if inspect.isawaitable(value) else value
                else:
                    value = await self._open.open(resource, name)
            except Exception as error:
                error.add_note(f"It was raised by the resource {name} of the container.")
                raise
            self._override(resource, providers.Object(value))

    def _override(self, resource: Any, other: Any) -> None:
        resource.override(other)
        self._overridden.append(resource)

    async def close(self, seconds: float) -> None:
        """Close them, as the application has stopped, within `seconds`; failures are logged."""
        with _clock.timeout(seconds) as deadline:
            await self._open.close()
        if deadline.cancelled_caught:
            logger.warning("Resources did not close within %g s", seconds)
        while self._overridden:
            self._overridden.pop().reset_last_overriding()

    def _names(self) -> dict[Any, str]:
        """Return the container's resources with their names, each behind those that it needs."""
        every = _providers_of(self._container)
        named = dict(_with_names(every))
        return {
            each: named.get(each, getattr(each.provides, "__name__", ""))
            for each in self._find_needed(every.values())
        }

    def _find_needed(self, needing: Iterable[Any], *, only_nearest: bool = False) -> list[Any]:
        """Return the resources that providers need, each behind those that it needs itself.

        With `only_nearest`, without those that only other resources need.
        What the program has overridden, as tests do, is not needed.
        """
        found: dict[Any, None] = {}
        seen: set[int] = set()

        def look(provider: Any) -> None:
            if id(provider) in seen:
                return
            seen.add(id(provider))
            if provider.overridden and provider not in self._overridden:
                look(provider.last_overriding)
                return
            is_resource = isinstance(provider, _RESOURCE)
            for each in () if is_resource and only_nearest else provider.related:
                look(each)
            if is_resource:
                found[provider] = None

        for each in needing:
            look(each)
        return list(found)


def _with_names(found: dict[str, Any], prefix: str = "") -> Iterator[tuple[Any, str]]:
    for name, provider in found.items():
        yield provider, prefix + name
        if isinstance(provider, providers.Container):
            yield from _with_names(_providers_of(provider), f"{prefix}{name}.")


def _providers_of(container: Any) -> dict[str, Any]:
    return {name: each for name, each in container.providers.items() if name != "__self__"}


def _reader(resource: Any, name: str) -> Callable[[], object]:
    def read() -> object:
        values = _values.get()
        if values is None or resource not in values:
            raise ConfigurationException(
                f"The resource {name} is opened for each message, and no message is being handled "
                "here by a handler that gets it",
                hint=f"inject it into a handler with Closing[Provide[{name!r}]]",
            )
        return values[resource]

    return read


class MessageResources:
    """Opens the resources of one handler for each message, around its call."""

    def __init__(
        self, application: ApplicationResources, needed: list[Any], *, in_thread: bool
    ) -> None:
        self._application = application
        self._needed = needed
        self._in_thread = in_thread
        self._of_messages: list[tuple[Any, str]] | None = None

    async def around(
        self, message: Message, session: Session, call: Callable[[], Awaitable[Any]]
    ) -> Any:
        """Return the result of `call()`, with the resources open."""
        if self._of_messages is None:  # known when all handlers were looked at
            self._of_messages = self._application.of_messages(self._needed)
        if not self._of_messages:
            return await call()
        scope = _Scope(message, current_worker.get() if self._in_thread else None)
        values: dict[Any, object] = {}
        token = _values.set(values)
        try:
            for resource, name in self._of_messages:
                values[resource] = await scope.open(resource, name)
            result = await call()
        except Skip:
            await scope.end_with(session)
            raise
        except BaseException as error:
            with anyio.CancelScope(shield=True), _clock.timeout(_CLOSE_TIMEOUT):
                await scope.close(error, scope.outcome_text("the handler has failed"))
            raise
        else:
            await scope.end_with(session)
        finally:
            _values.reset(token)
        return result


class _Scope(_OpenResources, Synchronization):
    """The resources of one message, which end with its transaction.

    `worker` has the thread of a `def` handler.
    """

    def __init__(self, message: Message, worker: Worker | None) -> None:
        super().__init__()
        self._message = message
        self._worker = worker

    async def _run(self, function: Callable[..., Any], *args: Any) -> Any:
        # the rollback of a lost connection may come from a task other than the consumer's
        worker = self._worker
        if worker is None or worker.busy:
            return function(*args)
        return await worker.run(function, *args)

    async def end_with(self, session: Session) -> None:
        """Close at the end of the session's transaction; at once if it has none."""
        if session.transacted:
            try:
                session.add_synchronization(self)
            except UnsupportedOperationException as error:
                logger.debug("Resources are closed before the commit: %s", error)
            else:
                return
        await self.close(outcome=self.outcome_text("the handler has ended"))

    def outcome_text(self, what: str) -> str:
        """Return what became of the message, or of the messages of a batch, for a log line."""
        received = getattr(self._message, "received", (self._message,))
        others = f" and {len(received) - 1} others" if len(received) > 1 else ""
        return f", message {received[0].message_id}{others}: {what}"

    async def after_commit(self) -> None:
        await self.close(outcome=self.outcome_text("committed already, so not redelivered"))

    async def after_rollback(self) -> None:
        await self.close(
            TransactionRolledBackException("The message's transaction was rolled back"),
            self.outcome_text("rolled back"),
        )
