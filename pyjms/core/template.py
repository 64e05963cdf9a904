"""JmsTemplate: sending and receiving without handling connections and sessions.

Each operation opens a connection and a session and closes them again, unless a session
is bound to the same factory object (`pyjms.core.resources`): in a listener, or in a
transaction. Wrap the factory in a CachingConnectionFactory to keep them. (spring-jms 4)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pyjms.core import resources
from pyjms.core.closing import call, using
from pyjms.core.operations import (
    browse_with,
    receive_from,
    reply_from_response_queue,
    reply_from_temporary_queue,
    send_with,
)
from pyjms.core.settings import TemplateSettings
from pyjms.enums import AcknowledgeMode
from pyjms.errors import DestinationResolutionException, IllegalStateException
from pyjms.jms.api import Connection, MessageProducer, QueueBrowser, Session
from pyjms.jms.destination import Destination, Queue
from pyjms.jms.message import Message

__all__ = [
    "BrowserCallback",
    "JmsTemplate",
    "MessageCreator",
    "MessagePostProcessor",
    "ProducerCallback",
    "SessionCallback",
]

_T = TypeVar("_T")

SessionCallback = Callable[[Session], Awaitable[_T] | _T]
"""A function or coroutine function of a session."""

ProducerCallback = Callable[[Session, MessageProducer], Awaitable[_T] | _T]
"""A function or coroutine function of a session and a producer."""

BrowserCallback = Callable[[Session, QueueBrowser], Awaitable[_T] | _T]
"""A function or coroutine function of a session and a browser."""

MessageCreator = Callable[[Session], Awaitable[Message] | Message]
"""Makes the message to send."""

MessagePostProcessor = Callable[[Message], Awaitable[Message] | Message]
"""Gets the converted message; what it returns is sent."""


class JmsTemplate(TemplateSettings):
    """Sends and receives, with the settings it has; share it freely once it is set up.

    Every operation takes its destination first: an object, a name, or None for the default.
    Callbacks may be functions or coroutine functions. JMS's exceptions come out as they are.
    """

    async def execute(self, action: SessionCallback[_T], *, start_connection: bool = False) -> _T:
        """Return what `action(session)` returns.

        `start_connection` is for actions that receive.
        """

        async def run(session: Session) -> _T:
            return await call(action, session)

        return await self._execute(run, start_connection=start_connection)

    async def execute_producer(
        self, destination: Destination | str | None, action: ProducerCallback[_T]
    ) -> _T:
        """Return what `action(session, producer)` returns.

        Without a destination and a default the producer is unbound.
        """

        async def run(session: Session) -> _T:
            target = self.resolve_or_none(session, destination)
            producer = await self._create_producer(session, target)
            return await using(producer, lambda p: call(action, session, p))

        return await self._execute(run)

    async def send(self, destination: Destination | str | None, creator: MessageCreator) -> None:
        """Send the message that `creator(session)` makes.

        Headers that a send sets (priority, delivery mode, expiration ...) are overwritten;
        reply_to, correlation_id, type and properties are kept.

        Raises:
            IllegalStateException: there is neither a destination nor a default.
            TypeError: it cannot be called; `convert_and_send` takes a payload.
        """
        _check_creator(creator)

        async def run(session: Session) -> None:
            target = self.resolve(session, destination)
            message = _message(await call(creator, session), "The message creator")
            await self._send(session, target, message)

        await self._execute(run)

    async def convert_and_send(
        self,
        destination: Destination | str | None,
        payload: object,
        *,
        post_processor: MessagePostProcessor | None = None,
    ) -> None:
        """Convert `payload`, pass the message through `post_processor`, send what it returns.

        A message as payload is sent as it is.

        Raises:
            MessageConversionException: no message can be made of the payload.
            IllegalStateException: there is neither a destination nor a default.
        """

        async def create(session: Session) -> Message:
            message = self.message_converter.to_message(payload, session)
            if post_processor is None:
                return message
            return _message(await call(post_processor, message), "The post processor")

        await self.send(destination, create)

    async def receive(self, destination: Destination | str | None = None) -> Message | None:
        """Wait `receive_timeout` for a message and return it, or None."""
        return await self.receive_selected(destination, None)

    async def receive_selected(
        self, destination: Destination | str | None, selector: str | None
    ) -> Message | None:
        """Wait `receive_timeout` for a message that `selector` matches and return it, or None.

        It is acknowledged, or committed if the session is transacted and the template's own.

        Raises:
            InvalidSelectorException: the selector is malformed.
        """

        async def run(session: Session) -> Message | None:
            target = self.resolve(session, destination)
            resource = resources.bound(self.connection_factory)
            return await receive_from(
                session,
                target,
                selector,
                timeout=_limited(self.receive_timeout, resource),
                no_local=self.pub_sub_domain and self.pub_sub_no_local,
                commit=resource is None,
            )

        return await self._execute(run, start_connection=True)

    async def receive_and_convert(
        self,
        destination: Destination | str | None = None,
        type: Any = None,  # noqa: A002 - JMS's word
    ) -> Any:
        """Receive a message and return its payload, of `type` if one is given; None without one.

        Raises:
            MessageConversionException: the payload cannot be had, or not as `type`; the
                message is gone then, unless a transaction around this rolls back.
        """
        return self._payload(await self.receive(destination), type)

    async def receive_selected_and_convert(
        self,
        destination: Destination | str | None,
        selector: str | None,
        type: Any = None,  # noqa: A002 - JMS's word
    ) -> Any:
        """Receive a message that `selector` matches and return its payload, as above."""
        return self._payload(await self.receive_selected(destination, selector), type)

    async def send_and_receive(
        self,
        destination: Destination | str | None,
        creator: MessageCreator,
        *,
        response_queue: Destination | str | None = None,
    ) -> Message | None:
        """Send a request and wait `receive_timeout` for its reply; None if none comes.

        Runs in a session of its own, never in a transaction: the request must be visible.
        The reply comes to a temporary queue, or to `response_queue`: there the message whose
        correlation id is the request's, or else the request's message id.
        """
        _check_creator(creator)

        async def run(session: Session) -> Message | None:
            target = self.resolve(session, destination)
            request = _message(await call(creator, session), "The message creator")
            send = self._send
            if response_queue is None:
                return await reply_from_temporary_queue(
                    session, target, request, send, self.receive_timeout
                )
            queue = self.resolve(session, response_queue)
            return await reply_from_response_queue(
                session, target, request, send, self.receive_timeout, queue
            )

        return await self._execute_on_new(
            run, start_connection=True, transacted=False, mode=AcknowledgeMode.AUTO
        )

    async def browse(
        self, destination: Destination | str | None, action: BrowserCallback[_T]
    ) -> _T:
        """Return what `action(session, browser)` returns; the messages stay in the queue."""
        return await self.browse_selected(destination, None, action)

    async def browse_selected(
        self,
        destination: Destination | str | None,
        selector: str | None,
        action: BrowserCallback[_T],
    ) -> _T:
        """Browse the messages that `selector` matches.

        Raises:
            IllegalStateException: the default destination is no queue.
            DestinationResolutionException: the destination given is no queue.
        """

        async def run(session: Session) -> _T:
            queue = self.resolve(session, destination)
            if not isinstance(queue, Queue):
                raise _no_queue(destination)
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
        async def on_connection(connection: Connection) -> _T:
            async def on_session(session: Session) -> _T:
                if start_connection:
                    await connection.start()
                return await action(session)

            return await using(await connection.create_session(transacted, mode), on_session)

        return await using(await self.connection_factory.create_connection(), on_connection)

    async def _send(self, session: Session, destination: Destination, message: Message) -> None:
        producer = await self._create_producer(session, destination)
        await using(
            producer, lambda p: send_with(p, message, self.explicit_qos(), self.delivery_delay)
        )
        if session.transacted and resources.bound(self.connection_factory) is None:
            await session.commit()

    async def _create_producer(
        self, session: Session, destination: Destination | None
    ) -> MessageProducer:
        producer = await session.create_producer(destination)
        if not self.message_id_enabled:
            producer.disable_message_id = True
        if not self.message_timestamp_enabled:
            producer.disable_message_timestamp = True
        return producer

    def _payload(self, message: Message | None, kind: Any) -> Any:
        return None if message is None else self.message_converter.from_message(message, kind)


def _check_creator(creator: object) -> None:
    if not callable(creator):
        raise TypeError(
            f"A message creator is a function of a session that returns the message, not "
            f"{type(creator).__name__}; convert_and_send takes a payload, or a message"
        )


def _message(value: Message | None, maker: str) -> Message:
    if not isinstance(value, Message):
        raise TypeError(f"{maker} must return the message to send, not {value!r:.50}")
    return value


def _limited(timeout: float | None, resource: resources.BoundResource | None) -> float | None:
    remaining = None if resource is None else resource.remaining()
    # Spring: a template that waits for ever does so in a transaction with a deadline too.
    return timeout if timeout is None or remaining is None else min(timeout, remaining)


def _no_queue(destination: Destination | str | None) -> Exception:
    if destination is None:
        return IllegalStateException(
            "The default destination does not correspond to a queue",
            hint="only queues can be browsed",
        )
    return DestinationResolutionException(
        f"Destination {destination} is not a queue", hint="only queues can be browsed"
    )
