"""The properties of listener containers, their defaults and the rules for setting them.

`ContainerProperties` are those that both containers share, `DefaultContainerProperties` those that
only DefaultMessageListenerContainer has. Names and defaults are Spring's; durations are seconds.
(spring-jms 1.1)
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict

from pyjms.client.policies import MAX_PREFETCH_SIZE, RedeliveryPolicy
from pyjms.enums import AcknowledgeMode, CacheLevel, SessionMode
from pyjms.errors import JMSException, UnsupportedOperationException
from pyjms.jms.api import Connection, ConnectionFactory, ExceptionListener, check_factory
from pyjms.jms.destination import Destination
from pyjms.listener.call_limits import CallTimeout, RateLimit, check_call_limits
from pyjms.listener.message_listener import ListenerCall, OnMessage, listener_name
from pyjms.listener.outages import Outages, leave_losses_to_recovery
from pyjms.listener.reply import ReplySender
from pyjms.listener.task_executor import AsyncTaskExecutor, SimpleAsyncTaskExecutor
from pyjms.runtime.backoff import BackOff, FixedBackOff
from pyjms.runtime.clock import FOR_EVER, check_seconds
from pyjms.runtime.forwarding import Checked, TypedProperty
from pyjms.runtime.keywords import unknown_keyword
from pyjms.selector import selector_or_none
from pyjms.support.converter import MessageConverter, SimpleMessageConverter
from pyjms.support.destination import DestinationResolver, SimpleDestinationResolver
from pyjms.support.qos import QosSettings
from pyjms.support.retry import RetryPolicy
from pyjms.template.interceptors import (
    HandlerInterceptor,
    InterceptorChain,
    Interceptors,
    SettlementInterceptor,
)

if TYPE_CHECKING:
    from pyjms.connection.transaction import PlatformTransactionManager


def batches_can_be_acknowledged(*, transacted: bool, mode: SessionMode | str) -> bool:
    """Return whether the messages of a batch are acknowledged together, after its handling."""
    return transacted or mode in (AcknowledgeMode.CLIENT, "CLIENT_ACKNOWLEDGE")


def one_or_more(name: str, value: int) -> int:
    """Return `value` if it is 1 or more."""
    if value < 1:
        raise ValueError(f"'{name}' value must be at least 1 (one): {value}")
    return value


def parse_concurrency(text: str) -> tuple[int | None, int]:
    """Return `(lower, upper)` of "3-5", a range, and `(None, 5)` of "5", its upper end."""
    match = re.fullmatch(r"\s*(?:(\d+)\s*-\s*)?(\d+)\s*", text)
    if match is None:
        raise invalid_concurrency(text)
    lower, upper = match.groups()
    return (None if lower is None else int(lower)), int(upper)


def check_range(lower: int, upper: int | None, *, durable: bool) -> int:
    """Return the largest number of consumers, `lower` if `upper` is None."""
    most = lower if upper is None else upper
    if not 1 <= lower <= most:
        raise ValueError(f"Consumers: {lower} to {most} is not a range; write 1 <= lower <= upper")
    if durable and most > 1:
        raise ValueError(
            f"A durable subscription has one consumer, not {most}; the queue of a "
            "virtual topic (Consumer.NAME.VirtualTopic.X) can have any number"
        )
    return most


def invalid_concurrency(text: str) -> ValueError:
    """Return the error for a text that is not a number of consumers."""
    return ValueError(
        f'Invalid concurrency {text!r}: write the maximum ("5") or the range ("3-5") of '
        "consumers, 1 or more"
    )


def check_batches(size: int | None, timeout: float | None, prefetch: object) -> None:
    """Check the options of batches."""
    if timeout is not None:
        check_seconds("batch_timeout", timeout)
    if size is None:
        if timeout:
            raise ValueError("'batch_timeout' has no effect without 'batch_size': set both")
        return
    if not 1 <= size <= MAX_PREFETCH_SIZE:
        raise ValueError(f"'batch_size' value must be from 1 to {MAX_PREFETCH_SIZE}: {size}")
    if isinstance(prefetch, int) and prefetch < size:
        raise ValueError(
            f"prefetch {prefetch} is less than batch_size {size}, so batches would wait for "
            "further dispatches: omit prefetch for this listener, or set it to batch_size or more"
        )


ErrorHandler = Callable[[Exception], Awaitable[None] | None]
"""Called on the loop with a listener's failure, once for each failed delivery."""

Listener = Callable[..., Any] | OnMessage
"""What `message_listener` accepts; see `pyjms.listener.message_listener`."""

Prefetch = int | Literal["auto"] | None

BatchFallback = Literal["single", "none"]

Errors = Literal["redeliver", "reply"]
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
    errors: Errors
    reply_none: bool
    timeout: float | None
    prefetch: Prefetch
    batch_size: int | None
    batch_timeout: float
    batch_fallback: BatchFallback
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
    session_transacted: bool = False
    """Whether the container commits and rolls back its sessions itself. Unless it is set, the
    default container turns it on for a transaction manager of another resource."""
    acknowledge_after_listener: bool = True
    expose_listener_session: bool = True
    accept_messages_while_stopping: bool = False
    unreadable_messages: UnreadableMessages = "dead_letter"
    """dead_letter: a message that cannot be converted to the handler's arguments becomes a dead
    letter at once; redeliver: it is treated like any other failure, as in Spring."""
    errors: Errors = "redeliver"
    """reply: an exception of the listener is sent to the reply destination, if the message has one,
    and the message is consumed; redeliver: the requester gets no reply."""
    reply_none: bool = False
    """Whether None as the result of a handler is sent to the requester, as a text message without
    text; never of a handler that is annotated `-> None`."""
    prefetch: Prefetch = None
    """Messages sent to each consumer ahead of their acknowledgement; None: the connection's
    prefetch; auto: few for queue consumers, unless the connection's prefetch is set. A change
    applies to new consumers."""
    batch_size: int | None = None
    """The largest number of messages in a batch; None: the listener gets single messages."""
    batch_timeout: float = 0.0
    """Seconds from a batch's first message to the call of the listener; 0: do not wait for more."""
    batch_fallback: BatchFallback = "single"
    """single: the last attempt of a batch that failed goes message by message; none: the whole
    batch becomes dead letters."""
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
        self.call_timeout: CallTimeout = CallTimeout(self)
        self.loop_holds: int = 0
        """How often the listener has held the event loop, as its application's watchdog saw."""
        self.listener_call: ListenerCall | None = None
        self._listener: Listener | None = None
        self.interceptor_chain: InterceptorChain[HandlerInterceptor] | None = None
        self.settlement_chain: InterceptorChain[SettlementInterceptor] | None = None
        self.reply_sender: ReplySender = ReplySender(SimpleMessageConverter())
        self._destination: Destination | str | None = None
        self._reply_pub_sub_domain: bool | None = None
        self._durable = False
        self._shared = False
        self._acknowledge_mode: SessionMode = AcknowledgeMode.AUTO

    def set_options(self, options: Mapping[str, object]) -> None:
        """Set properties by name.

        Raises:
            TypeError: there is no such property.
            ValueError: a property cannot have that value.
        """
        for name, value in options.items():
            if name not in self.OPTIONS:
                raise unknown_keyword(type(self).__name__, name, self.OPTIONS)
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
    def log_name(self) -> str:
        """The listener as log lines show it: its id, or else its destination."""
        return self.bean_name or self.destination_description

    @property
    def log_extra(self) -> dict[str, object]:
        """The attributes of log records about this listener."""
        return {"listener_id": self.bean_name, "destination": self.destination_description}

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

    @property
    def timeout(self) -> float | None:
        """Seconds that one call of the handler may take; None: no limit.

        A coroutine function is cancelled then, and has failed; a call in a thread goes on, with a
        warning. May change while the container runs, for the calls that begin after it.
        """
        return self.call_timeout.seconds

    @timeout.setter
    def timeout(self, value: float | None) -> None:
        check_call_limits(value, None)
        self.call_timeout.seconds = value

    interceptors: Interceptors[HandlerInterceptor] = Interceptors(
        "interceptor_chain",
        "Interceptors around the message listener, outermost first; replaceable at run time.",
    )
    settlement_interceptors: Interceptors[SettlementInterceptor] = Interceptors(
        "settlement_chain",
        "Interceptors around commits, acknowledgements and rollbacks; replaceable at run time.",
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
    def has_last_delivery(self) -> bool:
        """Whether a message that is given up is delivered once more, to be sent elsewhere."""
        return self.dead_letter is not None or self.errors == "reply"

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

    def prepare_connection(self, connection: Connection) -> None:
        """Prepare a connection that has just been opened for this container."""

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


class DefaultOptions(ContainerOptions, total=False):
    """The keyword arguments of DefaultMessageListenerContainer."""

    receive_timeout: float | None
    max_concurrent_consumers: int
    max_messages_per_task: int | None
    idle_consumer_limit: int
    idle_task_execution_limit: int
    idle_receives_per_task_limit: int | None
    cache_level: CacheLevel | int | str
    transaction_manager: PlatformTransactionManager | None
    transaction_name: str | None
    transaction_timeout: float | None
    task_executor: AsyncTaskExecutor
    back_off: BackOff
    recovery_interval: float
    rate_limit: float | None


def _not_zero(name: str, value: int | None) -> int | None:
    if value == 0:
        raise ValueError(f"'{name}' must not be 0: leave it out, or use -1 for no limit")
    return value


_SHORT_TASK = 10
"""Receives per task if the executor prefers short tasks; also idle receives of a surplus task."""


class DefaultContainerProperties(ContainerProperties):
    """The properties of a DefaultMessageListenerContainer."""

    OPTIONS: ClassVar[frozenset[str]] = frozenset(DefaultOptions.__optional_keys__)

    receive_timeout: float | None = 1.0
    """Seconds that one receive waits; None: for ever, 0: do not wait."""
    transaction_manager: PlatformTransactionManager | None = None
    transaction_name: str | None = None
    transaction_timeout: float | None = None
    back_off: BackOff
    task_executor: AsyncTaskExecutor
    outages: Outages | None = None
    """Where lost connections are reported; None: each container logs them, as in Spring."""

    def __init__(self, connection_factory: ConnectionFactory | None) -> None:
        super().__init__(connection_factory)
        self.back_off = FixedBackOff()
        self.task_executor = SimpleAsyncTaskExecutor()
        self._cache_level = CacheLevel.AUTO
        # read for each message; set through concurrent_consumers and max_concurrent_consumers
        self.least_consumers: int = 1
        self.most_consumers: int = 1
        self._max_messages_per_task: int | None = None
        self._idle_consumer_limit = 1
        self._idle_task_execution_limit = 1
        self._idle_receives_per_task_limit: int | None = None
        self.turns: RateLimit = RateLimit()

    @property
    def startup_timeout(self) -> float | None:
        """Seconds that a start waits for a `failover:` transport to connect; None: for ever."""
        return None if self.outages is None else self.outages.startup_timeout

    @property
    def concurrency(self) -> str:
        """The least and the largest number of consumers, "3-5"; "5" means 1 and 5."""
        return f"{self.least_consumers}-{self.most_consumers}"

    @concurrency.setter
    def concurrency(self, value: str) -> None:
        lower, upper = parse_concurrency(value)
        self.concurrent_consumers = 1 if lower is None else lower
        self.max_concurrent_consumers = upper

    @property
    def concurrent_consumers(self) -> int:
        """The least number of consumers; raises `max_concurrent_consumers` if need be.

        A higher value takes effect with the next messages, a lower one with the next receive.
        """
        return self.least_consumers

    @concurrent_consumers.setter
    def concurrent_consumers(self, value: int) -> None:
        self.least_consumers = one_or_more("concurrent_consumers", value)
        self.most_consumers = max(self.most_consumers, value)

    @property
    def max_concurrent_consumers(self) -> int:
        """The largest number of consumers; never less than `concurrent_consumers`."""
        return self.most_consumers

    @max_concurrent_consumers.setter
    def max_concurrent_consumers(self, value: int) -> None:
        one_or_more("max_concurrent_consumers", value)
        self.most_consumers = max(value, self.least_consumers)

    @property
    def growth_limit(self) -> int | None:
        """The largest number of consumers if it is more than the least; else None."""
        most = self.most_consumers
        return most if self.least_consumers < most else None

    max_messages_per_task: Checked[int | None] = Checked(
        _not_zero,
        "Receives after which a task ends and its consumer starts another; negative: no limit.\n\n"
        "None: no limit, or 10 if the executor prefers short tasks (set by `initialize`).",
    )
    idle_receives_per_task_limit: Checked[int | None] = Checked(
        _not_zero,
        "Empty receives in a row after which a task ends; negative: no limit.\n\n"
        "None: 10, unless the executor prefers short tasks (set by `initialize`).",
    )
    idle_consumer_limit: Checked[int] = Checked(
        one_or_more, "Number of idle consumers at which the container adds no further one."
    )
    idle_task_execution_limit: Checked[int] = Checked(
        one_or_more, "Tasks without a message after which a surplus consumer ends."
    )

    @property
    def rate_limit(self) -> float | None:
        """Messages a second that the consumers together handle at most; None: no limit.

        The messages are evenly spaced. May change while the container runs.
        """
        interval = self.turns.interval
        return None if interval is None else 1 / interval

    @rate_limit.setter
    def rate_limit(self, value: float | None) -> None:
        check_call_limits(None, value)
        self.turns.interval = None if value is None else 1 / value

    @property
    def cache_level(self) -> CacheLevel:
        """Which resources are kept between receives; AUTO is resolved by `initialize`."""
        return self._cache_level

    @cache_level.setter
    def cache_level(self, value: CacheLevel | int | str) -> None:
        if isinstance(value, str):
            by_name = CacheLevel.__members__.get(value.removeprefix("CACHE_"))
            if by_name is None:
                names = ", ".join(CacheLevel.__members__)
                raise ValueError(f"Unknown cache level {value!r}: use one of {names}")
            value = by_name
        self._cache_level = CacheLevel(value)

    @property
    def recovery_interval(self) -> float | None:
        """Seconds between attempts to reconnect; setting it replaces `back_off`, and vice versa.

        None: `back_off` is not a FixedBackOff.
        """
        return self.back_off.interval if isinstance(self.back_off, FixedBackOff) else None

    @recovery_interval.setter
    def recovery_interval(self, value: float) -> None:
        self.back_off = FixedBackOff(value)

    @property
    def shared_connection_enabled(self) -> bool:
        """Whether the consumers share one connection: from cache level CONNECTION on."""
        return self._cache_level >= CacheLevel.CONNECTION

    def validate(self) -> None:
        """Check that the properties are consistent.

        Raises:
            TypeError: a duration is not a number.
            ValueError: a property is missing, or contradicts others.
            JMSException: a value is invalid for every broker.
        """
        super().validate()
        if self.batch_size is not None and not batches_can_be_acknowledged(
            transacted=self.session_transacted or self.transaction_manager is not None,
            mode=self.session_acknowledge_mode,
        ):
            raise ValueError(
                "'batch_size' needs a transacted session or the acknowledge mode CLIENT: otherwise "
                "messages would count as consumed before the listener gets them"
            )
        if self.receive_timeout is not None:
            check_seconds("receive_timeout", self.receive_timeout, least=None, otherwise=FOR_EVER)
        if self.transaction_timeout is not None:
            check_seconds("transaction_timeout", self.transaction_timeout)

    @property
    def message_limit(self) -> int | None:
        """Receives after which a task ends; None: no limit."""
        return _positive(self._max_messages_per_task)

    @property
    def idle_receive_limit(self) -> int | None:
        """Empty receives in a row after which a task ends; None: no limit."""
        return _positive(self._idle_receives_per_task_limit)

    def resolve_defaults(self) -> None:
        """Replace properties that are unset or AUTO by their effective values.

        (spring-jms 1.2.2, 1.4.2, 1.8.4)
        """
        if self._cache_level is CacheLevel.AUTO:
            external = self.transaction_manager is not None
            self._cache_level = CacheLevel.NONE if external else CacheLevel.CONSUMER
        if self.task_executor.prefers_short_lived_tasks and self._max_messages_per_task is None:
            self._max_messages_per_task = _SHORT_TASK
        elif self._idle_receives_per_task_limit is None:
            self._idle_receives_per_task_limit = _SHORT_TASK
        if "session_transacted" not in vars(self) and self._has_foreign_transaction_manager:
            self.session_transacted = True

    def prepare_connection(self, connection: Connection) -> None:
        """Prepare a connection that has just been opened for this container."""
        if self.outages is not None:
            leave_losses_to_recovery(connection, self.log_name)

    @property
    def synchronizes_sessions(self) -> bool:
        """Whether sessions are committed right after the transaction of another resource."""
        return self.session_transacted and self._has_foreign_transaction_manager

    @property
    def _has_foreign_transaction_manager(self) -> bool:
        """Whether the transaction manager manages another resource than this connection factory."""
        manager = self.transaction_manager
        if manager is None:
            return False
        return getattr(manager, "connection_factory", None) is not self.connection_factory


def _positive(limit: int | None) -> int | None:
    return None if limit is None or limit < 0 else limit
