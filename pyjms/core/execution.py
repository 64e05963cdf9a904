"""The operations of a template that call back, and the connections and sessions of all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from pyjms.core import resources
from pyjms.core.closing import call, using
from pyjms.core.operations import browse_with
from pyjms.core.settings import TemplateSettings
from pyjms.enums import AcknowledgeMode
from pyjms.errors import DestinationResolutionException, IllegalStateException
from pyjms.jms.api import MessageProducer, QueueBrowser, Session
from pyjms.jms.destination import Destination, Queue

__all__ = ["BrowserCallback", "ProducerCallback", "SessionCallback", "TemplateExecution"]

_T = TypeVar("_T")

SessionCallback = Callable[[Session], Awaitable[_T] | _T]
"""A function or coroutine function of a session."""

ProducerCallback = Callable[[Session, MessageProducer], Awaitable[_T] | _T]
"""A function or coroutine function of a session and a producer."""

BrowserCallback = Callable[[Session, QueueBrowser], Awaitable[_T] | _T]
"""A function or coroutine function of a session and a browser."""


class TemplateExecution(TemplateSettings):
    """Runs functions on a session: the one bound to the current task, or one for the call."""

    async def execute(self, action: SessionCallback[_T], *, start_connection: bool = False) -> _T:
        """Return the result of `action(session)`.

        Within a transaction or a listener it is the session bound there, otherwise a new one.

        Args:
            action: a function or coroutine function of a session.
            start_connection: start the connection first, for actions that receive.

        Raises:
            JMSException: a connection or session could not be opened.
        """

        async def run(session: Session) -> _T:
            return await call(action, session)

        return await self._execute(run, start_connection=start_connection)

    async def execute_producer(
        self, destination: Destination | str | None, action: ProducerCallback[_T]
    ) -> _T:
        """Return the result of `action(session, producer)`.

        Without a destination and a default the producer is unbound.
        """

        async def run(session: Session) -> _T:
            target = self.resolve_or_none(session, destination)
            async with using(await self._create_producer(session, target)) as producer:
                return await call(action, session, producer)

        return await self._execute(run)

    async def browse(
        self, destination: Destination | str | None, action: BrowserCallback[_T]
    ) -> _T:
        """Return the result of `action(session, browser)`; see `browse_selected`."""
        return await self.browse_selected(destination, None, action)

    async def browse_selected(
        self,
        destination: Destination | str | None,
        selector: str | None,
        action: BrowserCallback[_T],
    ) -> _T:
        """Return the result of `action(session, browser)` for the messages that match `selector`.

        The messages stay in the queue.

        Raises:
            IllegalStateException: the default destination is not a queue.
            DestinationResolutionException: the given destination is not a queue.
            InvalidSelectorException: the selector is malformed.
        """

        async def run(session: Session) -> _T:
            queue = self.resolve(session, destination)
            if not isinstance(queue, Queue):
                raise _not_a_queue(destination)
            return await browse_with(session, queue, selector, action)

        return await self._execute(run, start_connection=True)

    async def _execute(
        self, action: Callable[[Session], Awaitable[_T]], *, start_connection: bool = False
    ) -> _T:
        resource = resources.bound(self.connection_factory)
        if resource is None:
            return await self._execute_on_new(
                action,
                start_connection=start_connection,
                transacted=self.session_transacted,
                mode=self.session_acknowledge_mode,
            )
        if start_connection:
            await resource.connection.start()
        return await action(resource.session)

    async def _execute_on_new(
        self,
        action: Callable[[Session], Awaitable[_T]],
        *,
        start_connection: bool,
        transacted: bool,
        mode: AcknowledgeMode,
    ) -> _T:
        async with (
            using(await self.connection_factory.create_connection()) as connection,
            using(await connection.create_session(transacted, mode)) as session,
        ):
            if start_connection:
                await connection.start()
            return await action(session)

    async def _create_producer(
        self, session: Session, destination: Destination | None
    ) -> MessageProducer:
        producer = await session.create_producer(destination)
        if not self.message_id_enabled:
            producer.disable_message_id = True
        if not self.message_timestamp_enabled:
            producer.disable_message_timestamp = True
        return producer


def _not_a_queue(destination: Destination | str | None) -> Exception:
    if destination is None:
        return IllegalStateException(
            "The default destination does not correspond to a queue",
            hint="only queues can be browsed",
        )
    return DestinationResolutionException(
        f"Destination {destination} is not a queue", hint="only queues can be browsed"
    )
