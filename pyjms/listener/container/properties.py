"""The properties that both containers share, their defaults and the rules of setting them.

Names and defaults are Spring's; durations are seconds. (spring-jms 1.1)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, TypedDict, cast

from pyjms.enums import AcknowledgeMode
from pyjms.errors import UnsupportedOperationException
from pyjms.jms.api import ConnectionFactory, ExceptionListener
from pyjms.jms.destination import Destination
from pyjms.listener.handler.message_listener import ListenerCall, OnMessage, listener_name
from pyjms.selector import selector_or_none
from pyjms.support.converter.base import MessageConverter
from pyjms.support.destination import DestinationResolver, SimpleDestinationResolver
from pyjms.support.qos import QosSettings

__all__ = ["ContainerOptions", "ContainerProperties", "ErrorHandler", "Listener", "one_or_more"]

ErrorHandler = Callable[[Exception], Awaitable[None] | None]
"""Hears of a listener's failure, once a delivery; called on the loop."""

Listener = Callable[..., Any] | OnMessage
"""What `message_listener` takes; see `pyjms.listener.handler.message_listener`."""

PHASE_LAST = 2_147_483_647
"""Started last, stopped first. Spring: Lifecycle, DEFAULT_PHASE."""

_ACKNOWLEDGE_MODES = {
    "AUTO_ACKNOWLEDGE": AcknowledgeMode.AUTO,
    "CLIENT_ACKNOWLEDGE": AcknowledgeMode.CLIENT,
    "DUPS_OK_ACKNOWLEDGE": AcknowledgeMode.DUPS_OK,
    "SESSION_TRANSACTED": AcknowledgeMode.TRANSACTED,
}


class ContainerOptions(TypedDict, total=False):
    """The keyword arguments that both containers take; each sets the attribute of its name."""

    destination: Destination | None
    destination_name: str | None
    pub_sub_domain: bool
    reply_pub_sub_domain: bool | None
    reply_qos_settings: QosSettings | None
    message_selector: str | None
    message_listener: Listener | None
    subscription_durable: bool
    subscription_shared: bool
    subscription_name: str | None
    durable_subscription_name: str | None
    pub_sub_no_local: bool
    client_id: str | None
    session_transacted: bool
    session_acknowledge_mode: AcknowledgeMode | int | str
    acknowledge_after_listener: bool
    expose_listener_session: bool
    accept_messages_while_stopping: bool
    concurrency: str
    concurrent_consumers: int
    error_handler: ErrorHandler | None
    exception_listener: ExceptionListener | None
    message_converter: MessageConverter | None
    destination_resolver: DestinationResolver
    auto_startup: bool
    phase: int
    bean_name: str | None


class ContainerProperties:
    """What can be set on a container; plain attributes unless a rule goes with them."""

    OPTIONS: ClassVar[frozenset[str]] = frozenset()

    reply_qos_settings: QosSettings | None = None
    message_selector: str | None = None
    subscription_name: str | None = None
    pub_sub_domain: bool = False
    pub_sub_no_local: bool = False
    client_id: str | None = None
    acknowledge_after_listener: bool = True
    expose_listener_session: bool = True
    accept_messages_while_stopping: bool = False
    error_handler: ErrorHandler | None = None
    exception_listener: ExceptionListener | None = None
    message_converter: MessageConverter | None = None
    destination_resolver: DestinationResolver
    auto_startup: bool = True
    phase: int = PHASE_LAST
    bean_name: str | None = None

    def __init__(self, connection_factory: ConnectionFactory | None) -> None:
        self.connection_factory = connection_factory
        self.destination_resolver = SimpleDestinationResolver()
        self._destination: Destination | str | None = None
        self._reply_pub_sub_domain: bool | None = None
        self._listener: Listener | None = None
        self._call: ListenerCall | None = None
        self._durable = False
        self._shared = False
        self._session_transacted: bool | None = None
        self._acknowledge_mode: AcknowledgeMode | int = AcknowledgeMode.AUTO

    def _set_options(self, options: dict[str, Any]) -> None:
        for name, value in options.items():
            if name not in self.OPTIONS:
                raise TypeError(f"{type(self).__name__} has no property {name!r}")
            setattr(self, name, value)

    @property
    def destination(self) -> Destination | None:
        """Where messages come from, as an object; a topic also sets `pub_sub_domain`."""
        return self._destination if isinstance(self._destination, Destination) else None

    @destination.setter
    def destination(self, value: Destination | None) -> None:
        self._destination = value
        if value is not None and value.is_topic:
            self.pub_sub_domain = True

    @property
    def destination_name(self) -> str | None:
        """Where messages come from, as a name that `destination_resolver` resolves."""
        return self._destination if isinstance(self._destination, str) else None

    @destination_name.setter
    def destination_name(self, value: str | None) -> None:
        self._destination = value

    @property
    def destination_description(self) -> str:
        """The destination as log lines show it: the bare name."""
        target = self._destination
        return target.physical_name if isinstance(target, Destination) else str(target)

    @property
    def reply_pub_sub_domain(self) -> bool:
        """Whether a default reply destination name is a topic; follows `pub_sub_domain`."""
        own = self._reply_pub_sub_domain
        return self.pub_sub_domain if own is None else own

    @reply_pub_sub_domain.setter
    def reply_pub_sub_domain(self, value: bool | None) -> None:
        self._reply_pub_sub_domain = value

    @property
    def message_listener(self) -> Listener | None:
        """What is called with each message; may be replaced at run time."""
        return self._listener

    @message_listener.setter
    def message_listener(self, value: Listener | None) -> None:
        self._call = None if value is None else ListenerCall(value)
        self._listener = value
        if value is not None and not self.subscription_name:
            self.subscription_name = listener_name(value)

    @property
    def subscription_durable(self) -> bool:
        """Whether a topic keeps messages while nobody listens; setting it sets `pub_sub_domain`."""
        return self._durable

    @subscription_durable.setter
    def subscription_durable(self, value: bool) -> None:
        self._durable = value
        if value:
            self.pub_sub_domain = True

    @property
    def subscription_shared(self) -> bool:
        """JMS 2.0's shared subscriptions; OpenWire has none: `initialize` refuses it."""
        return self._shared

    @subscription_shared.setter
    def subscription_shared(self, value: bool) -> None:
        self._shared = value
        if value:
            self.pub_sub_domain = True

    @property
    def durable_subscription_name(self) -> str | None:
        """`subscription_name` if the subscription is durable; setting it makes it so."""
        return self.subscription_name if self._durable else None

    @durable_subscription_name.setter
    def durable_subscription_name(self, value: str | None) -> None:
        self.subscription_name = value
        self._durable = value is not None

    @property
    def session_transacted(self) -> bool:
        """Whether the container commits and rolls back its sessions itself."""
        return bool(self._session_transacted)

    @session_transacted.setter
    def session_transacted(self, value: bool) -> None:
        self._session_transacted = value

    @property
    def session_acknowledge_mode(self) -> AcknowledgeMode | int:
        """When a message counts as done; JMS's names (`"CLIENT_ACKNOWLEDGE"`) are taken too."""
        return self._acknowledge_mode

    @session_acknowledge_mode.setter
    def session_acknowledge_mode(self, value: AcknowledgeMode | int | str) -> None:
        if isinstance(value, str):
            if value not in _ACKNOWLEDGE_MODES:
                names = ", ".join(_ACKNOWLEDGE_MODES)
                raise ValueError(f"Unknown acknowledge mode {value!r}: use one of {names}")
            value = _ACKNOWLEDGE_MODES[value]
        known = value in AcknowledgeMode.__members__.values()
        self._acknowledge_mode = AcknowledgeMode(value) if known else value

    def _validate(self) -> None:
        if self.connection_factory is None:
            raise ValueError("Property 'connection_factory' is required")
        if self._destination is None:
            raise ValueError("Property 'destination' or 'destination_name' is required")
        if self._shared:
            raise UnsupportedOperationException(
                "A subscription cannot be shared: OpenWire has no shared subscriptions",
                hint="share the queue Consumer.NAME.VirtualTopic.X instead",
            )

        selector_or_none(self.message_selector)

    def _require_connection_factory(self) -> ConnectionFactory:
        return cast(ConnectionFactory, self.connection_factory)


def one_or_more(name: str, value: int) -> int:
    """Return `value`.

    Raises:
        ValueError: it is under 1.
    """
    if value < 1:
        raise ValueError(f"'{name}' value must be at least 1 (one): {value}")
    return value
