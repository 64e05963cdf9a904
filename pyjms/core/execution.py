"""The template operations that take a callback, and the resources that all operations use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from pyjms.core import resources
from pyjms.core.closing import call, close_quietly, using
from pyjms.core.settings import TemplateSettings
from pyjms.enums import AcknowledgeMode
from pyjms.errors import DestinationResolutionException, IllegalStateException
from pyjms.jms.api import Connection, MessageProducer, QueueBrowser, Session
from pyjms.jms.destination import AnyDestination, Destination, Queue

__all__ = [
    "BrowserCallback",
    "OperationSession",
    "ProducerCallback",
    "SessionCallback",
    "TemplateExecution",
]

_T = TypeVar("_T")

SessionCallback = Callable[[Session], Awaitable[_T] | _T]
"""A function or coroutine function of a session."""

ProducerCallback = Callable[[Session, MessageProducer], Awaitable[_T] | _T]
"""A function or coroutine function of a session and a producer."""

BrowserCallback = Callable[[Session, QueueBrowser], Awaitable[_T] | _T]
"""A function or coroutine function of a session and a browser."""


class OperationSession:
    """The session of one operation of a template, in an `async with` block.

    It is the session that is bound to the current task. Without one it is a new session on a new
    connection; both are closed at the end of the block as by `using`, or, within the transaction
    of another resource, at its end. `is_separate`: always a new session, outside transactions.
    """

    __slots__ = ("_is_separate", "_opened", "_start", "_template")

    def __init__(
        self, template: TemplateSettings, *, start_connection: bool, is_separate: bool = False
    ) -> None:
        self._template = template
        self._start = start_connection
        self._is_separate = is_separate
        self._opened: tuple[Connection, Session] | None = None

    async def __aenter__(self) -> Session:
        template = self._template
        factory = template.connection_factory
        transacted, mode = False, AcknowledgeMode.AUTO
        if not self._is_separate:
            transacted, mode = template.session_transacted, template.session_acknowledge_mode
            resource = resources.bound(factory)
            if resource is None and (transaction := resources.synchronizations()) is not None:
                resource = await transaction.open_session(factory, transacted, mode)
            if resource is not None:
                if self._start:
                    await resource.connection.start()
                return resource.session
        connection, session = await factory.create_connection(), None
        try:
            session = await connection.create_session(transacted, mode)
            if self._start:
                await connection.start()
        except BaseException:
            await close_quietly(session, connection)
            raise
        self._opened = connection, session
        return session

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._opened is None:
            return
        connection, session = self._opened
        if error is not None:
            await close_quietly(session, connection)
            return
        async with using(connection):
            await session.close()


class TemplateExecution(TemplateSettings):
    """Runs functions on a session: the one bound to the current task, or one for the call."""

    async def execute(self, action: SessionCallback[_T], *, start_connection: bool = False) -> _T:
        """Return the result of `action(session)`.

        Within a transaction or a listener, the session bound there is used, otherwise a new one.

        Args:
            action: a function or coroutine function of a session.
            start_connection: start the connection first, for actions that receive.

        Raises:
            JMSException: a connection or session could not be opened.
        """
        async with self._session(start_connection=start_connection) as session:
            return await call(action, session)

    async def execute_producer(
        self, destination: AnyDestination, action: ProducerCallback[_T]
    ) -> _T:
        """Return the result of `action(session, producer)`.

        Without a destination and a default destination, the producer has no destination.
        """
        async with self._session() as session:
            target = self.resolve_or_none(session, destination)
            async with using(await self._create_producer(session, target)) as producer:
                return await call(action, session, producer)

    async def browse(self, destination: AnyDestination, action: BrowserCallback[_T]) -> _T:
        """Return the result of `action(session, browser)`; see `browse_selected`."""
        return await self.browse_selected(destination, None, action)

    async def browse_selected(
        self, destination: AnyDestination, selector: str | None, action: BrowserCallback[_T]
    ) -> _T:
        """Return the result of `action(session, browser)` for the messages that match `selector`.

        The messages stay in the queue.

        Raises:
            IllegalStateException: the default destination is not a queue.
            DestinationResolutionException: the given destination is not a queue.
            InvalidSelectorException: the selector is malformed.
        """
        async with self._session(start_connection=True) as session:
            queue = self.resolve(session, destination)
            if not isinstance(queue, Queue):
                raise _not_a_queue(destination)
            async with using(await session.create_browser(queue, selector)) as browser:
                return await call(action, session, browser)

    def _session(self, *, start_connection: bool = False) -> OperationSession:
        return OperationSession(self, start_connection=start_connection)

    async def _create_producer(
        self, session: Session, destination: Destination | None
    ) -> MessageProducer:
        producer = await session.create_producer(destination)
        if not self.message_id_enabled:
            producer.disable_message_id = True
        if not self.message_timestamp_enabled:
            producer.disable_message_timestamp = True
        return producer


def _not_a_queue(destination: AnyDestination) -> Exception:
    if destination is None:
        return IllegalStateException(
            "The default destination does not correspond to a queue",
            hint="only queues can be browsed",
        )
    return DestinationResolutionException(
        f"Destination {destination} is not a queue", hint="only queues can be browsed"
    )
