"""The consumer of JMS 2.0, which can also return bodies. (jms-api 11.4)"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Any, Final, TypeVar, cast

from pyjms._forwarding import DelegatedAttribute
from pyjms.enums import AcknowledgeMode
from pyjms.errors import MessageFormatException
from pyjms.jms.api.context_producer import BodyConverter
from pyjms.jms.api.delegating import DelegatingConsumer
from pyjms.jms.api.endpoints import MessageConsumer, MessageListener
from pyjms.jms.bodies import StreamMessage
from pyjms.jms.message import Message

__all__ = ["JMSConsumer"]

_T = TypeVar("_T")

_AUTOMATIC = {AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK}


class JMSConsumer(DelegatingConsumer):
    """Receives messages, or their bodies. JMS 2.0: javax.jms.JMSConsumer. Created by a context."""

    def __init__(
        self,
        target: MessageConsumer,
        mode: AcknowledgeMode,
        consumed: Callable[[Message], None],
        converter: BodyConverter | None = None,
    ) -> None:
        """Receive from `target`; `consumed` is called with each message before it is returned."""
        super().__init__(target)
        self._mode = mode
        self._consumed = consumed
        self._converter = converter
        self._listener: MessageListener | None = None

    transformer: DelegatedAttribute[Any] = DelegatedAttribute(
        attrgetter("_target"), read_only=False
    )  # an extension of ActiveMQ
    is_closed: Final = DelegatedAttribute[bool](attrgetter("_target"), read_only=True)

    @property
    def message_listener(self) -> MessageListener | None:
        return None if self._target.message_listener is None else self._listener

    async def set_message_listener(self, listener: MessageListener | None) -> None:
        def call(message: Message) -> Awaitable[None] | None:
            assert listener is not None
            self._consumed(message)
            return listener(message)

        await self._target.set_message_listener(None if listener is None else call)
        self._listener = listener

    async def receive(self, timeout: float | None = None) -> Message | None:
        message = await self._target.receive(timeout)
        if message is not None:
            self._consumed(message)
        return message

    async def receive_body(self, kind: type[_T], timeout: float | None = None) -> _T | None:
        """Wait for the next message and return its body as `kind`. JMS: receiveBody.

        In the modes AUTO and DUPS_OK, a message that cannot be read as `kind` stays unacknowledged,
        and the next receive returns it; in the other modes it counts as delivered.

        Args:
            kind: str (text message), dict (map message), bytes (bytes and object message), a base
                class of these, or a type that the context's `message_converter` supports.
            timeout: seconds; None waits for ever, 0 does not wait.

        Returns:
            The body, or None if `timeout` passed, the consumer was closed in the meantime, or the
            message has no body.

        Raises:
            MessageFormatException: the body is not a `kind`, or the message is a StreamMessage,
                or of a kind without a body.
            JMSException: as for `receive`.
        """
        bodies: list[_T | None] = []

        def read(message: Message) -> None:
            bodies.append(self._body_of(message, kind))

        if self._mode in _AUTOMATIC:
            message = await self._target.receive_checked(read, timeout)
            if message is not None:
                self._consumed(message)
        else:
            message = await self.receive(timeout)
            if message is not None:
                read(message)
        return None if message is None else bodies[-1]

    async def receive_body_no_wait(self, kind: type[_T]) -> _T | None:
        """Return the body of a message if one is available, else None. JMS: receiveBodyNoWait."""
        return await self.receive_body(kind, 0)

    async def close(self) -> None:
        await self._target.close()

    def _body_of(self, message: Message, kind: type[_T]) -> _T | None:
        if type(message) is not Message and not isinstance(message, StreamMessage):
            if self._converter is None or message.is_body_assignable_to(kind):
                return message.get_body(kind)
        elif self._converter is None:
            raise MessageFormatException(
                f"receive_body cannot be used for a {type(message).__name__}",
                hint="receive() returns the message",
            )
        return cast("_T", self._converter.from_message(message, cast("Any", kind)))
