"""The blocking JmsTemplate.

Message creators and post processors run on the loop: they build messages and must not
block. Callbacks that are given a session run in the caller's thread, with blocking objects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, Unpack

from pyjms.core import resources
from pyjms.core.settings import TemplateOptions
from pyjms.core.template import JmsTemplate as CoreTemplate
from pyjms.errors import DestinationResolutionException
from pyjms.jms.destination import Destination, Queue
from pyjms.sync.connection import Connection
from pyjms.sync.facade import Facade, blocking, core_of
from pyjms.sync.portal import call_on_loop, current_loop
from pyjms.sync.session import MessageProducer, QueueBrowser, Session

__all__ = ["JmsTemplate"]

R = TypeVar("R")


class JmsTemplate(Facade[CoreTemplate]):
    """Sends and receives; each call blocks. Takes the options of `pyjms.aio.JmsTemplate`.

    Share it freely among threads once it is set up. In a handler's thread it works on the
    application's own loop, and within the handler's transaction.
    """

    def __init__(self, connection_factory: Any, **options: Unpack[TemplateOptions]) -> None:
        self.core = CoreTemplate(core_of(connection_factory), **options)
        self._loop = getattr(connection_factory, "_loop", None) or current_loop()

    send = blocking(CoreTemplate.send)
    convert_and_send = blocking(CoreTemplate.convert_and_send)
    receive = blocking(CoreTemplate.receive)
    receive_selected = blocking(CoreTemplate.receive_selected)
    receive_and_convert = blocking(CoreTemplate.receive_and_convert)
    receive_selected_and_convert = blocking(CoreTemplate.receive_selected_and_convert)
    send_and_receive = blocking(CoreTemplate.send_and_receive)

    def execute(self, action: Callable[[Session], R], *, start_connection: bool = False) -> R:
        """Return what `action(session)` returns, called in this thread.

        In a transaction or a handler the session is the one bound there, else a new one.
        """
        core = self.core
        resource = resources.bound(core.connection_factory)
        if resource is not None:
            if start_connection:
                call_on_loop(self._loop, resource.connection.start)
            return action(Session.of(resource.session, self._loop))
        opened = call_on_loop(self._loop, core.connection_factory.create_connection)
        with (
            Connection.of(opened, self._loop) as connection,
            connection.create_session(
                core.session_transacted, core.session_acknowledge_mode
            ) as session,
        ):
            if start_connection:
                connection.start()
            return action(session)

    def execute_producer(
        self,
        destination: Destination | str | None,
        action: Callable[[Session, MessageProducer], R],
    ) -> R:
        """Return what `action(session, producer)` returns, called in this thread."""

        def run(session: Session) -> R:
            target = self.core.resolve_or_none(session.core, destination)
            with session.create_producer(target) as producer:
                return action(session, producer)

        return self.execute(run)

    def browse(
        self,
        destination: Destination | str | None,
        action: Callable[[Session, QueueBrowser], R],
    ) -> R:
        """Return what `action(session, browser)` returns; the messages stay in the queue."""
        return self.browse_selected(destination, None, action)

    def browse_selected(
        self,
        destination: Destination | str | None,
        selector: str | None,
        action: Callable[[Session, QueueBrowser], R],
    ) -> R:
        """Browse the messages that `selector` matches.

        Raises:
            DestinationResolutionException: the destination is no queue.

        """

        def run(session: Session) -> R:
            queue = self.core.resolve_or_none(session.core, destination)
            if not isinstance(queue, Queue):
                raise DestinationResolutionException(
                    f"Destination {queue or destination} is not a queue",
                    hint="only queues can be browsed",
                )
            with session.create_browser(queue, selector) as browser:
                return action(session, browser)

        return self.execute(run, start_connection=True)
