"""JmsTemplate: sending and receiving without managing connections and sessions.

Each operation opens a connection and a session and closes them again, unless a session is bound
to the same factory object (`pyjms.core.resources`), in a listener or a transaction. Wrap the
factory in a CachingConnectionFactory to keep them open. (spring-jms 4)
"""

from __future__ import annotations

import builtins
from typing import Any, TypeVar, Unpack, overload

from pyjms.core import resources
from pyjms.core.closing import call, using
from pyjms.core.execution import (
    BrowserCallback,
    OperationSession,
    ProducerCallback,
    SessionCallback,
)
from pyjms.core.interceptors import SendInvocation
from pyjms.core.receiving import TemplateReceiving
from pyjms.core.replies import (
    reply_from_response_queue,
    reply_from_shared_queue,
    reply_from_temporary_queue,
)
from pyjms.core.sending import (
    MessageCreator,
    MessageOptions,
    MessagePostProcessor,
    SendOptions,
    checked_creator,
    checked_message,
    prepare,
    qos_of,
)
from pyjms.core.settings import UNSET, Timeout
from pyjms.jms.api import Session
from pyjms.jms.destination import AnyDestination, Destination
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


class JmsTemplate(TemplateReceiving):
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
        if session.transacted and resources.bound(self.connection_factory) is None:
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
