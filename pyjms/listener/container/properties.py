"""The properties that both containers share, their defaults and the rules for setting them.

Names and defaults are Spring's; durations are seconds. (spring-jms 1.1)
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict

from pyjms._forwarding import TypedProperty
from pyjms.client.options import RedeliveryPolicy
from pyjms.core.interceptors import InterceptorChain, Interceptors
from pyjms.enums import AcknowledgeMode, SessionMode
from pyjms.errors import JMSException, UnsupportedOperationException
from pyjms.jms.api import ConnectionFactory, ExceptionListener, check_factory
from pyjms.jms.destination import Destination
from pyjms.listener.batches.options import check_batches
from pyjms.listener.handler.interceptors import HandlerInterceptor, SettlementInterceptor
from pyjms.listener.handler.message_listener import ListenerCall, OnMessage, listener_name
from pyjms.selector import selector_or_none
from pyjms.support.converter.base import MessageConverter
from pyjms.support.destination import DestinationResolver, SimpleDestinationResolver
from pyjms.support.qos import QosSettings
from pyjms.support.retry import RetryPolicy

__all__ = [
    "ContainerOptions",
    "ContainerProperties",
    "ErrorHandler",
    "Listener",
    "Prefetch",
    "UnreadableMessages",
    "invalid_concurrency",
    "one_or_more",
    "parse_concurrency",
]

ErrorHandler = Callable[[Exception], Awaitable[None] | None]
"""Called on the loop with a listener's failure, once for each failed delivery."""

Listener = Callable[..., Any] | OnMessage
"""What `message_listener` accepts; see `pyjms.listener.handler.message_listener`."""

Prefetch = int | Literal["auto"] | None
UnreadableMessages = Literal["dead_letter", "redeliver"]

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
    interceptors: Iterable[HandlerInterceptor]
    settlement_interceptors: Iterable[SettlementInterceptor]
    log_tracebacks: bool
    subscription_durable: bool
    subscription_shared: bool
    subscription_name: str | None
    durable_subscription_name: str | None
    pub_sub_no_local: bool
    client_id: str | None
    session_transacted: bool
    session_acknowledge_mode: SessionMode | str
    acknowledge_after_listener: bool
    expose_listener_session: bool
    accept_messages_while_stopping: bool
    unreadable_messages: UnreadableMessages
    prefetch: Prefetch
    batch_size: int | None
    batch_timeout: float
    redelivery_policy: RedeliveryPolicy | None
    retry: RetryPolicy | None
    concurrency: str
    concurrent_consumers: int
    error_handler: ErrorHandler | None
    exception_listener: ExceptionListener | None
    message_converter: MessageConverter | None
    destination_resolver: DestinationResolver
    auto_startup: bool
    phase: int
    bean_name: str | None


class _OfTopic(TypedProperty[bool]):
    """A property that only subscriptions of topics have: True also sets `pub_sub_domain`."""

    def __init__(self, attribute: str, doc: str) -> None:
        super().__init__(attrgetter(attribute), self._write, doc=doc)
        self._attribute = attribute

    def _write(self, properties: ContainerProperties, value: bool) -> None:
        setattr(properties, self._attribute, value)
        if value:
            properties.pub_sub_domain = True

    if TYPE_CHECKING:

        def __set__(self, instance: object, value: bool) -> None: ...


class ContainerProperties:
    """The properties of a container; plain attributes unless a rule applies to them.

    The container's collaborators (connection, consumers, recovery, scaling) have a reference to the
    properties, not to the container, and read them when they need them: most may change while the
    container runs.
    """

    OPTIONS: ClassVar[frozenset[str]] = frozenset()
    """The names that the constructor accepts as keyword arguments."""

    reply_qos_settings: QosSettings | None = None
    message_selector: str | None = None
    subscription_name: str | None = None
    pub_sub_domain: bool = False
    pub_sub_no_local: bool = False
    client_id: str | None = None
    acknowledge_after_listener: bool = True
    expose_listener_session: bool = True
    accept_messages_while_stopping: bool = False
    unreadable_messages: UnreadableMessages = "dead_letter"
    """dead_letter: a message that cannot be converted to the handler's arguments becomes a dead
    letter at once; redeliver: it is treated like any other failure, as in Spring."""
    prefetch: Prefetch = None
    """Messages sent to each consumer ahead of their acknowledgement; None: the connection's
    prefetch; auto: few for queue consumers whose number may grow, unless the connection's prefetch
    is set. A change applies to new consumers."""
    batch_size: int | None = None
    """The largest number of messages in a batch; None: the listener gets single messages."""
    batch_timeout: float = 0.0
    """Seconds from a batch's first message to the call of the listener; 0: do not wait for more."""
    redelivery_policy: RedeliveryPolicy | None = None
    """The redelivery policy of this listener's messages; None: the connection's."""
    retry: RetryPolicy | None = None
    """Which failures are retried and when, and where this listener's dead letters are sent."""
    error_handler: ErrorHandler | None = None
    log_tracebacks: bool = False
    """Whether the first failure of a message is logged with the traceback of its listener."""
    exception_listener: ExceptionListener | None = None
    message_converter: MessageConverter | None = None
    destination_resolver: DestinationResolver
    auto_startup: bool = True
    phase: int = PHASE_LAST
    """Containers with a lower phase start first, and stop last, after the others have finished."""
    bean_name: str | None = None

    def __init__(self, connection_factory: ConnectionFactory | None) -> None:
        if connection_factory is not None:
            check_factory(connection_factory, type(self).__name__)
        self.connection_factory = connection_factory
        self.destination_resolver = SimpleDestinationResolver()
        self.listener_call: ListenerCall | None = None
        self._listener: Listener | None = None
        self.interceptor_chain: InterceptorChain[HandlerInterceptor] | None = None
        self.settlement_chain: InterceptorChain[SettlementInterceptor] | None = None
        self._destination: Destination | str | None = None
        self._reply_pub_sub_domain: bool | None = None
        self._durable = False
        self._shared = False
        self._session_transacted: bool | None = None
        self._acknowledge_mode: SessionMode = AcknowledgeMode.AUTO

    def set_options(self, options: Mapping[str, object]) -> None:
        """Set properties by name.

        Raises:
            TypeError: there is no such property.
            ValueError: a property cannot have that value.
        """
        for name, value in options.items():
            if name not in self.OPTIONS:
                raise TypeError(f"{type(self).__name__} has no property {name!r}")
            setattr(self, name, value)

    @property
    def destination(self) -> Destination | None:
        """The destination, as an object; a topic also sets `pub_sub_domain`."""
        return self._destination if isinstance(self._destination, Destination) else None

    @destination.setter
    def destination(self, value: Destination | None) -> None:
        if isinstance(value, str):
            raise TypeError(
                f"destination is a Queue or Topic, not {value!r}; write destination_name={value!r}"
            )
        self._destination = value
        if value is not None and value.is_topic:
            self.pub_sub_domain = True

    @property
    def destination_name(self) -> str | None:
        """The destination, as a name that `destination_resolver` resolves."""
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
        """The listener, called with each message; may be replaced at run time."""
        return self._listener

    @message_listener.setter
    def message_listener(self, value: Listener | None) -> None:
        self.listener_call = None if value is None else ListenerCall(value)
        self._listener = value
        if value is not None and not self.subscription_name:
            self.subscription_name = listener_name(value)

    interceptors: Interceptors[HandlerInterceptor] = Interceptors(
        "interceptor_chain",
        "Interceptors around the message listener, outermost first; replaceable at run time.",
    )
    settlement_interceptors: Interceptors[SettlementInterceptor] = Interceptors(
        "settlement_chain",
        "Interceptors around commits and acknowledgements; replaceable at run time.",
    )
    subscription_durable: _OfTopic = _OfTopic(
        "_durable",
        "Whether the subscription outlives its consumers; setting it sets `pub_sub_domain`.",
    )
    subscription_shared: _OfTopic = _OfTopic(
        "_shared", "A shared subscription (JMS 2.0); `initialize` refuses it, as OpenWire has none."
    )

    @property
    def durable_subscription_name(self) -> str | None:
        """`subscription_name` if the subscription is durable; setting it makes it durable."""
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
    def session_acknowledge_mode(self) -> SessionMode:
        """When a message counts as consumed; JMS names ("CLIENT_ACKNOWLEDGE") are accepted."""
        return self._acknowledge_mode

    @session_acknowledge_mode.setter
    def session_acknowledge_mode(self, value: SessionMode | str) -> None:
        if isinstance(value, str):
            if value not in _ACKNOWLEDGE_MODES:
                names = ", ".join(_ACKNOWLEDGE_MODES)
                raise ValueError(f"Unknown acknowledge mode {value!r}: use one of {names}")
            value = _ACKNOWLEDGE_MODES[value]
        known = value in AcknowledgeMode.__members__.values()
        self._acknowledge_mode = AcknowledgeMode(value) if known else value

    @property
    def dead_letter(self) -> str | None:
        """The destination of this listener's dead letters; None: the broker's."""
        return None if self.retry is None else self.retry.dead_letter

    @property
    def growth_limit(self) -> int | None:
        """The largest number of consumers if it is more than the least; else None."""
        return None

    def task_name(self, number: int) -> str:
        """Name the task and the thread of a consumer: the container's name and a number."""
        return f"{self.bean_name or type(self).__name__}-{number}"

    def require_connection_factory(self) -> ConnectionFactory:
        """Return the connection factory.

        Raises:
            ValueError: none is set.
        """
        if self.connection_factory is None:
            raise ValueError("Property 'connection_factory' is required")
        return self.connection_factory

    def invoke_exception_listener(self, error: BaseException) -> None:
        """Call the exception listener, if there is one and `error` is a JMSException."""
        if self.exception_listener is not None and isinstance(error, JMSException):
            self.exception_listener(error)

    def validate(self) -> None:
        """Check that the properties are consistent.

        Raises:
            ValueError: a property is missing, or contradicts others.
            JMSException: a value is invalid for every broker.
        """
        self.require_connection_factory()
        if self._destination is None:
            raise ValueError("Property 'destination' or 'destination_name' is required")
        if self._shared:
            raise UnsupportedOperationException(
                "A subscription cannot be shared: OpenWire has no shared subscriptions",
                hint="share the queue Consumer.NAME.VirtualTopic.X instead",
            )
        selector_or_none(self.message_selector)
        check_batches(self.batch_size, self.batch_timeout, self.prefetch)


def one_or_more(name: str, value: int) -> int:
    """Return `value` if it is 1 or more.

    Raises:
        ValueError: it is less than 1.
    """
    if value < 1:
        raise ValueError(f"'{name}' value must be at least 1 (one): {value}")
    return value


def parse_concurrency(text: str) -> tuple[int | None, int]:
    """Return `(lower, upper)` of "3-5", `(None, 5)` of "5".

    Raises:
        ValueError: the text is neither.
    """
    match = re.fullmatch(r"\s*(?:(\d+)\s*-\s*)?(\d+)\s*", text)
    if match is None:
        raise invalid_concurrency(text)
    lower, upper = match.groups()
    return (None if lower is None else int(lower)), int(upper)


def invalid_concurrency(text: str) -> ValueError:
    """Return the error for a text that is not a number of consumers."""
    return ValueError(
        f'Invalid concurrency {text!r}: write the maximum ("5") or the range ("3-5") of '
        "consumers, 1 or more"
    )
