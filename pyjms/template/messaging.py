"""JmsMessagingTemplate, a JmsTemplate for generic messages, and JmsClient. (spring-jms 4.2)

A `JmsClient` sends and receives generic messages in the fluent style of Spring 7:

    client = JmsClient(factory)
    orders = client.destination("orders").with_priority(9).with_time_to_live(60)
    await orders.send({"id": 1}, {"tenant": "a"})
    order = await orders.with_receive_timeout(1).receive(Order)

The operations that `destination` returns can be kept and used again. Every `with_...` returns a
new object with the changed setting, so that an object can be shared by tasks while others are
derived from it.
"""

from __future__ import annotations

import builtins
import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Self, TypeVar, overload

from pyjms.errors import IllegalStateException, MessageConversionException
from pyjms.jms.api import ConnectionFactory, Session
from pyjms.jms.destination import AnyDestination, Destination
from pyjms.jms.message import Message
from pyjms.runtime.clock import check_seconds
from pyjms.support.converter import MessageConverter
from pyjms.support.messaging import GenericMessage, MessagingMessageConverter
from pyjms.support.retry import checked_reply
from pyjms.template.resources import call
from pyjms.template.template import UNSET, JmsTemplate, Timeout, Variants

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
        await self.send(destination, await _create_message(payload, headers, post_processor))

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
            RemoteError: the handler raised, and its listener has `errors="reply"`.
            RequestTimeoutException: no reply arrived in time, and the template raises for that.
            NoConsumerException: nobody would reply, and `require_consumer` is set.
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
        request = await _create_message(payload, headers, post_processor)
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
        reply = await self.jms_template.send_and_receive(
            self._target(destination), self._creator(message), timeout=timeout
        )
        return checked_reply(reply)

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


async def _create_message(
    payload: object,
    headers: Mapping[str, object] | None,
    post_processor: GenericMessagePostProcessor | None,
) -> GenericMessage[Any]:
    message = GenericMessage(payload, headers)
    return message if post_processor is None else await call(post_processor, message)


class JmsClient:
    """The entry to sending and receiving at destinations. Spring: JmsClient.

    Any number of tasks of one loop may share it; for other threads use `pyjms.JmsClient`.

    Args:
        template: its settings are the initial settings of operations. For a connection factory, a
            JmsTemplate with default settings is created.
        message_converters: tried in this order, in both directions, until one can convert; empty:
            the template's converter is used.
        post_processors: called one after the other with each message to send; each returns the
            message for the next one.
    """

    def __init__(
        self,
        template: JmsTemplate | ConnectionFactory,
        *,
        message_converters: Sequence[MessageConverter] = (),
        post_processors: Sequence[GenericMessagePostProcessor] = (),
    ) -> None:
        self._template = template_of(template)
        self._converter = _FirstThatFits(message_converters) if message_converters else None
        self._post_processors = tuple(post_processors)

    def destination(self, destination: Destination | str) -> JmsClientOperations:
        """Return the operations on a destination, given as an object or by its name."""
        return JmsClientOperations(
            self._template, destination, self._converter, self._post_processors
        )


class JmsClientOperations(Variants):
    """Operations on one destination, with separate settings. Spring: OperationSpec.

    Created by `JmsClient.destination`. Tasks may share an instance.
    """

    def __init__(
        self,
        template: JmsTemplate,
        destination: Destination | str,
        converter: MessageConverter | None,
        post_processors: tuple[GenericMessagePostProcessor, ...],
    ) -> None:
        self._template = template
        self._destination = destination
        self._converter = converter
        self._post_processors = post_processors

    def with_delivery_delay(self, seconds: float) -> Self:
        """Return operations whose messages the broker delivers `seconds` after the send.

        Raises:
            TypeError: it is not a number.
            ValueError: it is negative or not finite.
        """
        check_seconds("delivery_delay", seconds)
        return self._with(delivery_delay=seconds)

    async def send(self, payload: object, headers: Mapping[str, object] | None = None) -> None:
        """Send a payload, or a GenericMessage; `headers` are added to its headers.

        Raises:
            MessageConversionException: the payload cannot be converted.
            JMSException: the message could not be sent.
        """
        message = await self._message(payload, headers)
        await self._messaging().send(self._destination, message)

    @overload
    async def receive(
        self, type: builtins.type[_T], *, selector: str | None = None
    ) -> _T | None: ...

    @overload
    async def receive(
        self, type: None = None, *, selector: str | None = None
    ) -> GenericMessage[Any] | None: ...

    async def receive(
        self,
        type: object = None,  # noqa: A002 - the JmsTemplate's word
        *,
        selector: str | None = None,
    ) -> Any:
        """Wait for a message and return it, or its payload as `type`; None if none arrives in time.

        Raises:
            MessageConversionException: the message has no body, or one of another type. It is
                consumed.
            JMSException: the connection has failed, or the broker refused.
        """
        messaging = self._messaging()
        if type is None:
            return await messaging.receive(self._destination, selector=selector)
        return await messaging.receive_and_convert(self._destination, type, selector=selector)

    @overload
    async def send_and_receive(
        self,
        payload: object,
        headers: Mapping[str, object] | None = None,
        *,
        type: builtins.type[_T],
    ) -> _T | None: ...

    @overload
    async def send_and_receive(
        self, payload: object, headers: Mapping[str, object] | None = None, *, type: None = None
    ) -> GenericMessage[Any] | None: ...

    async def send_and_receive(
        self,
        payload: object,
        headers: Mapping[str, object] | None = None,
        *,
        type: object = None,  # noqa: A002 - the JmsTemplate's word
    ) -> Any:
        """Send a request; return the reply, or its payload as `type`; None if none arrives in time.

        Raises:
            MessageConversionException: the request or the reply cannot be converted.
            RemoteError: the handler raised, and its listener has `errors="reply"`.
            RequestTimeoutException: no reply arrived in time, and the template raises for that.
            NoConsumerException: nobody would reply, and `require_consumer` is set.
            JMSException: the request could not be sent, or the connection has failed.
        """
        request = await self._message(payload, headers)
        messaging = self._messaging()
        if type is None:
            return await messaging.send_and_receive(self._destination, request)
        return await messaging.convert_send_and_receive(
            self._destination, request.payload, request.headers, type=type
        )

    def _with(self, **settings: Any) -> Self:
        changed = copy.copy(self)
        changed._template = copy.copy(self._template)  # noqa: SLF001 - an object of this class
        for name, value in settings.items():
            setattr(changed._template, name, value)  # noqa: SLF001 - as above
        return changed

    def _messaging(self) -> JmsMessagingTemplate:
        return JmsMessagingTemplate(self._template, message_converter=self._converter)

    async def _message(
        self, payload: object, headers: Mapping[str, object] | None
    ) -> GenericMessage[Any]:
        message: GenericMessage[Any] = (
            GenericMessage(payload.payload, {**payload.headers, **(headers or {})})
            if isinstance(payload, GenericMessage)
            else GenericMessage(payload, headers)
        )
        for process in self._post_processors:
            message = await call(process, message)
        return message


class _FirstThatFits:
    """Delegates to the first converter that does not refuse. Spring: CompositeMessageConverter."""

    def __init__(self, converters: Sequence[MessageConverter]) -> None:
        self._converters = tuple(converters)

    def to_message(self, payload: object, session: Session) -> Message:
        """Return the message of the first converter that can convert the payload."""
        for converter in self._converters[:-1]:
            try:
                return converter.to_message(payload, session)
            except MessageConversionException:
                continue  # after the last converter, its error is raised
        return self._converters[-1].to_message(payload, session)

    def from_message(self, message: Message, target: object = None) -> Any:
        """Return the payload of the first converter that can read the message."""
        for converter in self._converters[:-1]:
            try:
                return converter.from_message(message, target)
            except MessageConversionException:
                continue
        return self._converters[-1].from_message(message, target)
