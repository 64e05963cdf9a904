"""JmsTemplate: sending and receiving without managing connections and sessions.

Each operation opens a connection and a session and closes them again, unless a session is bound
to the same factory object (`pyjms.core.resources`), in a listener or a transaction. Wrap the
factory in a CachingConnectionFactory to keep them open. (spring-jms 4)
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
from pyjms.jms.api import MessageProducer, QueueBrowser, Session
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
"""A function or coroutine function of a session that returns the message to send."""

MessagePostProcessor = Callable[[Message], Awaitable[Message] | Message]
"""A function or coroutine function of the converted message that returns the one to send."""


class JmsTemplate(TemplateSettings):
    """Sends and receives without managing connections and sessions. Spring: JmsTemplate.

    Every operation takes its destination first: an object, a name, or None for the default.
    Callbacks may be functions or coroutine functions. Any number of tasks of one loop may share a
    template once it is configured; for other threads use `pyjms.JmsTemplate`. Cancelling an
    operation closes what it has opened. JMS exceptions are not translated.
    """

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

    async def send(self, destination: Destination | str | None, creator: MessageCreator) -> None:
        """Send the message that `creator(session)` returns.

        Sending overwrites the headers that it sets (priority, delivery mode, expiration and
        others) and keeps reply_to, correlation_id, type and properties. Waits for the broker as
        the producer's `send` does.

        Raises:
            IllegalStateException: there is neither a destination nor a default.
            TypeError: `creator` is not callable; `convert_and_send` takes a payload.
            JMSException: the message could not be sent.
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
        """Convert `payload` to a message and send it, or what `post_processor` makes of it.

        A message as payload is sent as it is.

        Args:
            destination: a destination or its name; None: the default.
            payload: converted by `message_converter`.
            post_processor: gets the message and returns the one to send.

        Raises:
            MessageConversionException: the payload cannot be converted.
            IllegalStateException: there is neither a destination nor a default.
            JMSException: the message could not be sent.
        """

        async def create(session: Session) -> Message:
            message = self.message_converter.to_message(payload, session)
            if post_processor is None:
                return message
            return _message(await call(post_processor, message), "The post processor")

        await self.send(destination, create)

    async def receive(self, destination: Destination | str | None = None) -> Message | None:
        """Wait for a message as `receive_selected` does, and return it or None."""
        return await self.receive_selected(destination, None)

    async def receive_selected(
        self, destination: Destination | str | None, selector: str | None
    ) -> Message | None:
        """Wait for a message that `selector` matches, and return it or None.

        Waits at most `receive_timeout` seconds. The message is acknowledged; in a transacted
        session of its own the template commits. Cancelling the wait loses no message.

        Raises:
            InvalidSelectorException: the selector is malformed.
            IllegalStateException: there is neither a destination nor a default.
            JMSException: the connection has failed, or the broker refused.
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
        """Receive a message and return its payload, as `type` if given; None: no message came.

        Raises:
            MessageConversionException: the message cannot be read, or not as `type`. It is
                consumed all the same, unless a surrounding transaction rolls back.
        """
        return self._payload(await self.receive(destination), type)

    async def receive_selected_and_convert(
        self,
        destination: Destination | str | None,
        selector: str | None,
        type: Any = None,  # noqa: A002 - JMS's word
    ) -> Any:
        """Do as `receive_and_convert`, with a message that `selector` matches."""
        return self._payload(await self.receive_selected(destination, selector), type)

    async def send_and_receive(
        self,
        destination: Destination | str | None,
        creator: MessageCreator,
        *,
        response_queue: Destination | str | None = None,
    ) -> Message | None:
        """Send a request and wait `receive_timeout` seconds for its reply; None: none came.

        Runs in a session of its own and never in a transaction, as the request must be visible.

        Args:
            destination: a destination or its name; None: the default.
            creator: returns the request.
            response_queue: where the reply is expected, with the correlation id of the request
                or else its message id; None: a temporary queue.

        Raises:
            IllegalStateException: there is neither a destination nor a default.
            JMSException: the request could not be sent, or the connection has failed.
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

    async def _send(self, session: Session, destination: Destination, message: Message) -> None:
        async with using(await self._create_producer(session, destination)) as producer:
            await send_with(producer, message, self.explicit_qos(), self.delivery_delay)
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
    # As in Spring, a template that waits for ever also does so in a transaction with a deadline.
    return timeout if timeout is None or remaining is None else min(timeout, remaining)


def _not_a_queue(destination: Destination | str | None) -> Exception:
    if destination is None:
        return IllegalStateException(
            "The default destination does not correspond to a queue",
            hint="only queues can be browsed",
        )
    return DestinationResolutionException(
        f"Destination {destination} is not a queue", hint="only queues can be browsed"
    )
