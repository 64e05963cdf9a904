"""JmsTemplate: sending and receiving without managing connections and sessions.

Each operation opens a connection and a session and closes them again, unless a session is bound
to the same factory object (`pyjms.template.resources`), in a listener or a transaction. Wrap the
factory in a CachingConnectionFactory to keep them open. (spring-jms 4)
"""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar, Unpack, overload

from pyjms.enums import AcknowledgeMode
from pyjms.errors import DestinationResolutionException, IllegalStateException
from pyjms.jms.api import Connection, MessageProducer, QueueBrowser, Session
from pyjms.jms.destination import AnyDestination, Destination, Queue
from pyjms.jms.message import Message
from pyjms.template import resources
from pyjms.template.closing import call, close_quietly, using
from pyjms.template.interceptors import ReceiveInvocation, SendInvocation
from pyjms.template.replies import (
    reply_from_response_queue,
    reply_from_shared_queue,
    reply_from_temporary_queue,
)
from pyjms.template.resources import BoundResource
from pyjms.template.settings import (
    UNSET,
    MessageCreator,
    MessageOptions,
    MessagePostProcessor,
    SendOptions,
    TemplateSettings,
    Timeout,
    checked_creator,
    checked_message,
    prepare,
    qos_of,
)

__all__ = [
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

_ACKNOWLEDGED_BY_TEMPLATE = (AcknowledgeMode.CLIENT, AcknowledgeMode.INDIVIDUAL)


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
            resource = resources.bound_resource(factory)
            if (
                resource is None
                and (transaction := resources.current_synchronizations()) is not None
            ):
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


class JmsTemplate(TemplateSettings):
    """Sends and receives without managing connections and sessions. Spring: JmsTemplate.

    Every operation takes its destination first: an object, a name, or None for the default.
    Callbacks may be functions or coroutine functions. Any number of tasks of one loop may share a
    template once it is configured; for other threads use `pyjms.JmsTemplate`. Cancelling an
    operation closes what it has opened. JMS exceptions are not translated.
    """

    async def send(
        self, destination: AnyDestination, creator: MessageCreator, **options: Unpack[SendOptions]
    ) -> None:
        """Send the message that `creator(session)` returns.

        Sending overwrites the headers that it sets (priority, delivery mode, expiration and
        others) and keeps reply_to, correlation_id, type and properties. Waits for the broker as
        the producer's `send` does.

        Args:
            destination: a destination or its name; None: the default.
            creator: returns the message.
            options: headers and properties of the message, see `SendOptions`.

        Raises:
            IllegalStateException: there is neither a destination nor a default.
            TypeError: `creator` is not callable, or an option unknown; `convert_and_send` takes
                a payload.
            JMSException: the message could not be sent.
        """
        await self._create_and_send(destination, checked_creator(creator), None, options)

    async def convert_and_send(
        self,
        destination: AnyDestination,
        payload: object,
        *,
        post_processor: MessagePostProcessor | None = None,
        **options: Unpack[SendOptions],
    ) -> None:
        """Convert `payload` to a message and send it, or the message that `post_processor` returns.

        A message as payload is sent without conversion, with the options set on it.

        Args:
            destination: a destination or its name; None: the default.
            payload: converted by `message_converter`.
            post_processor: gets the message, with its options, and returns the message to send.
            options: headers and properties of the message: `properties`, `correlation_id`,
                `reply_to`, `priority`, `time_to_live`, `delay`, `delivery_mode` and `group`; see
                `SendOptions`. For options that are omitted or None, the template's settings apply.

        Raises:
            MessageConversionException: the payload cannot be converted.
            IllegalStateException: there is neither a destination nor a default.
            TypeError: an option is unknown.
            JMSException: the message could not be sent.
        """
        await self._create_and_send(destination, self._converts(payload), post_processor, options)

    async def send_and_receive(
        self,
        destination: AnyDestination,
        creator: MessageCreator,
        *,
        response_queue: Destination | str | None = None,
        timeout: Timeout = UNSET,
        **options: Unpack[MessageOptions],
    ) -> Message | None:
        """Send a request and wait for its reply; return None if none arrives in time.

        Uses a separate session, never a transaction, because the request must be visible.
        Any number of requests may wait at the same time. With a factory that shares its
        connection (caching, single) they share a temporary queue, where a reply is recognized by
        its correlation id: the request's correlation id, or else its message id. With another
        factory, or with `shared_reply_queue` off, each request has a separate temporary queue, as
        in Spring.

        Args:
            destination: a destination or its name; None: the default.
            creator: returns the request.
            response_queue: a permanent queue where the reply is expected, with that correlation
                id; None: a temporary queue.
            timeout: seconds to wait, None: for ever; left out: the template's `receive_timeout`.
            options: headers and properties of the request, see `MessageOptions`.

        Raises:
            IllegalStateException: there is neither a destination nor a default.
            TypeError: an option is unknown.
            JMSException: the request could not be sent, or the connection has failed.
        """
        return await self._request(
            destination, checked_creator(creator), None, response_queue, timeout, options
        )

    @overload
    async def convert_send_and_receive(
        self,
        destination: AnyDestination,
        payload: object,
        *,
        type: builtins.type[_T],
        timeout: Timeout = UNSET,
        response_queue: Destination | str | None = None,
        post_processor: MessagePostProcessor | None = None,
        **options: Unpack[MessageOptions],
    ) -> _T | None: ...

    @overload
    async def convert_send_and_receive(
        self,
        destination: AnyDestination,
        payload: object,
        *,
        type: object = None,
        timeout: Timeout = UNSET,
        response_queue: Destination | str | None = None,
        post_processor: MessagePostProcessor | None = None,
        **options: Unpack[MessageOptions],
    ) -> Any: ...

    async def convert_send_and_receive(
        self,
        destination: AnyDestination,
        payload: object,
        *,
        type: object = None,  # noqa: A002 - JMS's word
        timeout: Timeout = UNSET,
        response_queue: Destination | str | None = None,
        post_processor: MessagePostProcessor | None = None,
        **options: Unpack[MessageOptions],
    ) -> Any:
        """Send a payload as a request and return the reply's payload; `request` is an alias.

        Waits for the reply as `send_and_receive` does; None if none arrives in time. Spring:
        JmsMessagingTemplate.convertSendAndReceive.

        Args:
            destination: a destination or its name; None: the default.
            payload: converted by `message_converter`, as the reply is.
            type: the type to which the reply is converted.
            timeout: seconds to wait, None: for ever; left out: the template's `receive_timeout`.
            response_queue: see `send_and_receive`.
            post_processor: gets the request, with its options, and returns the message to send.
            options: headers and properties of the request, see `MessageOptions`.

        Raises:
            MessageConversionException: the payload or the reply cannot be converted.
            IllegalStateException: there is neither a destination nor a default.
            TypeError: an option is unknown.
            JMSException: the request could not be sent, or the connection has failed.
        """
        reply = await self._request(
            destination, self._converts(payload), post_processor, response_queue, timeout, options
        )
        return self._payload(reply, type)

    request = convert_send_and_receive

    async def receive(
        self, destination: AnyDestination = None, *, timeout: Timeout = UNSET
    ) -> Message | None:
        """Wait for a message as `receive_selected` does, and return it or None."""
        return await self.receive_selected(destination, None, timeout=timeout)

    async def receive_selected(
        self, destination: AnyDestination, selector: str | None, *, timeout: Timeout = UNSET
    ) -> Message | None:
        """Wait for a message that `selector` matches, and return it or None.

        No other message leaves the queue. The message is acknowledged; if the template opened a
        transacted session for the call, it commits. Cancelling the wait loses no message.

        Args:
            destination: a destination or its name; None: the default.
            selector: None: any message.
            timeout: seconds to wait, None: for ever, 0: do not wait; left out: the template's
                `receive_timeout`.

        Raises:
            InvalidSelectorException: the selector is malformed.
            IllegalStateException: there is neither a destination nor a default.
            JMSException: the connection has failed, or the broker refused.
        """
        seconds = self.seconds_to_wait(timeout)
        resource = resources.bound_resource(self.connection_factory)
        async with self._session(start_connection=True) as session:
            target, limit = self.resolve(session, destination), _until_deadline(seconds, resource)
            receive = partial(
                self._receive_now, session, target, selector, limit, commit=resource is None
            )
            if self._receive_chain is None:
                return await receive()
            invocation = ReceiveInvocation(target, session)

            async def proceed() -> None:
                invocation.message = await receive()

            await self._receive_chain.around_operation(invocation, proceed)
            return invocation.message

    @overload
    async def receive_and_convert(
        self, destination: AnyDestination = None, *, timeout: Timeout = UNSET
    ) -> Any: ...

    @overload
    async def receive_and_convert(
        self, destination: AnyDestination, type: builtins.type[_T], *, timeout: Timeout = UNSET
    ) -> _T | None: ...

    @overload
    async def receive_and_convert(
        self, destination: AnyDestination = None, type: object = None, *, timeout: Timeout = UNSET
    ) -> Any: ...

    async def receive_and_convert(
        self,
        destination: AnyDestination = None,
        type: object = None,  # noqa: A002 - JMS's word
        *,
        timeout: Timeout = UNSET,
    ) -> Any:
        """Receive a message and return its payload, as `type` if given; None if none arrives.

        Raises:
            MessageConversionException: the message cannot be read, or not converted to `type`. It
                is consumed nevertheless, unless a surrounding transaction rolls back.
        """
        return self._payload(await self.receive(destination, timeout=timeout), type)

    @overload
    async def receive_selected_and_convert(
        self,
        destination: AnyDestination,
        selector: str | None,
        type: builtins.type[_T],
        *,
        timeout: Timeout = UNSET,
    ) -> _T | None: ...

    @overload
    async def receive_selected_and_convert(
        self,
        destination: AnyDestination,
        selector: str | None,
        type: object = None,
        *,
        timeout: Timeout = UNSET,
    ) -> Any: ...

    async def receive_selected_and_convert(
        self,
        destination: AnyDestination,
        selector: str | None,
        type: object = None,  # noqa: A002 - JMS's word
        *,
        timeout: Timeout = UNSET,
    ) -> Any:
        """Receive a message that `selector` matches, like `receive_and_convert`."""
        message = await self.receive_selected(destination, selector, timeout=timeout)
        return self._payload(message, type)

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

    def _converts(self, payload: object) -> MessageCreator:
        return lambda session: self.message_converter.to_message(payload, session)

    async def _create_and_send(
        self,
        destination: AnyDestination,
        creator: MessageCreator,
        post_processor: MessagePostProcessor | None,
        options: MessageOptions,
    ) -> None:
        async with self._session() as session:
            target = self.resolve(session, destination)
            message = await self._create(session, creator, post_processor, options)
            await self._send(session, target, message, options)

    async def _create(
        self,
        session: Session,
        creator: MessageCreator,
        post_processor: MessagePostProcessor | None,
        options: MessageOptions,
    ) -> Message:
        message = checked_message(await call(creator, session), "The message creator")
        if options:
            prepare(self, session, message, options)
        if post_processor is None:
            return message
        return checked_message(await call(post_processor, message), "The post processor")

    async def _send(
        self, session: Session, destination: Destination, message: Message, options: MessageOptions
    ) -> None:
        if self._send_chain is not None:
            await self._send_chain.around_operation(
                SendInvocation(destination, message, session),
                lambda: self._send_now(session, destination, message, options),
            )
        else:
            await self._send_now(session, destination, message, options)

    async def _send_now(
        self, session: Session, destination: Destination, message: Message, options: MessageOptions
    ) -> None:
        async with using(await self._create_producer(session, destination)) as producer:
            await producer.send(message, **qos_of(self, options))
        if session.transacted and resources.bound_resource(self.connection_factory) is None:
            await session.commit()

    async def _request(
        self,
        destination: AnyDestination,
        creator: MessageCreator,
        post_processor: MessagePostProcessor | None,
        response_queue: Destination | str | None,
        timeout: Timeout,
        options: MessageOptions,
    ) -> Message | None:
        seconds = self.seconds_to_wait(timeout)
        factory = self.connection_factory
        async with OperationSession(self, start_connection=True, is_separate=True) as session:
            target = self.resolve(session, destination)
            request = await self._create(session, creator, post_processor, options)

            async def send(reply_to: Destination) -> Message:
                request.reply_to = reply_to
                await self._send(session, target, request, options)
                return request

            if response_queue is not None:
                queue = self.resolve(session, response_queue)
                return await reply_from_response_queue(session, send, seconds, queue)
            if self.shared_reply_queue and factory.shares_connection:
                return await reply_from_shared_queue(factory, request, send, seconds)
            return await reply_from_temporary_queue(session, send, seconds)

    async def _receive_now(
        self,
        session: Session,
        destination: Destination,
        selector: str | None,
        timeout: float | None,
        *,
        commit: bool,
    ) -> Message | None:
        """Receive one message; acknowledge it as the session requires, or commit if `commit`."""
        if destination.is_queue and not destination.is_temporary:
            # No other message leaves the queue; on a topic the copies are this consumer's anyway.
            opened = await session.create_pull_consumer(destination, selector, timeout=timeout)
        else:
            no_local = self.pub_sub_domain and self.pub_sub_no_local
            opened = await session.create_consumer(destination, selector, no_local=no_local)
        async with using(opened) as consumer:
            message = await consumer.receive(timeout)
            if session.transacted:
                if commit:
                    await session.commit()
            elif message is not None and session.acknowledge_mode in _ACKNOWLEDGED_BY_TEMPLATE:
                await message.acknowledge()
            return message

    def _payload(self, message: Message | None, kind: Any) -> Any:
        return None if message is None else self.message_converter.from_message(message, kind)

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


def _until_deadline(timeout: float | None, resource: BoundResource | None) -> float | None:
    """Return `timeout`, or the time left to the transaction if that is shorter."""
    remaining = None if resource is None else resource.remaining()
    # As in Spring, a template that waits for ever also does so in a transaction with a deadline.
    return timeout if timeout is None or remaining is None else min(timeout, remaining)


def _not_a_queue(destination: AnyDestination) -> Exception:
    if destination is None:
        return IllegalStateException(
            "The default destination does not correspond to a queue",
            hint="only queues can be browsed",
        )
    return DestinationResolutionException(
        f"Destination {destination} is not a queue", hint="only queues can be browsed"
    )
