"""What makes the message of a send through a template: its creator, and the options of the call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, TypedDict, cast

from pyjms.enums import DeliveryMode
from pyjms.jms.api import Session
from pyjms.jms.destination import AnyDestination, Destination
from pyjms.jms.message import Message
from pyjms.runtime.keywords import unknown_keyword
from pyjms.support.messaging import JmsHeaders

if TYPE_CHECKING:
    from pyjms.template.template import TemplateSettings

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
        a broker with a scheduler (`scheduler_support`, ActiveMQ: `schedulerSupport`); without one
        the bundled broker refuses the message, and ActiveMQ delivers it at once.
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


def checked_creator(creator: MessageCreator) -> MessageCreator:
    """Return `creator` if it is callable."""
    if not callable(creator):
        raise TypeError(
            f"A message creator is a function of a session that returns the message, not "
            f"{type(creator).__name__}; convert_and_send takes a payload, or a message"
        )
    return creator


def prepare(
    template: TemplateSettings, session: Session, message: Message, options: MessageOptions
) -> None:
    """Set headers and properties of `message` according to the options."""
    unknown = options.keys() - _NAMES
    if unknown:
        raise unknown_keyword("A send", min(unknown), _NAMES)

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
