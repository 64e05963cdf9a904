"""The settings of a template, and the options of a single send. (spring-jms 4.1 to 4.5)"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, Self, TypedDict, cast

from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.errors import IllegalStateException
from pyjms.jms.api import ConnectionFactory, Session, check_factory
from pyjms.jms.destination import AnyDestination, Destination
from pyjms.jms.message import DEFAULT_PRIORITY, Message
from pyjms.runtime.clock import FOR_EVER, check_seconds
from pyjms.support.converter import DefaultMessageConverter, MessageConverter
from pyjms.support.destination import DestinationResolver, SimpleDestinationResolver
from pyjms.support.messaging import JmsHeaders
from pyjms.support.qos import QosSettings
from pyjms.template.interceptors import (
    InterceptorChain,
    Interceptors,
    ReceiveInterceptor,
    SendInterceptor,
    chain_of,
)

__all__ = [
    "UNSET",
    "MessageCreator",
    "MessageOptions",
    "MessagePostProcessor",
    "SendOptions",
    "TemplateOptions",
    "TemplateSettings",
    "Timeout",
    "Unset",
    "Variants",
    "checked_creator",
    "checked_message",
    "prepare",
    "qos_of",
]

_PROVIDER_DEFAULTS: Final = (DeliveryMode.PERSISTENT, DEFAULT_PRIORITY, 0.0)


class Unset(Enum):
    """The default of arguments for which None has a different meaning."""

    UNSET = "the template's setting"


UNSET: Final = Unset.UNSET

Timeout = float | Unset | None
"""Seconds, None: for ever, or the template's setting."""


class TemplateOptions(TypedDict, total=False):
    """The keyword arguments of JmsTemplate, described by `TemplateSettings`."""

    default_destination: Destination | None
    default_destination_name: str | None
    pub_sub_domain: bool
    session_transacted: bool
    session_acknowledge_mode: AcknowledgeMode
    receive_timeout: float | None
    explicit_qos_enabled: bool | None
    delivery_mode: DeliveryMode
    priority: int
    time_to_live: float
    delivery_delay: float | None
    message_converter: MessageConverter | None
    destination_resolver: DestinationResolver | None
    message_id_enabled: bool
    message_timestamp_enabled: bool
    pub_sub_no_local: bool
    shared_reply_queue: bool
    send_interceptors: Iterable[SendInterceptor]
    receive_interceptors: Iterable[ReceiveInterceptor]


class Variants(ABC):
    """Methods that return copies of a template, or of `JmsClient` operations, with other settings.

    The delivery mode, priority and time to live of a copy take effect, as they do with
    `explicit_qos_enabled`.
    """

    @abstractmethod
    def _with(self, **settings: Any) -> Self:
        """Return a copy with these template settings."""

    def with_delivery_persistent(self, persistent: bool) -> Self:
        """Return a copy that sends persistent (or non-persistent) messages."""
        return self._with(delivery_persistent=persistent, explicit_qos_enabled=True)

    def with_priority(self, priority: int) -> Self:
        """Return a copy that sends with `priority`, 0 to 9."""
        return self._with(priority=priority, explicit_qos_enabled=True)

    def with_time_to_live(self, seconds: float) -> Self:
        """Return a copy whose messages expire in `seconds`; 0: never.

        Raises:
            TypeError: it is not a number.
            ValueError: it is negative or not finite.
        """
        check_seconds("time_to_live", seconds)
        return self._with(time_to_live=seconds, explicit_qos_enabled=True)

    def with_receive_timeout(self, seconds: float | None) -> Self:
        """Return a copy that waits `seconds` for messages; None: for ever.

        Raises:
            TypeError: it is not a number.
            ValueError: it is not finite.
        """
        if seconds is not None:
            check_seconds("timeout", seconds, least=None, otherwise=FOR_EVER)
        return self._with(receive_timeout=seconds)


class TemplateSettings(Variants):
    """The settings of a JmsTemplate: arguments, and attributes of the same names.

    Args:
        connection_factory: opens the connections.
        default_destination: the destination of operations that name none.
        default_destination_name: the name of the default destination, instead of an object.
        pub_sub_domain: whether destination names are those of topics.
        session_transacted: whether each operation outside a transaction commits by itself.
        session_acknowledge_mode: the mode of sessions that are not transacted.
        receive_timeout: seconds to wait for a message; None: for ever, 0: do not wait.
        explicit_qos_enabled: whether the next three arguments apply instead of the provider's
            defaults; None: if one of them is given here. Setting these attributes later does not
            enable it, as in Spring.
        delivery_mode: PERSISTENT or NON_PERSISTENT.
        priority: 0 to 9.
        time_to_live: seconds until a message expires; 0: never.
        delivery_delay: seconds before the broker delivers a message, sent as the property
            AMQ_SCHEDULED_DELAY; a broker without a scheduler (`scheduler_support`, ActiveMQ:
            `schedulerSupport`) delivers at once. None: no delay.
        message_converter: None: a DefaultMessageConverter.
        destination_resolver: None: a SimpleDestinationResolver.
        message_id_enabled: False: a hint that message ids are not needed.
        message_timestamp_enabled: False: messages are sent without a timestamp.
        pub_sub_no_local: on topics, do not receive messages sent by the same connection.
        shared_reply_queue: whether requests over a shared connection share a temporary queue for
            their replies, which then need a correlation id; False: each request has a separate
            queue, as in Spring.
        send_interceptors: functions `(invocation, proceed)` around each send and request, the
            first is the outermost (see `pyjms.template.interceptors`).
        receive_interceptors: such functions around each receive, except receives of replies.

    Raises:
        ConfigurationException: an interceptor cannot be called.
        TypeError: a duration is not a number.
        ValueError: a duration is negative or not finite; a `receive_timeout` may be negative.
    """

    def __init__(
        self,
        connection_factory: ConnectionFactory,
        *,
        default_destination: Destination | None = None,
        default_destination_name: str | None = None,
        pub_sub_domain: bool = False,
        session_transacted: bool = False,
        session_acknowledge_mode: AcknowledgeMode = AcknowledgeMode.AUTO,
        receive_timeout: float | None = None,
        explicit_qos_enabled: bool | None = None,
        delivery_mode: DeliveryMode = DeliveryMode.PERSISTENT,
        priority: int = DEFAULT_PRIORITY,
        time_to_live: float = 0.0,
        delivery_delay: float | None = None,
        message_converter: MessageConverter | None = None,
        destination_resolver: DestinationResolver | None = None,
        message_id_enabled: bool = True,
        message_timestamp_enabled: bool = True,
        pub_sub_no_local: bool = False,
        shared_reply_queue: bool = True,
        send_interceptors: Iterable[SendInterceptor] = (),
        receive_interceptors: Iterable[ReceiveInterceptor] = (),
    ) -> None:
        check_factory(connection_factory, type(self).__name__)
        self.connection_factory = connection_factory
        self.default_destination = default_destination
        self.default_destination_name = default_destination_name
        self.pub_sub_domain = pub_sub_domain
        self.session_transacted = session_transacted
        self.session_acknowledge_mode = session_acknowledge_mode
        self.receive_timeout = receive_timeout
        given = (delivery_mode, priority, time_to_live)
        self.explicit_qos_enabled: bool = (
            given != _PROVIDER_DEFAULTS if explicit_qos_enabled is None else explicit_qos_enabled
        )
        self.delivery_mode: DeliveryMode = delivery_mode
        self.priority: int = priority
        self.time_to_live: float = time_to_live
        self.delivery_delay = delivery_delay
        self.message_converter: MessageConverter = message_converter or DefaultMessageConverter()
        self.destination_resolver: DestinationResolver = (
            destination_resolver or SimpleDestinationResolver()
        )
        self.message_id_enabled = message_id_enabled
        self.message_timestamp_enabled = message_timestamp_enabled
        self.pub_sub_no_local = pub_sub_no_local
        self.shared_reply_queue = shared_reply_queue
        self._send_chain = chain_of(send_interceptors)
        self._receive_chain = chain_of(receive_interceptors)
        self.seconds_to_wait(UNSET)
        check_seconds("time_to_live", time_to_live)
        if delivery_delay is not None:
            check_seconds("delivery_delay", delivery_delay)

    send_interceptors: Interceptors[SendInterceptor] = Interceptors(
        "_send_chain", "The interceptors around sends, outermost first; can be set at any time."
    )
    receive_interceptors: Interceptors[ReceiveInterceptor] = Interceptors(
        "_receive_chain",
        "The interceptors around receives, outermost first; can be set at any time.",
    )

    @property
    def send_chain(self) -> InterceptorChain[SendInterceptor] | None:
        """The send interceptors as a chain that can be called; None if there are none."""
        return self._send_chain

    @property
    def delivery_persistent(self) -> bool:
        """Whether `delivery_mode` is PERSISTENT; setting it sets `delivery_mode`."""
        return self.delivery_mode == DeliveryMode.PERSISTENT

    @delivery_persistent.setter
    def delivery_persistent(self, persistent: bool) -> None:
        self.delivery_mode = DeliveryMode.PERSISTENT if persistent else DeliveryMode.NON_PERSISTENT

    def with_delay(self, seconds: float) -> Self:
        """Return a copy of this template whose messages the broker delivers `seconds` later.

        This template is not changed. A broker without a scheduler delivers at once. Spring's
        JmsClient has such methods.

        Raises:
            TypeError: it is not a number.
            ValueError: it is negative or not finite.
        """
        check_seconds("delay", seconds)
        return self._with(delivery_delay=seconds)

    def _with(self, **settings: Any) -> Self:
        changed = copy.copy(self)
        for name, value in settings.items():
            setattr(changed, name, value)
        return changed

    def seconds_to_wait(self, timeout: Timeout) -> float | None:
        """Return the seconds to wait for a message: `timeout`, or else `receive_timeout`.

        Raises:
            TypeError: it is not a number.
            ValueError: it is not finite.
        """
        is_own = isinstance(timeout, Unset)
        seconds = self.receive_timeout if isinstance(timeout, Unset) else timeout
        if seconds is not None:
            name = "receive_timeout" if is_own else "timeout"
            check_seconds(name, seconds, least=None, otherwise=FOR_EVER)
        return seconds

    def explicit_qos(self) -> QosSettings | None:
        """Return the QoS settings if they apply, else None."""
        if not self.explicit_qos_enabled:
            return None
        return QosSettings(self.delivery_mode, self.priority, self.time_to_live)

    def set_qos_settings(self, settings: QosSettings) -> None:
        """Set the QoS settings, and enable `explicit_qos_enabled`."""
        self.explicit_qos_enabled = True
        self.delivery_mode = settings.delivery_mode
        self.priority = settings.priority
        self.time_to_live = settings.time_to_live

    def resolve(self, session: Session, destination: AnyDestination) -> Destination:
        """Return the destination for an object or a name, or the default destination.

        Raises:
            IllegalStateException: there is neither a destination nor a default.
        """
        resolved = self.resolve_or_none(session, destination)
        if resolved is None:
            raise IllegalStateException(
                "No 'default_destination' or 'default_destination_name' specified",
                hint="pass a destination, or set a default on the template",
            )
        return resolved

    def resolve_or_none(self, session: Session, destination: AnyDestination) -> Destination | None:
        """Resolve like `resolve`; return None if there is neither a destination nor a default."""
        if destination is None:
            destination = self.default_destination or self.default_destination_name
        if isinstance(destination, str):
            return self.destination_resolver.resolve_destination_name(
                session, destination, self.pub_sub_domain
            )
        return destination


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
