"""The section `failover` of a broker in application.yaml. (activemq-edges F0)"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic import Field, field_validator

from pyjms._yaml import Duration
from pyjms.settings.section import Section, Text
from pyjms.transport.uri import TransportURI

__all__ = ["FailoverSettings"]

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
        return options | _prefixed(self.nested)


def _option(name: str) -> str:
    return _SPELLINGS.get(name) or re.sub(r"_([a-z])", lambda match: match[1].upper(), name)


def _text(name: str, value: Any) -> str:
    if name in _DELAYS:
        return str(round(value * 1000))
    if isinstance(value, list):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _prefixed(nested: Mapping[str, str]) -> dict[str, str]:
    return {f"nested.{name}": text for name, text in nested.items()}
