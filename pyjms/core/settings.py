"""What a template is set to, and the destinations that it means. (spring-jms 4.1 to 4.5)"""

from __future__ import annotations

from typing import Final, TypedDict

from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.errors import IllegalStateException
from pyjms.jms.api import ConnectionFactory, Session
from pyjms.jms.destination import Destination
from pyjms.jms.message import DEFAULT_PRIORITY
from pyjms.support.converter import DefaultMessageConverter, MessageConverter
from pyjms.support.destination import DestinationResolver, SimpleDestinationResolver
from pyjms.support.qos import QosSettings

__all__ = ["TemplateOptions", "TemplateSettings"]

_PROVIDERS: Final = (DeliveryMode.PERSISTENT, DEFAULT_PRIORITY, 0.0)
"""What a provider does with a message that says nothing."""


class TemplateOptions(TypedDict, total=False):
    """The keyword arguments of JmsTemplate; `TemplateSettings` says what they mean."""

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


class TemplateSettings:
    """The settings of a JmsTemplate: arguments, and attributes of the same names.

    Args:
        connection_factory: whose connections to use.
        default_destination: where operations go that name none.
        default_destination_name: the same by name; the object wins.
        pub_sub_domain: whether names mean topics.
        session_transacted: outside a transaction, each operation commits by itself.
        session_acknowledge_mode: of sessions that are not transacted.
        receive_timeout: seconds; None for ever, 0 not at all.
        explicit_qos_enabled: whether the next three count; else the provider's defaults do. None:
            they count if one of them is given here.
        delivery_mode: PERSISTENT or not.
        priority: 0 to 9.
        time_to_live: seconds, 0 for ever.
        delivery_delay: seconds before delivery. OpenWire has no such thing: with one, a
            send raises UnsupportedOperationException.
        message_converter: DefaultMessageConverter if None.
        destination_resolver: SimpleDestinationResolver if None.
        message_id_enabled: False is a hint that ids are not needed.
        message_timestamp_enabled: False leaves the timestamp 0.
        pub_sub_no_local: whether to miss, on topics, what the same connection sent.
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
    ) -> None:
        self.connection_factory = connection_factory
        self.default_destination = default_destination
        self.default_destination_name = default_destination_name
        self.pub_sub_domain = pub_sub_domain
        self.session_transacted = session_transacted
        self.session_acknowledge_mode = session_acknowledge_mode
        self.receive_timeout = receive_timeout
        given = (delivery_mode, priority, time_to_live)
        self.explicit_qos_enabled: bool = (
            given != _PROVIDERS if explicit_qos_enabled is None else explicit_qos_enabled
        )
        self.delivery_mode = delivery_mode
        self.priority = priority
        self.time_to_live = time_to_live
        self.delivery_delay = delivery_delay
        self.message_converter: MessageConverter = message_converter or DefaultMessageConverter()
        self.destination_resolver: DestinationResolver = (
            destination_resolver or SimpleDestinationResolver()
        )
        self.message_id_enabled = message_id_enabled
        self.message_timestamp_enabled = message_timestamp_enabled
        self.pub_sub_no_local = pub_sub_no_local

    @property
    def delivery_persistent(self) -> bool:
        """Whether `delivery_mode` is PERSISTENT; setting it sets that."""
        return self.delivery_mode == DeliveryMode.PERSISTENT

    @delivery_persistent.setter
    def delivery_persistent(self, persistent: bool) -> None:
        self.delivery_mode = DeliveryMode.PERSISTENT if persistent else DeliveryMode.NON_PERSISTENT

    def explicit_qos(self) -> QosSettings | None:
        """Return the three settings if they count, else None."""
        if not self.explicit_qos_enabled:
            return None
        return QosSettings(self.delivery_mode, self.priority, self.time_to_live)

    def set_qos_settings(self, settings: QosSettings) -> None:
        """Take the three settings and turn `explicit_qos_enabled` on."""
        self.explicit_qos_enabled = True
        self.delivery_mode = settings.delivery_mode
        self.priority = settings.priority
        self.time_to_live = settings.time_to_live

    def resolve(self, session: Session, destination: Destination | str | None) -> Destination:
        """Return the destination itself, the one of this name, or the default.

        Raises:
            IllegalStateException: there is neither a destination nor a default.
        """
        resolved = self.resolve_or_none(session, destination)
        if resolved is None:
            raise IllegalStateException(
                "No 'default_destination' or 'default_destination_name' specified",
                hint="name a destination, or give the template a default",
            )
        return resolved

    def resolve_or_none(
        self, session: Session, destination: Destination | str | None
    ) -> Destination | None:
        """Do as `resolve` does, but return None where there is nothing to resolve."""
        if destination is None:
            destination = self.default_destination or self.default_destination_name
        if isinstance(destination, str):
            return self.destination_resolver.resolve_destination_name(
                session, destination, self.pub_sub_domain
            )
        return destination
