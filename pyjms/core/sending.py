"""The options of a send: headers, properties and quality of service of one message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypedDict, cast

from pyjms._clock import check_seconds
from pyjms.core.settings import TemplateSettings
from pyjms.enums import DeliveryMode
from pyjms.jms.api import Session
from pyjms.jms.destination import AnyDestination, Destination
from pyjms.jms.message import Message
from pyjms.support.headers import JmsHeaders

__all__ = [
    "MessageCreator",
    "MessageOptions",
    "MessagePostProcessor",
    "SendOptions",
    "checked_creator",
    "checked_message",
    "prepare",
    "qos_of",
]

MessageCreator = Callable[[Session], Awaitable[Message] | Message]
"""A function or coroutine function of a session that returns the message to send."""

MessagePostProcessor = Callable[[Message], Awaitable[Message] | Message]
"""A function or coroutine function of a converted message that returns the message to send."""

GROUP_PROPERTY: Final = "JMSXGroupID"


class MessageOptions(TypedDict, total=False):
    """Keyword arguments of a send or a request; None is the same as omitting an argument.

    properties: properties of the message by name; Spring's names of headers (`jms_correlationId`,
        `jms_replyTo`, `jms_type`) set these headers.
    correlation_id: the correlation id.
    priority: 0 to 9, instead of the template's.
    time_to_live: seconds until the message expires, 0: never, instead of the template's.
    delay: seconds before the broker delivers it, instead of the template's `delivery_delay`. Needs
        a broker with a scheduler (`scheduler_support`, ActiveMQ: `schedulerSupport`); a broker
        without a scheduler delivers at once.
    delivery_mode: PERSISTENT or NON_PERSISTENT, instead of the template's.
    group: the message group (JMSXGroupID): one consumer gets all its messages, in order.
    """

    properties: Mapping[str, object] | None
    correlation_id: str | None
    priority: int | None
    time_to_live: float | None
    delay: float | None
    delivery_mode: DeliveryMode | None
    group: str | None


class SendOptions(MessageOptions, total=False):
    """The keyword arguments of a send: those of `MessageOptions`, and `reply_to`.

    reply_to: the destination for a reply, or its name. Requests set it themselves.
    """

    reply_to: Destination | str | None


_NAMES: Final = MessageOptions.__annotations__.keys() | SendOptions.__annotations__.keys()
_HEADERS: Final[dict[str, str]] = {
    JmsHeaders.CORRELATION_ID: "correlation_id",
    JmsHeaders.TYPE: "type",
}
_QOS: Final = ("delivery_mode", "priority", "time_to_live")


def checked_creator(creator: MessageCreator) -> MessageCreator:
    """Return `creator` if it is callable.

    Raises:
        TypeError: it is not.
    """
    if not callable(creator):
        raise TypeError(
            f"A message creator is a function of a session that returns the message, not "
            f"{type(creator).__name__}; convert_and_send takes a payload, or a message"
        )
    return creator


def checked_message(value: Message | None, maker: str) -> Message:
    """Return `value`, the result of `maker`, if it is a message.

    Raises:
        TypeError: it is not.
    """
    if not isinstance(value, Message):
        raise TypeError(f"{maker} must return the message to send, not {value!r:.50}")
    return value


def prepare(
    template: TemplateSettings, session: Session, message: Message, options: MessageOptions
) -> None:
    """Set headers and properties of `message` according to the options.

    Raises:
        TypeError: an option is unknown.
        MessageFormatException: a property has a type that JMS does not know.
        MessageNotWriteableException: the message was received, and must be copied first.
    """
    unknown = options.keys() - _NAMES
    if unknown:
        known = ", ".join(sorted(_NAMES))
        raise TypeError(f"There is no option {min(unknown)!r} of a send; there are {known}")

    def resolve(destination: AnyDestination) -> Destination | None:
        return template.resolve_or_none(session, destination)

    for name, value in (options.get("properties") or {}).items():
        _set_property(message, name, value, resolve)
    correlation_id, group = options.get("correlation_id"), options.get("group")
    if correlation_id is not None:
        message.correlation_id = correlation_id
    if group is not None:
        message.properties[GROUP_PROPERTY] = group
    reply_to = cast("SendOptions", options).get("reply_to")
    if reply_to is not None:
        message.reply_to = resolve(reply_to)


def qos_of(template: TemplateSettings, options: MessageOptions) -> dict[str, Any]:
    """Return the QoS arguments for a producer's `send`; omitted ones are the producer's.

    Raises:
        TypeError: the delay is not a number.
        ValueError: the delay is negative or not finite.
    """
    own = template.explicit_qos()
    qos = {} if own is None else {name: getattr(own, name) for name in _QOS}
    if options:
        given: Mapping[str, Any] = options
        qos.update({name: given[name] for name in _QOS if given.get(name) is not None})
    delay, name = options.get("delay"), "delay"
    if delay is None:
        delay, name = template.delivery_delay, "delivery_delay"
    if delay is not None:
        check_seconds(name, delay)
        qos["delivery_delay"] = delay
    return qos


def _set_property(
    message: Message,
    name: str,
    value: object,
    resolve: Callable[[AnyDestination], Destination | None],
) -> None:
    if name == JmsHeaders.REPLY_TO and isinstance(value, Destination | str):
        message.reply_to = resolve(value)
    elif name in _HEADERS:
        setattr(message, _HEADERS[name], value)
    else:
        message.properties[name] = value
