"""The sections of listeners: defaults of all (`jms.listener`), single ones (`listeners.<id>`)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from pyjms._yaml import Duration, ReceiveTimeout
from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.listener.backoff import BackOff, ExponentialBackOff, FixedBackOff
from pyjms.settings.delivery import RedeliverySettings, RetrySettings
from pyjms.settings.section import Section, Text
from pyjms.settings.values import read_acknowledge_mode, read_delivery_mode
from pyjms.support.qos import QosSettings

__all__ = [
    "Acknowledge",
    "BackOffSettings",
    "Delivery",
    "ListenerOverride",
    "ListenerSessionOverride",
    "ListenerSessionSettings",
    "ListenerSettings",
    "ReplyQosSettings",
]

Acknowledge = Annotated[
    AcknowledgeMode,
    BeforeValidator(read_acknowledge_mode),
    PlainSerializer(lambda mode: mode.name.lower(), return_type=str, when_used="json"),
    WithJsonSchema({"anyOf": [{"enum": ["auto", "client", "dups_ok"]}, {"type": "integer"}]}),
]
Delivery = Annotated[
    DeliveryMode,
    BeforeValidator(read_delivery_mode),
    PlainSerializer(lambda mode: mode.name.lower(), return_type=str, when_used="json"),
    WithJsonSchema({"enum": ["persistent", "non_persistent"]}),
]
CacheLevelName = Literal["none", "connection", "session", "consumer", "auto"]
Prefetch = Annotated[int, Field(ge=0, le=32767)] | Literal["auto"]
UnreadableMessages = Literal["dead_letter", "redeliver"]

_PROPERTIES: Final = {
    "client_id": "client_id",
    "pub_sub_domain": "pub_sub_domain",
    "no_local": "pub_sub_no_local",
    "receive_timeout": "receive_timeout",
    "max_messages_per_task": "max_messages_per_task",
    "idle_consumer_limit": "idle_consumer_limit",
    "idle_task_execution_limit": "idle_task_execution_limit",
    "recovery_interval": "recovery_interval",
    "cache_level": "cache_level",
    "phase": "phase",
    "acknowledge_after_listener": "acknowledge_after_listener",
    "expose_listener_session": "expose_listener_session",
    "accept_messages_while_stopping": "accept_messages_while_stopping",
    "idle_receives_per_task_limit": "idle_receives_per_task_limit",
    "reply_pub_sub_domain": "reply_pub_sub_domain",
    "transaction_name": "transaction_name",
    "transaction_timeout": "transaction_timeout",
}
"""Keys of `listeners.<id>` that are properties of the container, and their names there."""

_PROVIDED: Final = (
    "transaction_manager",
    "task_executor",
    "error_handler",
    "exception_listener",
    "message_converter",
    "destination_resolver",
)
"""Keys of `listeners.<id>` that name a provider of the application's container."""


class BackOffSettings(Section):
    """The waits between attempts to restore a lost connection. Spring: BackOff."""

    interval: Duration = 5.0
    """Time before the second attempt, and before each further one without a multiplier."""
    multiplier: float = Field(default=1.0, ge=1)
    """Factor by which each further wait grows."""
    max_interval: Duration = 30.0
    """The longest wait, with a multiplier."""
    max_attempts: int | None = Field(default=None, ge=1)
    """Attempts after which the listener is stopped; not set: it never gives up."""

    def back_off(self) -> BackOff:
        """Return the rule."""
        if self.multiplier > 1:
            return ExponentialBackOff(
                self.interval,
                self.multiplier,
                max_interval=self.max_interval,
                max_attempts=self.max_attempts,
            )
        return FixedBackOff(self.interval, self.max_attempts)


class ReplyQosSettings(Section):
    """How the replies of a listener are sent. Spring: replyQosSettings."""

    delivery_mode: Delivery = DeliveryMode.PERSISTENT
    """persistent or non_persistent."""
    priority: int = Field(default=4, ge=0, le=9)
    """0 to 9."""
    time_to_live: Duration = 0.0
    """Time after which replies expire; 0: never."""

    def qos(self) -> QosSettings:
        """Return the settings as a container takes them."""
        return QosSettings(self.delivery_mode, self.priority, self.time_to_live)


class ListenerSessionSettings(Section):
    """The listeners' sessions (`jms.listener.session`)."""

    acknowledge_mode: Acknowledge = AcknowledgeMode.AUTO
    """auto, client, dups_ok or a number; no effect if transacted."""
    transacted: bool | None = None
    """Whether a message is consumed when its handler has returned, and redelivered if it fails.
    Not set: true."""


class ListenerSettings(Section):
    """Defaults of all listeners (`jms.listener`). Spring: spring.jms.listener."""

    auto_startup: bool = True
    """Whether listeners start with the application."""
    min_concurrency: int | None = Field(default=None, ge=1)
    """Minimum number of consumers of each listener."""
    max_concurrency: int | None = Field(default=None, ge=1)
    """Maximum number of consumers of each listener."""
    receive_timeout: ReceiveTimeout = 1.0
    """How long one receive waits; 0: for ever, -1: not at all."""
    max_messages_per_task: int | None = None
    """Receives after which a consumer's task ends and a new one starts; negative: never."""
    recovery_interval: Duration | None = None
    """Time between two attempts to restore a lost connection; not set: 5s."""
    prefetch: Prefetch | None = "auto"
    """Messages sent to each consumer of a queue ahead of their acknowledgements. auto: few where
    the number of consumers may grow, so that each gets its share, unless the connection's is set
    (prefetch, jms.prefetchPolicy.queuePrefetch); null: the connection's."""
    unreadable_messages: UnreadableMessages = "dead_letter"
    """Messages that cannot be converted to the handler's arguments. dead_letter: they become dead
    letters at once; redeliver: as with any other failure."""
    retry: RetrySettings | None = None
    """The retry policy of listeners whose decorator has none. It does not apply to those with
    `redelivery`, nor where messages are consumed whatever their handler does (auto, dups_ok)."""
    cache_level: CacheLevelName | None = None
    """What a listener keeps between messages: none, connection, session, consumer or auto."""
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
    """Number of consumers: "3" or "3-10"."""
    selector: str | None = None
    """The message selector."""
    subscription: Text | None = None
    """The name of the topic subscription."""
    durable: bool | None = None
    """Whether the subscription is durable; the destination then is a topic, and a client_id is
    needed."""
    prefetch: Prefetch | None = None
    """Messages sent to each consumer ahead of their acknowledgements, or auto."""
    batch_size: int | None = Field(default=None, ge=1, le=32767)
    """The handler takes a list: batches of at most this number of messages."""
    batch_timeout: Duration | None = None
    """Time after the first message of a batch until the handler gets it, full or not; 0: it gets
    what has arrived already."""
    redelivery: RedeliverySettings | None = None
    retry: RetrySettings | None = None
    unreadable_messages: UnreadableMessages | None = None
    """dead_letter or redeliver: messages that cannot be converted to the handler's arguments."""
    auto_startup: bool | None = None
    """Whether it starts with the application."""
    container_factory: str | None = None
    """The provider of its container factory, or a name of `brokers`."""
    client_id: str | None = None
    """The client id of its connection."""
    pub_sub_domain: bool | None = None
    """Whether its destination's name means a topic."""
    no_local: bool | None = None
    """Whether a topic's messages that were sent over the same connection are left out."""
    receive_timeout: ReceiveTimeout | None = None
    """How long one receive waits; 0: for ever, -1: not at all."""
    max_messages_per_task: int | None = None
    """Receives after which a consumer's task ends and a new one starts; negative: never."""
    idle_consumer_limit: int | None = Field(default=None, ge=1)
    """Number of idle consumers at which no further consumer is added."""
    idle_task_execution_limit: int | None = Field(default=None, ge=1)
    """Tasks without a message after which a surplus consumer ends."""
    recovery_interval: Duration | None = None
    """Time between two attempts to restore a lost connection."""
    cache_level: CacheLevelName | None = None
    """What the listener keeps between messages: none, connection, session, consumer or auto."""
    interceptors: list[Text] | None = None
    """Interceptors of this listener instead of the decorator's, outermost first: module:name, or
    the name of an installed one."""
    session: ListenerSessionOverride = ListenerSessionOverride()
    cron: Text | None = None
    """The cron entry of a @jms_scheduled; "-": never."""
    fixed_rate: Duration | None = None
    """Time between two calls of a @jms_scheduled."""
    phase: int | None = None
    """The phase: lower ones start first, and stop last, when the others have finished."""
    acknowledge_after_listener: bool | None = None
    """Whether messages of sessions with a vendor's acknowledge mode are acknowledged when the
    handler has returned; false: by the handler."""
    expose_listener_session: bool | None = None
    """Whether the template sends with the session of the message in progress."""
    accept_messages_while_stopping: bool | None = None
    """Whether a message that is received during a stop is still handled; false: it is returned."""
    idle_receives_per_task_limit: int | None = None
    """Empty receives in a row after which a surplus consumer ends; negative: never."""
    back_off: BackOffSettings | None = None
    """Waits between attempts to restore a lost connection; recovery_interval then has no effect."""
    reply_pub_sub_domain: bool | None = None
    """Whether the name in @send_to means a topic; not set: as its destination."""
    reply_qos: ReplyQosSettings | None = None
    """Quality of service of its replies; not set: persistent, priority 4, without expiry."""
    transaction_manager: Text | None = None
    """The provider of a transaction manager around each receive."""
    transaction_name: Text | None = None
    """The name of these transactions; not set: the listener's id."""
    transaction_timeout: Duration | None = None
    """How long such a transaction may take."""
    task_executor: Text | None = None
    """The provider of the task executor that runs its consumers."""
    error_handler: Text | None = None
    """The provider of a function that is called with each failure."""
    exception_listener: Text | None = None
    """The provider of a function that is called with failures of the connection."""
    message_converter: Text | None = None
    """The provider of its message converter."""
    destination_resolver: Text | None = None
    """The provider of its destination resolver."""

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

    def provided(self) -> dict[str, str]:
        """Return the properties of the container that are provided, with the providers' names."""
        given = {name: getattr(self, name) for name in _PROVIDED}
        return {name: provider for name, provider in given.items() if provider is not None}

    def endpoint_settings(self) -> dict[str, Any]:
        """Return what is set, by the names of a JmsListenerEndpoint.

        Without `redelivery`, `retry`, `cron` and `fixed_rate`, which change what the mark says, and
        what `provided` returns.
        """
        sections = {"session", "redelivery", "retry", "back_off", "reply_qos", "cron", "fixed_rate"}
        given = self.model_dump(exclude_unset=True, exclude={*sections, *_PROVIDED})
        mine = {k: v for k, v in given.items() if v is not None or k == "receive_timeout"}
        if "destination" in mine:
            mine["destination"] = self.destination_text
        properties = {_PROPERTIES[k]: mine.pop(k) for k in _PROPERTIES.keys() & mine.keys()}
        session = self.session.model_dump(exclude_unset=True, exclude_none=True)
        properties |= {f"session_{name}": value for name, value in session.items()}
        if "cache_level" in properties:
            properties["cache_level"] = properties["cache_level"].upper()
        if self.back_off is not None:
            properties.pop("recovery_interval", None)
            properties["back_off"] = self.back_off.back_off()
        if self.reply_qos is not None:
            properties["reply_qos_settings"] = self.reply_qos.qos()
        return {**mine, "properties": properties} if properties else mine
