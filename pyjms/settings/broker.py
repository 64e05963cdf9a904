"""The sections of a broker: `activemq` and `brokers.<name>`. Spring: spring.activemq."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    SecretStr,
    field_validator,
    model_validator,
)

from pyjms.client.policies import BlobTransferPolicy, upload_url
from pyjms.configuration.section import (
    Deadline,
    Duration,
    Section,
    Text,
    duration_schema,
    read_duration,
    read_text,
)
from pyjms.errors import JMSException
from pyjms.jms.destination import named_kind, parse_destination
from pyjms.settings.listeners import PrefetchSettings, PrefetchSize, RedeliverySettings
from pyjms.settings.tls import TlsSettings
from pyjms.transport.uri import TransportURI

if TYPE_CHECKING:
    from pyjms.connection.pool import PoolOptions

_SPELLINGS: Final = {
    "priority_uris": "priorityURIs",
    "update_uris_supported": "updateURIsSupported",
    "update_uris_url": "updateURIsURL",
    "rebalance_update_uris": "rebalanceUpdateURIs",
}
_DELAYS: Final = frozenset({"initial_reconnect_delay", "max_reconnect_delay", "timeout"})


class FailoverSettings(Section):
    """The failover transport: several brokers, or reconnecting to one.

    ActiveMQ: failover:(uri,uri)?options. Options that are not set have ActiveMQ's defaults;
    docs/failover.md describes them.
    """

    uris: list[Text] = Field(default_factory=list)
    """The broker URLs, such as tcp://a:61616, instead of broker_url."""
    initial_reconnect_delay: Duration | None = None
    """Initial time between two passes over the brokers; not set: 10ms."""
    max_reconnect_delay: Duration | None = None
    """Longest time between two passes; not set: 30s."""
    use_exponential_back_off: bool | None = None
    """Whether the time between passes grows; not set: true."""
    reconnect_delay_exponent: float | None = Field(default=None, ge=1)
    """The factor by which the time between passes grows; not set: 2."""
    max_reconnect_attempts: int | None = Field(default=None, ge=-1)
    """Passes before the client gives up; 0: do not reconnect, not set or -1: no limit."""
    startup_max_reconnect_attempts: int | None = Field(default=None, ge=-1)
    """Passes before the client gives up its first connection; not set or -1: as
    max_reconnect_attempts."""
    warn_after_reconnect_attempts: int | None = Field(default=None, ge=0)
    """Number of failed passes between two warnings; 0: warn only after the first; not set: 10."""
    randomize: bool | None = None
    """Whether the brokers are tried in a random order; not set: true."""
    timeout: Duration | None = None
    """Maximum wait of a send for a connection; not set: no limit."""
    backup: bool | None = None
    """Whether connections to further brokers are opened as backups; not set: false."""
    backup_pool_size: int | None = Field(default=None, ge=1)
    """Number of backup connections; not set: 1."""
    priority_backup: bool | None = None
    """Whether some brokers are preferred, and returned to after an outage; not set: false."""
    priority_uris: list[Text] | None = None
    """The preferred brokers; not set: the first one."""
    track_messages: bool | None = None
    """Whether the latest messages that were sent without waiting for a response are sent again
    after a reconnect; not set: false."""
    track_transaction_producers: bool | None = None
    """Whether messages of producers that were closed in an open transaction are also sent again
    after a reconnect; not set: true."""
    max_cache_size: int | None = Field(default=None, ge=0)
    """Size of the cache of these messages, in bytes; not set: 131072."""
    update_uris_supported: bool | None = None
    """Whether the list of brokers that a broker announces is used; not set: true."""
    update_uris_url: Text | None = None
    """A file with broker URLs, file:/etc/brokers, or a web page with them; read before every
    pass."""
    rebalance_update_uris: bool | None = None
    """Whether clients are spread over the announced brokers; not set: true."""
    reconnect_supported: bool | None = None
    """Whether the client moves to another broker at its broker's request; not set: true."""
    nested: dict[str, Text] = Field(default_factory=dict)
    """Options of each broker's URL, such as keepAlive: "true"."""

    @field_validator("uris", "priority_uris")
    @classmethod
    def _check_uris(cls, uris: list[str] | None) -> list[str] | None:
        for uri in uris or ():
            TransportURI.parse(uri)
        return uris

    def uri(self, broker_url: str | None) -> TransportURI:
        """Return the failover URL with these brokers or those of `broker_url`, and these options.

        Raises:
            ValueError: both or neither name brokers, or both set an option.
        """
        if self.uris and broker_url:
            raise ValueError("failover.uris and broker_url both name brokers: set one of them")
        if self.uris:
            brokers = tuple(map(TransportURI.parse, self.uris))
            return TransportURI("failover", options=self._options(), components=brokers)
        uri = TransportURI.parse(broker_url or "tcp:")
        if uri.scheme != "failover":
            raise ValueError("failover is set, but there are no brokers: write failover.uris")
        options = self._options()
        for name in sorted(options.keys() & uri.options.keys()):
            raise ValueError(f"failover and broker_url both have {name}: set one of them")
        return replace(uri, options={**uri.options, **options})

    def _options(self) -> dict[str, str]:
        values = self.model_dump(exclude_none=True, exclude={"uris", "nested"})
        options = {_option(name): _text(name, value) for name, value in values.items()}
        return options | _nested_options(self.nested)


def _option(name: str) -> str:
    return _SPELLINGS.get(name) or re.sub(r"_([a-z])", lambda match: match[1].upper(), name)


def _text(name: str, value: Any) -> str:
    if name in _DELAYS:
        return str(round(value * 1000))
    if isinstance(value, list):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _nested_options(nested: Mapping[str, str]) -> dict[str, str]:
    return {f"nested.{name}": text for name, text in nested.items()}


def _patience(value: object) -> float | None:
    if value is None:
        return None
    seconds = read_duration(value)
    return None if seconds < 0 else seconds


def _patience_text(seconds: float | None) -> str:
    return "-1" if seconds is None else f"{seconds:g}s"


Patience = Annotated[
    float | None,
    BeforeValidator(_patience),
    PlainSerializer(_patience_text, when_used="json"),
    duration_schema("a duration with its unit: 500ms, 30s, 5m, 1h; -1 waits for ever"),
]
"""Seconds to wait; None, written -1 as in Spring Boot: for ever."""


def _or_never(value: object) -> object:
    """Return Spring Boot's -1 as 0."""
    return 0 if read_duration(value) < 0 else value


class PoolSettings(Section):
    """A pool of connections, for template and listeners. Spring: spring.activemq.pool."""

    enabled: bool = False
    """Whether connections are pooled (JmsPoolConnectionFactory); then jms.cache has no effect."""
    max_connections: int = Field(default=1, ge=1)
    """Maximum number of connections, shared round-robin."""
    max_sessions_per_connection: int = Field(default=500, ge=-1)
    """Maximum number of sessions in use per connection and acknowledge mode; -1: no limit."""
    idle_timeout: Duration = 30.0
    """Time after which an unused connection is closed; 0: never."""
    expiry_timeout: Duration = 0.0
    """Age at which a connection is replaced once it is unused; 0: no limit."""
    connection_timeout: Deadline = 30.0
    """Maximum wait for a connection to be opened; 0: no limit."""
    block_if_full: bool = True
    """Whether to wait for a session while all are in use; false: raise an error."""
    block_if_full_timeout: Patience = None
    """Maximum wait for a session; -1: no limit."""
    create_connection_on_startup: bool = True
    """Whether the first connection is opened when the application starts."""
    use_anonymous_producers: bool = True
    """Whether the producers of a session share one anonymous producer."""
    explicit_producer_cache_size: int = Field(default=0, ge=0)
    """Number of producers that a session keeps open if they are not shared."""
    reconnect_on_exception: bool = True
    """Whether a connection that reports an exception is replaced at once."""
    time_between_expiration_check: Annotated[Duration, BeforeValidator(_or_never)] = 0.0
    """Interval between checks of unused connections in the background; 0 or -1: only when
    connections are borrowed and returned."""

    def options(self) -> PoolOptions:
        """Return these settings as options of a pool."""
        from pyjms.connection.pool import PoolOptions  # noqa: PLC0415 - few have pools

        return PoolOptions(**self.model_dump(exclude={"enabled"}))


class BlobTransferSettings(Section):
    """The storage of the bodies of blob messages. ActiveMQ: BlobTransferPolicy."""

    upload_url: str | None = None
    """The URL of the upload directory: file:, http:, https:, or a scheme that a package adds."""
    broker_upload_url: str | None = None
    """The upload directory if upload_url is not set."""
    default_upload_url: str | None = None
    """The upload directory if neither is set; not set: http://localhost:8080/uploads/."""
    buffer_size: int | None = Field(default=None, ge=1)
    """Size of the buffer for reading and writing, in bytes; not set: 131072."""

    @field_validator("upload_url", "broker_upload_url", "default_upload_url")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        try:
            return None if url is None else upload_url(url)
        except JMSException as error:
            raise ValueError(str(error)) from error

    def apply(self, policy: BlobTransferPolicy) -> None:
        """Copy the configured values to a policy; its other values stay."""
        for name, value in self.model_dump(exclude_none=True).items():
            setattr(policy, name, value)


# Unlike Spring's, with a scheduler, so that delayed messages are not delivered at once.
EMBEDDED_BROKER_URL = "vm://localhost?broker.persistent=false&broker.schedulerSupport=true"
NETWORK_BROKER_URL = "tcp://localhost:61616"
_PLAIN = ("tcp:", "nio:", "auto:", "auto+nio:")


class EmbeddedSettings(Section):
    """The broker inside the application (`activemq.embedded`)."""

    enabled: bool = True
    """Whether the embedded broker is used when no broker_url is set."""


class ActiveMQSettings(Section):
    """A broker and its connections (`activemq`, `brokers.<name>`). Spring: spring.activemq."""

    broker_url: str | None = None
    """The broker's URL, such as tcp://host:61616; not set: a broker inside the application."""
    user: Text | None = None
    """The user name."""
    user_name: Text | None = None
    """Alias of user, named as in the connection factory."""
    password: Annotated[SecretStr, BeforeValidator(read_text)] | None = None
    """The password; never shown."""
    tls: TlsSettings | None = None
    """TLS certificates and versions for ssl:// URLs; options of the URL override them."""
    failover: FailoverSettings | None = None
    """The failover transport: several brokers, or reconnecting to one."""
    embedded: EmbeddedSettings = EmbeddedSettings()
    close_timeout: Deadline = 15.0
    """Maximum wait for the broker's response to a close; 0: no limit. This key and the following
    ones, if set, override options of broker_url (jms.closeTimeout)."""
    send_timeout: Deadline = None
    """Maximum wait for the broker's response to a send; 0: no limit."""
    redelivery: RedeliverySettings = RedeliverySettings()
    redelivery_by_destination: dict[str, RedeliverySettings] = Field(default_factory=dict)
    """Redelivery by destination, with wildcards: orders.>, topic://prices.*. The most specific
    entry applies; keys that it does not set are as in redelivery."""
    prefetch: PrefetchSize | PrefetchSettings | None = None
    """Messages sent to each consumer ahead of their acknowledgements; 0: each receive pulls one.
    A number for all kinds of consumers, or a section with a number for each kind. Not set: 1000 on
    queues, and ActiveMQ's other defaults."""
    blob_transfer_policy: BlobTransferSettings = BlobTransferSettings()
    pool: PoolSettings = PoolSettings()
    non_blocking_redelivery: bool = False
    """Whether later messages are delivered while a message waits for its redelivery."""
    stats_enabled: bool = False
    """Whether statistics of connections, sessions, producers and consumers are collected."""

    @model_validator(mode="after")
    def _check_user(self) -> Self:
        if self.user is not None and self.user_name is not None:
            raise ValueError("user and user_name are the same: set one of them")
        return self

    @field_validator("redelivery_by_destination")
    @classmethod
    def _check_destinations(
        cls, policies: dict[str, RedeliverySettings]
    ) -> dict[str, RedeliverySettings]:
        for name in policies:
            try:
                named_kind(name)
                parse_destination(name)
            except JMSException as error:
                raise ValueError(str(error)) from error
        return policies

    @model_validator(mode="after")
    def _check_url(self) -> Self:
        try:
            uri = None if self.failover is None else self.failover.uri(self.broker_url)
        except JMSException as error:
            raise ValueError(str(error)) from error
        urls = (
            [self.broker_url or "tcp:"] if uri is None else [f"{u.scheme}:" for u in uri.components]
        )
        if self.tls is not None and all(url.lower().startswith(_PLAIN) for url in urls):
            raise ValueError("tls is set, but broker_url is not encrypted: write ssl://host:port")
        return self

    def effective_user(self) -> str | None:
        """Return the user name, from either of its keys."""
        return self.user if self.user_name is None else self.user_name

    def effective_broker_url(self) -> str:
        """Return the URL to connect to, with `failover` and `tls` as options. (spring-jms 8.1.1)"""
        if self.failover is None and self.tls is None and self.broker_url:
            return self.broker_url
        if self.failover is not None:
            uri = self.failover.uri(self.broker_url)
        elif self.broker_url:
            uri = TransportURI.parse(self.broker_url)
        else:
            return EMBEDDED_BROKER_URL if self.embedded.enabled else NETWORK_BROKER_URL
        return (uri if self.tls is None else self.tls.added_to(uri)).with_secrets()

    @property
    def is_embedded(self) -> bool:
        """Whether no broker is configured, so that the application embeds one."""
        return self.embedded.enabled and not self.broker_url and self.failover is None

    def without_redelivery_delays(self) -> Self:
        """Return the same settings with the redelivery delays of the URL, for tests."""
        return self.model_copy(
            update={
                "redelivery": self.redelivery.without_delays(),
                "redelivery_by_destination": {
                    name: own.without_delays()
                    for name, own in self.redelivery_by_destination.items()
                },
            }
        )
