"""JmsClient: sends and receives in the fluent style of Spring 7. (spring-jms 4.2.5)

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
from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar, overload

from pyjms._clock import check_seconds
from pyjms.core.closing import call
from pyjms.core.messaging_template import (
    GenericMessagePostProcessor,
    JmsMessagingTemplate,
    template_of,
)
from pyjms.core.settings import Variants
from pyjms.core.template import JmsTemplate
from pyjms.errors import MessageConversionException
from pyjms.jms.api import ConnectionFactory, Session
from pyjms.jms.destination import Destination
from pyjms.jms.message import Message
from pyjms.support.converter import MessageConverter
from pyjms.support.messaging import GenericMessage

__all__ = ["JmsClient", "JmsClientOperations"]

_T = TypeVar("_T")


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
