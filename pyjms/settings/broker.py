"""The sections of a broker: `activemq` and `brokers.<name>`. Spring: spring.activemq."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, SecretStr, field_validator, model_validator

from pyjms._yaml import Deadline
from pyjms.errors import JMSException
from pyjms.jms.destination import named_kind, parse_destination
from pyjms.settings.blobs import BlobTransferSettings
from pyjms.settings.delivery import PrefetchSettings, PrefetchSize, RedeliverySettings
from pyjms.settings.failover import FailoverSettings
from pyjms.settings.pool import PoolSettings
from pyjms.settings.section import Section, Text
from pyjms.settings.tls import TlsSettings
from pyjms.settings.values import read_text
from pyjms.transport.uri import TransportURI

__all__ = ["ActiveMQSettings", "EmbeddedSettings"]

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
