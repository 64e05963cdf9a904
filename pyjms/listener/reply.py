"""Replies: the results of handlers, sent with the listener's session and in its transaction.

The destination is that of a JmsResponse, otherwise the request's reply_to, otherwise that of
`@send_to`. The correlation id is the request's correlation id, otherwise its message id. A result
for which there is no destination is dropped with one warning: a redelivery would not find one
either. Spring makes the message a dead letter after seven attempts. (spring-jms 6.2)
"""

from __future__ import annotations

from typing import Final

from pyjms.errors import ReplyFailureException
from pyjms.jms.api import Session
from pyjms.jms.destination import Destination, Queue, Topic, parse_destination
from pyjms.jms.message import Message
from pyjms.runtime.logging import get_logger
from pyjms.support.converter import MessageConverter
from pyjms.support.messaging import GenericMessage, SimpleJmsHeaderMapper
from pyjms.support.qos import QosSettings
from pyjms.support.retry import error_reply
from pyjms.template.interceptors import InterceptorChain, SendInterceptor, SendInvocation

logger: Final = get_logger(__name__)


class JmsResponse:
    """A handler's result with its own reply destination. Spring: JmsResponse."""

    __slots__ = ("destination", "response")

    def __init__(self, response: object, destination: Destination) -> None:
        if response is None:
            raise ValueError("The result of a JmsResponse must not be None")
        self.response: object = response
        self.destination: Destination = destination

    @classmethod
    def for_queue(cls, response: object, queue: str) -> JmsResponse:
        """Return a response that is sent to the queue of this name."""
        return cls(response, Queue(queue))

    @classmethod
    def for_topic(cls, response: object, topic: str) -> JmsResponse:
        """Return a response that is sent to the topic of this name."""
        return cls(response, Topic(topic))

    @classmethod
    def for_destination(cls, response: object, destination: Destination) -> JmsResponse:
        """Return a response that is sent to this destination."""
        return cls(response, destination)


class ReplySender:
    """Sends the replies of one listener."""

    def __init__(
        self,
        converter: MessageConverter,
        *,
        default_destination: str | None = None,
        pub_sub_domain: bool = False,
        qos: QosSettings | None = None,
        send_chain: InterceptorChain[SendInterceptor] | None = None,
        listener: str = "A listener",
    ) -> None:
        """Keep `listener`, which the log calls the listener."""
        self._send_chain = send_chain
        self._listener = listener
        self._has_warned = False
        self._converter = converter
        self._header_mapper = SimpleJmsHeaderMapper()
        self._qos = qos
        kind: type[Destination] = Topic if pub_sub_domain else Queue
        self._default = (
            None if default_destination is None else parse_destination(default_destination, kind)
        )

    async def send(self, result: object, request: Message, session: Session) -> None:
        """Send `result` as the reply to `request`, if that has a destination.

        None is sent as a text message without text, and only to the request's reply_to.
        """
        if result is None and request.reply_to is None:
            return
        own = result.destination if isinstance(result, JmsResponse) else None
        destination = own or request.reply_to or self._default
        if destination is None:
            self._warn(result)
            return
        try:
            await self._send(result, destination, request, session)
        except Exception as error:
            raise ReplyFailureException(
                f"Failed to send reply with payload of type {type(result).__name__}: {error}",
                message=request,
            ) from error

    async def send_error(self, error: BaseException, request: Message, session: Session) -> None:
        """Send an error as the reply to `request`, which has a reply destination."""
        assert request.reply_to is not None
        await self._send(error_reply(session, error), request.reply_to, request, session)

    def _warn(self, result: object) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "%s returns a value (%s), and the message has no reply destination: such results "
                "are dropped. Add @send_to, set reply_to on the request, or return None",
                self._listener,
                type(result).__name__,
            )

    async def _send(
        self, result: object, destination: Destination, request: Message, session: Session
    ) -> None:
        content = result.response if isinstance(result, JmsResponse) else result
        reply = content if isinstance(content, Message) else self._convert(content, session)
        reply.correlation_id = request.correlation_id or request.message_id
        if self._send_chain is not None:
            await self._send_chain.around_operation(
                SendInvocation(destination, reply, session, is_reply=True),
                lambda: self._send_now(destination, reply, session),
            )
        else:
            await self._send_now(destination, reply, session)

    async def _send_now(self, destination: Destination, reply: Message, session: Session) -> None:
        qos = self._qos
        async with await session.create_producer(destination) as producer:
            if qos is None:
                await producer.send(reply)
            else:
                await producer.send(
                    reply,
                    delivery_mode=qos.delivery_mode,
                    priority=qos.priority,
                    time_to_live=qos.time_to_live,
                )

    def _convert(self, content: object, session: Session) -> Message:
        if content is None:
            return session.create_text_message()
        if not isinstance(content, GenericMessage):
            return self._converter.to_message(content, session)
        message = self._converter.to_message(content.payload, session)
        self._header_mapper.from_headers(content.headers, message)
        return message
