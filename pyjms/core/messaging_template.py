"""JmsMessagingTemplate: a JmsTemplate for generic messages. (spring-jms 4.2)"""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, overload

from pyjms.core.closing import call
from pyjms.core.settings import UNSET, Timeout
from pyjms.core.template import JmsTemplate
from pyjms.errors import IllegalStateException
from pyjms.jms.api import ConnectionFactory, Session
from pyjms.jms.destination import AnyDestination, Destination
from pyjms.jms.message import Message
from pyjms.support.converter import MessageConverter
from pyjms.support.messaging import GenericMessage, MessagingMessageConverter

__all__ = ["GenericMessagePostProcessor", "JmsMessagingTemplate", "template_of"]

_T = TypeVar("_T")

GenericMessagePostProcessor = Callable[
    [GenericMessage[Any]], Awaitable[GenericMessage[Any]] | GenericMessage[Any]
]
"""A function or coroutine function of a message that returns the message to send."""


class JmsMessagingTemplate:
    """Sends and receives messages with payload and headers. Spring: JmsMessagingTemplate.

    Destinations are objects or names, or None for the default destination of this template: as in
    Spring, the default of the JmsTemplate does not apply. Any number of tasks of one loop may share
    it; for other threads use `pyjms.JmsMessagingTemplate`. Errors are those of JmsTemplate.

    Args:
        template: sends and receives; its settings apply. For a connection factory, a JmsTemplate
            with default settings is created.
        default_destination: an object or a name.
        message_converter: converts the payloads; None: the converter of the JmsTemplate.
        converter: converts whole messages; None: a converter made of `message_converter` and a
            SimpleJmsHeaderMapper.

    Raises:
        ValueError: both converters are given.
    """

    def __init__(
        self,
        template: JmsTemplate | ConnectionFactory,
        *,
        default_destination: AnyDestination = None,
        message_converter: MessageConverter | None = None,
        converter: MessagingMessageConverter | None = None,
    ) -> None:
        if message_converter is not None and converter is not None:
            raise ValueError("Give either message_converter or converter, which contains one")
        self.jms_template: JmsTemplate = template_of(template)
        self.default_destination = default_destination
        self._message_converter = message_converter
        self._converter = converter

    async def send(self, destination: AnyDestination, message: GenericMessage[Any]) -> None:
        """Send `message`, as `JmsTemplate.send` does.

        Raises:
            IllegalStateException: there is neither a destination nor a default.
            MessageConversionException: the payload cannot be converted.
            JMSException: the message could not be sent.
        """
        await self.jms_template.send(self._target(destination), self._creator(message))

    async def convert_and_send(
        self,
        destination: AnyDestination,
        payload: object,
        headers: Mapping[str, object] | None = None,
        *,
        post_processor: GenericMessagePostProcessor | None = None,
    ) -> None:
        """Send `payload` with `headers`, or the message that `post_processor` returns.

        Raises:
            IllegalStateException: there is neither a destination nor a default.
            MessageConversionException: the payload cannot be converted.
            JMSException: the message could not be sent.
        """
        await self.send(destination, await _processed(payload, headers, post_processor))

    async def receive(
        self,
        destination: AnyDestination = None,
        *,
        selector: str | None = None,
        timeout: Timeout = UNSET,
    ) -> GenericMessage[Any] | None:
        """Wait for a message and return it; None if none arrives in time.

        Args:
            destination: a destination or its name; None: the default.
            selector: a condition that the message must match; None: any message.
            timeout: seconds to wait, None: for ever; left out: the JmsTemplate's setting.

        Raises:
            IllegalStateException: there is neither a destination nor a default.
            MessageConversionException: the message has no body or cannot be read. It is consumed.
            JMSException: the connection has failed, or the broker refused.
        """
        return self._read(await self._receive(destination, selector, timeout), None)

    @overload
    async def receive_and_convert(
        self,
        destination: AnyDestination,
        type: builtins.type[_T],
        *,
        selector: str | None = None,
        timeout: Timeout = UNSET,
    ) -> _T | None: ...

    @overload
    async def receive_and_convert(
        self,
        destination: AnyDestination = None,
        type: object = None,
        *,
        selector: str | None = None,
        timeout: Timeout = UNSET,
    ) -> Any: ...

    async def receive_and_convert(
        self,
        destination: AnyDestination = None,
        type: object = None,  # noqa: A002 - the JmsTemplate's word
        *,
        selector: str | None = None,
        timeout: Timeout = UNSET,
    ) -> Any:
        """Receive a message and return its payload, as `type` if given; None if none arrives.

        Raises the same exceptions as `receive`.
        """
        message = self._read(await self._receive(destination, selector, timeout), type)
        return None if message is None else message.payload

    async def send_and_receive(
        self, destination: AnyDestination, message: GenericMessage[Any], *, timeout: Timeout = UNSET
    ) -> GenericMessage[Any] | None:
        """Send a request and return its reply, as `JmsTemplate.send_and_receive` does.

        Raises:
            IllegalStateException: there is neither a destination nor a default.
            MessageConversionException: the request or the reply cannot be converted.
            JMSException: the request could not be sent, or the connection has failed.
        """
        return self._read(await self._request(destination, message, timeout), None)

    @overload
    async def convert_send_and_receive(
        self,
        destination: AnyDestination,
        payload: object,
        headers: Mapping[str, object] | None = None,
        *,
        type: builtins.type[_T],
        post_processor: GenericMessagePostProcessor | None = None,
        timeout: Timeout = UNSET,
    ) -> _T | None: ...

    @overload
    async def convert_send_and_receive(
        self,
        destination: AnyDestination,
        payload: object,
        headers: Mapping[str, object] | None = None,
        *,
        type: object = None,
        post_processor: GenericMessagePostProcessor | None = None,
        timeout: Timeout = UNSET,
    ) -> Any: ...

    async def convert_send_and_receive(
        self,
        destination: AnyDestination,
        payload: object,
        headers: Mapping[str, object] | None = None,
        *,
        type: object = None,  # noqa: A002 - the JmsTemplate's word
        post_processor: GenericMessagePostProcessor | None = None,
        timeout: Timeout = UNSET,
    ) -> Any:
        """Send `payload` as a request and return the reply's payload, as `type` if given.

        Raises the same exceptions as `send_and_receive`.
        """
        request = await _processed(payload, headers, post_processor)
        reply = self._read(await self._request(destination, request, timeout), type)
        return None if reply is None else reply.payload

    async def _receive(
        self, destination: AnyDestination, selector: str | None, timeout: Timeout
    ) -> Message | None:
        target = self._target(destination)
        return await self.jms_template.receive_selected(target, selector, timeout=timeout)

    async def _request(
        self, destination: AnyDestination, message: GenericMessage[Any], timeout: Timeout
    ) -> Message | None:
        return await self.jms_template.send_and_receive(
            self._target(destination), self._creator(message), timeout=timeout
        )

    def _creator(self, message: GenericMessage[Any]) -> Callable[[Session], Message]:
        converter = self._converter_in_use()
        return lambda session: converter.to_message(message, session)

    def _read(self, message: Message | None, kind: Any) -> GenericMessage[Any] | None:
        return None if message is None else self._converter_in_use().from_message(message, kind)

    def _converter_in_use(self) -> MessagingMessageConverter:
        if self._converter is not None:
            return self._converter
        own = self._message_converter
        return MessagingMessageConverter(
            self.jms_template.message_converter if own is None else own
        )

    def _target(self, destination: AnyDestination) -> Destination | str:
        target = self.default_destination if destination is None else destination
        if target is None:
            raise IllegalStateException(
                "No 'default_destination' specified",
                hint="pass a destination, or set a default on the JmsMessagingTemplate: the "
                "default of its JmsTemplate does not apply",
            )
        return target


def template_of(given: JmsTemplate | ConnectionFactory) -> JmsTemplate:
    """Return `given`, or a template for it if it is a connection factory."""
    return given if isinstance(given, JmsTemplate) else JmsTemplate(given)


async def _processed(
    payload: object,
    headers: Mapping[str, object] | None,
    post_processor: GenericMessagePostProcessor | None,
) -> GenericMessage[Any]:
    message = GenericMessage(payload, headers)
    return message if post_processor is None else await call(post_processor, message)
