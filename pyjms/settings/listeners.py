"""The sections of listeners: defaults of all (`jms.listener`), single ones (`listeners.<id>`)."""

from __future__ import annotations

import builtins
import re
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from pyjms.client.policies import PrefetchPolicy, RedeliveryPolicy
from pyjms.configuration.section import Duration, ReceiveTimeout, Section, Text
from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.errors import ConfigurationException
from pyjms.runtime.backoff import BackOff, ExponentialBackOff, FixedBackOff
from pyjms.support.class_names import imported_class
from pyjms.support.qos import QosSettings
from pyjms.support.retry import RetryPolicy

# --- The sections of prefetch and redelivery, and the retry policies of listeners.

PrefetchSize = Annotated[int, Field(ge=0, le=32767)]


class PrefetchSettings(Section):
    """Messages sent ahead, by kind of consumer. ActiveMQ: ActiveMQPrefetchPolicy."""

    queue: PrefetchSize | None = None
    """For each consumer of a queue; not set: 1000."""
    queue_browser: PrefetchSize | None = None
    """For each browser; not set: 500."""
    topic: PrefetchSize | None = None
    """For each consumer of a topic; not set: 32767."""
    durable_topic: PrefetchSize | None = None
    """For each durable subscriber; not set: 100."""
    optimize_durable_topic: PrefetchSize | None = None
    """For each durable subscriber of an AUTO session; not set: 1000."""
    maximum_pending_message_limit: int | None = Field(default=None, ge=0)
    """Messages beyond the prefetch that the broker keeps for a slow consumer of a topic; 0: the
    broker's limit."""

    def apply(self, policy: PrefetchPolicy) -> None:
        """Copy the configured values to a policy; its other values stay."""
        for name, value in self.model_dump(exclude_none=True).items():
            attribute = name if name.startswith("maximum") else f"{name}_prefetch"
            setattr(policy, attribute, value)


class RedeliverySettings(Section):
    """Redelivery of messages whose handler failed. ActiveMQ: RedeliveryPolicy."""

    maximum: int | None = Field(default=None, ge=-1)
    """Redeliveries before the message becomes a dead letter; 0: none, -1: no limit; not set: 6."""
    initial_delay: Duration | None = None
    """Time before the first redelivery, and before each one without a multiplier; not set: 1s."""
    delay: Duration | None = None
    """Time before each later redelivery without a multiplier; not set: as initial_delay."""
    multiplier: float | None = Field(default=None, ge=1)
    """Factor between successive delays; not set, or 1: constant delay."""
    max_delay: Duration | None = None
    """The longest delay."""
    jitter: float | None = Field(default=None, ge=0, le=1)
    """Random variation of each delay, as a fraction such as 0.15."""
    pre_dispatch_check: bool | None = None
    """Whether transacted listeners make a message that arrives after too many deliveries a dead
    letter before its handler is called; not set: true."""

    def apply(self, policy: RedeliveryPolicy) -> RedeliveryPolicy:
        """Return a copy of `policy` with the keys that are set here."""
        own: dict[str, Any] = {
            "redelivery_delay": self.delay,
            "pre_dispatch_check": self.pre_dispatch_check,
        }
        changed = RetryPolicy(**self.model_dump(exclude={"delay", "pre_dispatch_check"}))
        return replace(
            changed.apply(policy), **{name: v for name, v in own.items() if v is not None}
        )

    def without_delays(self) -> Self:
        """Return the same settings with only the maximum."""
        return type(self)(maximum=self.maximum, pre_dispatch_check=self.pre_dispatch_check)

    @model_validator(mode="after")
    def _check_delays(self) -> Self:
        first, most = self.initial_delay, self.max_delay
        if first is not None and most is not None and most < first:
            raise ValueError(f"max_delay ({most:g}s) is less than initial_delay ({first:g}s)")
        return self


class RetrySettings(Section):
    """The changes to a listener's RetryPolicy (`listeners.<id>.retry`), or the policy of listeners
    without their own (`jms.listener.retry`).
    """

    maximum: int | None = Field(default=None, ge=-1)
    """Redeliveries before the message becomes a dead letter; 0: none, -1: no limit."""
    initial_delay: Duration | None = None
    """Time before the first redelivery, and before each one without a multiplier."""
    multiplier: float | None = Field(default=None, ge=1)
    """Factor between successive delays; 1: constant delay."""
    max_delay: Duration | None = None
    """The longest delay."""
    jitter: float | None = Field(default=None, ge=0, le=1)
    """Random variation of each delay, as a fraction such as 0.15."""
    retry_on: list[Text] | None = None
    """Exceptions after which the message is redelivered, as module.Class or the name of a built-in
    exception; after any other, it becomes a dead letter at once."""
    no_retry_for: list[Text] | None = None
    """Exceptions after which the message is not redelivered but becomes a dead letter at once."""
    dead_letter: Text | None = None
    """The destination of this listener's dead letters; not set: the broker's."""

    def changes(self) -> dict[str, Any]:
        """Return the keys that are set, under the names of RetryPolicy's fields."""
        given = self.model_dump(exclude_none=True)
        for name in ("retry_on", "no_retry_for"):
            if name in given:
                given[name] = tuple(_exception_class(text, name) for text in given[name])
        return given


def _exception_class(text: str, setting: str) -> type[BaseException]:
    found = getattr(builtins, text, None) if "." not in text else imported_class(text, setting)
    if not isinstance(found, type) or not issubclass(found, BaseException):
        raise ConfigurationException(
            f"{setting}: {text!r} is not an exception", hint="write module.Class"
        )
    return found


_ACKNOWLEDGE_MODES = {
    "auto": AcknowledgeMode.AUTO,
    "client": AcknowledgeMode.CLIENT,
    "dupsok": AcknowledgeMode.DUPS_OK,
}
_DELIVERY_MODES = {
    "persistent": DeliveryMode.PERSISTENT,
    "nonpersistent": DeliveryMode.NON_PERSISTENT,
}


def _acknowledge_mode(value: object) -> AcknowledgeMode:
    """Return the mode: auto, client, dups_ok or a number; case, `-` and `_` do not matter."""
    text = str(value)
    mode = _ACKNOWLEDGE_MODES.get(_bare(text))
    if mode is not None:
        return mode
    try:
        return AcknowledgeMode(int(text))
    except ValueError:
        raise ValueError(
            f"'{text}' is neither a known acknowledge mode (auto, client, or dups_ok) "
            "nor an integer value"
        ) from None


def _delivery_mode(value: object) -> DeliveryMode:
    """Return the mode: persistent or non-persistent; case, `-` and `_` do not matter."""
    if isinstance(value, DeliveryMode):
        return value
    mode = _DELIVERY_MODES.get(_bare(str(value)))
    if mode is None:
        raise ValueError(f"{str(value)!r} is neither persistent nor non_persistent")
    return mode


def _bare(text: str) -> str:
    return re.sub(r"[-_\s]", "", text).lower()


Acknowledge = Annotated[
    AcknowledgeMode,
    BeforeValidator(_acknowledge_mode),
    PlainSerializer(lambda mode: mode.name.lower(), return_type=str, when_used="json"),
    WithJsonSchema({"anyOf": [{"enum": ["auto", "client", "dups_ok"]}, {"type": "integer"}]}),
]
Delivery = Annotated[
    DeliveryMode,
    BeforeValidator(_delivery_mode),
    PlainSerializer(lambda mode: mode.name.lower(), return_type=str, when_used="json"),
    WithJsonSchema({"enum": ["persistent", "non_persistent"]}),
]
CacheLevelName = Literal["none", "connection", "session", "consumer", "auto"]
Prefetch = Annotated[int, Field(ge=0, le=32767)] | Literal["auto"]
UnreadableMessages = Literal["dead_letter", "redeliver"]


class BackOffSettings(Section):
    """The waits between attempts to restore a lost connection. Spring: BackOff."""

    interval: Duration = 5.0
    """Time before the second attempt, and before each further one without a multiplier."""
    multiplier: float = Field(default=1.0, ge=1)
    """Factor between successive waits."""
    max_interval: Duration = 30.0
    """The longest wait, with a multiplier."""
    max_attempts: int | None = Field(default=None, ge=1)
    """Attempts after which the listener is stopped; not set: no limit."""

    def back_off(self) -> BackOff:
        """Return the back-off for a container."""
        if self.multiplier > 1:
            return ExponentialBackOff(
                self.interval,
                self.multiplier,
                max_interval=self.max_interval,
                max_attempts=self.max_attempts,
            )
        return FixedBackOff(self.interval, self.max_attempts)


class ReplyQosSettings(Section):
    """Quality of service of a listener's replies. Spring: replyQosSettings."""

    delivery_mode: Delivery = DeliveryMode.PERSISTENT
    """persistent or non_persistent."""
    priority: int = Field(default=4, ge=0, le=9)
    """0 to 9."""
    time_to_live: Duration = 0.0
    """Time after which replies expire; 0: never."""

    def qos(self) -> QosSettings:
        """Return the QosSettings for a container."""
        return QosSettings(self.delivery_mode, self.priority, self.time_to_live)


class ListenerSessionSettings(Section):
    """The listeners' sessions (`jms.listener.session`)."""

    acknowledge_mode: Acknowledge = AcknowledgeMode.AUTO
    """auto, client, dups_ok or a number; no effect if transacted."""
    transacted: bool | None = None
    """Whether sessions are transacted: a message is consumed when its handler has returned, and
    redelivered if it fails. Not set: true."""


class ListenerSettings(Section):
    """Defaults of all listeners (`jms.listener`). Spring: spring.jms.listener."""

    auto_startup: bool = True
    """Whether listeners start with the application."""
    min_concurrency: int | None = Field(default=None, ge=1)
    """Minimum number of consumers of each listener."""
    max_concurrency: int | None = Field(default=None, ge=1)
    """Maximum number of consumers of each listener."""
    receive_timeout: ReceiveTimeout = 1.0
    """Maximum wait of one receive; 0: no limit, -1: do not wait."""
    max_messages_per_task: int | None = None
    """Receives after which a consumer's task ends and a new one starts; negative: never."""
    recovery_interval: Duration | None = None
    """Time between two attempts to restore a lost connection; not set: 5s."""
    prefetch: Prefetch | None = "auto"
    """Messages sent to each consumer of a queue ahead of their acknowledgements. auto: few if the
    number of consumers may grow, so that new ones get their share, unless the connection's prefetch
    is set (prefetch, jms.prefetchPolicy.queuePrefetch); null: the connection's prefetch."""
    unreadable_messages: UnreadableMessages = "dead_letter"
    """Treatment of messages that cannot be converted to the handler's arguments. dead_letter: they
    become dead letters at once; redeliver: as after any other failure."""
    retry: RetrySettings | None = None
    """The retry policy of listeners whose decorator has none. It does not apply to listeners with
    `redelivery`, nor to acknowledge modes that consume a message even if its handler fails (auto,
    dups_ok)."""
    cache_level: CacheLevelName | None = None
    """Cache level, the resources kept between messages: none, connection, session, consumer or
    auto."""
    interceptors: list[Text] = Field(default_factory=list)
    """Interceptors around the handlers of the default container factory, outermost first:
    module:name, or the name of an installed one."""
    session: ListenerSessionSettings = ListenerSessionSettings()

    @model_validator(mode="after")
    def _check_concurrency(self) -> Self:
        least, most = self.min_concurrency, self.max_concurrency
        if least is not None and most is not None and most < least:
            raise ValueError(f"max_concurrency ({most}) is less than min_concurrency ({least})")
        return self

    def concurrency(self) -> str | None:
        """Return the range as the container takes it, None if neither end is set.

        Spring Boot: only min n is "n-n", only max m is "1-m".
        """
        least, most = self.min_concurrency, self.max_concurrency
        if least is None and most is None:
            return None
        return f"{least or 1}-{most or least}"


class ListenerSessionOverride(Section):
    """The sessions of one listener (`listeners.<id>.session`)."""

    acknowledge_mode: Acknowledge | None = None
    """auto, client, dups_ok or a number; no effect if transacted."""
    transacted: bool | None = None
    """Whether a message is consumed when its handler has returned, and redelivered if it fails."""


class ListenerOverride(Section):
    """Settings of one `@jms_listener`, by its id (`listeners.<id>`)."""

    destination: Text | list[Text] | None = None
    """The queue or topic, or a list of several."""
    concurrency: Text | None = None
    """Number of consumers, fixed or as a range: "3" or "3-10"."""
    selector: str | None = None
    """The message selector."""
    subscription: Text | None = None
    """The name of the topic subscription."""
    durable: bool | None = None
    """Whether the subscription is durable; then the destination is a topic, and client_id is
    required."""
    prefetch: Prefetch | None = None
    """Messages sent to each consumer ahead of their acknowledgements, or auto."""
    batch_size: int | None = Field(default=None, ge=1, le=32767)
    """Maximum number of messages in a batch; the handler takes a list."""
    batch_timeout: Duration | None = None
    """Time after its first message at which an incomplete batch is passed to the handler; 0: the
    handler gets the messages that have arrived already."""
    batch_fallback: Literal["single", "none"] | None = None
    """single, the default: the last attempt of a batch that failed goes message by message; none:
    the whole batch becomes dead letters."""
    redelivery: RedeliverySettings | None = None
    retry: RetrySettings | None = None
    unreadable_messages: UnreadableMessages | None = None
    """dead_letter or redeliver, for messages that cannot be converted to the handler's
    arguments."""
    errors: Literal["redeliver", "reply"] | None = None
    """reply: an exception of the handler is sent to the requester, and the message consumed."""
    reply_none: bool | None = None
    """Whether the result None is sent to the requester, too."""
    timeout: Duration | None = Field(default=None, ge=0.001)
    """How long one call of the handler may take: an async def handler is cancelled and has failed,
    a def handler is logged and counted."""
    rate_limit: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Messages a second that this process handles at most, with all consumers of the listener."""
    auto_startup: bool | None = None
    """Whether the listener starts with the application."""
    container_factory: str | None = None
    """The provider of the container factory, or a name in `brokers`."""
    client_id: str | None = None
    """The client id of the listener's connection."""
    pub_sub_domain: bool | None = None
    """Whether the destination name means a topic."""
    no_local: bool | None = None
    """Whether messages of a topic that were sent over the same connection are excluded."""
    receive_timeout: ReceiveTimeout | None = None
    """Maximum wait of one receive; 0: no limit, -1: do not wait."""
    max_messages_per_task: int | None = None
    """Receives after which a consumer's task ends and a new one starts; negative: never."""
    idle_consumer_limit: int | None = Field(default=None, ge=1)
    """Number of idle consumers at which no further consumer is added."""
    idle_task_execution_limit: int | None = Field(default=None, ge=1)
    """Number of tasks without a message after which a surplus consumer ends."""
    recovery_interval: Duration | None = None
    """Time between two attempts to restore a lost connection."""
    cache_level: CacheLevelName | None = None
    """Cache level of the listener: none, connection, session, consumer or auto."""
    interceptors: list[Text] | None = None
    """Interceptors of this listener instead of the decorator's, outermost first: module:name, or
    the name of an installed one."""
    session: ListenerSessionOverride = ListenerSessionOverride()
    cron: Text | None = None
    """The cron entry of a @jms_scheduled function; "-": never."""
    fixed_rate: Duration | None = None
    """Time between two calls of a @jms_scheduled function."""
    phase: int | None = None
    """The lifecycle phase: lower phases start first and stop last, after the others have
    finished."""
    acknowledge_after_listener: bool | None = None
    """Whether the container acknowledges messages after the handler in sessions with a
    vendor-specific acknowledge mode; false: the handler acknowledges."""
    expose_listener_session: bool | None = None
    """Whether the template sends with the session of the message that is being handled."""
    accept_messages_while_stopping: bool | None = None
    """Whether a message that is received during a stop is still handled; false: it is returned."""
    idle_receives_per_task_limit: int | None = None
    """Consecutive empty receives after which a surplus consumer ends; negative: never."""
    back_off: BackOffSettings | None = None
    """Waits between attempts to restore a lost connection; recovery_interval then has no effect."""
    reply_pub_sub_domain: bool | None = None
    """Whether the name in @send_to means a topic; not set: as the listener's destination."""
    reply_qos: ReplyQosSettings | None = None
    """Quality of service of the replies; not set: persistent, priority 4, without expiration."""
    transaction_manager: Text | None = None
    """The provider of a transaction manager around each receive."""
    transaction_name: Text | None = None
    """The transaction name; not set: the listener's id."""
    transaction_timeout: Duration | None = None
    """The transaction timeout."""
    task_executor: Text | None = None
    """The provider of the task executor that runs the consumers."""
    error_handler: Text | None = None
    """The provider of the error handler, which is called with each failure."""
    exception_listener: Text | None = None
    """The provider of the exception listener, which is called with failures of the connection."""
    message_converter: Text | None = None
    """The provider of the message converter."""
    destination_resolver: Text | None = None
    """The provider of the destination resolver."""

    @model_validator(mode="after")
    def _check_redelivery(self) -> Self:
        if self.redelivery is not None and self.retry is not None:
            raise ValueError("redelivery and retry contradict each other: set one of them")
        return self

    @property
    def destination_text(self) -> str | None:
        """The destination, a composite one if there are several."""
        given = self.destination
        return ",".join(given) if isinstance(given, list) else given
