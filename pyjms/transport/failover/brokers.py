"""The brokers to which a failover transport may connect, and the order in which it tries them.

Announced brokers (by a broker with updateClusterClients, or by the file of updateURIsURL) come
before those of the URL. With randomize they are shuffled; priority brokers, if preferred, stay
first, and the broker that failed last is tried last.

A broker is less trusted than the configuration: see `BrokerList.announced_by_broker`.
(activemq-edges F0, F1, F7, F8, NW10)
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pyjms.errors import ConfigurationException
from pyjms.runtime.backoff import BackOffExecution, ExponentialBackOff, FixedBackOff
from pyjms.runtime.logging import WarnedOnce, get_logger, shorten
from pyjms.transport.options import Options, integer, options_of, read_all
from pyjms.transport.uri import (
    ENCRYPTED_SCHEMES,
    NETWORK_SCHEMES,
    PLAIN_SCHEMES,
    UNANNOUNCED_SCHEMES,
    TransportURI,
    could_not_create,
    read_received_address,
)

logger: Final = get_logger(__name__)

INFINITE = -1


@dataclass(frozen=True)
class FailoverOptions:
    """Options of a failover transport, with ActiveMQ's names and defaults; times in seconds."""

    initial_reconnect_delay: float = 0.01
    max_reconnect_delay: float = 30.0
    use_exponential_back_off: bool = True
    reconnect_delay_exponent: float = 2.0
    max_reconnect_attempts: int = INFINITE
    """Passes over the list of brokers; 0: a lost connection is not replaced."""
    startup_max_reconnect_attempts: int = INFINITE
    """Like `max_reconnect_attempts`, for the first connection; -1: the same number."""
    warn_after_reconnect_attempts: int = 10
    randomize: bool = True
    timeout: float | None = None
    """How long sending a message may wait for a connection; None: for ever."""
    backup: bool = False
    backup_pool_size: int = 1
    priority_backup: bool = False
    priority_uris: tuple[TransportURI, ...] = ()
    """The priority brokers; empty: the first broker of the URL."""
    track_messages: bool = False
    track_transaction_producers: bool = True
    max_cache_size: int = 131072
    update_uris_supported: bool = True
    update_uris_source: Path | str | None = None
    """A file, or a URL of http: or https:, with the brokers' URLs."""
    rebalance_update_uris: bool = True
    reconnect_supported: bool = True

    def limit(self, *, is_first: bool) -> int:
        """Return the maximum number of passes of an outage, or of the first connection.

        A negative number is no limit.
        """
        if is_first and self.startup_max_reconnect_attempts != INFINITE:
            return self.startup_max_reconnect_attempts
        return self.max_reconnect_attempts

    def back_off(self) -> BackOffExecution:
        """Return the waits of one series of failed passes."""
        initial = max(0.0, self.initial_reconnect_delay)
        if not self.use_exponential_back_off:
            return FixedBackOff(initial).start()
        longest = max(initial, self.max_reconnect_delay)
        exponent = self.reconnect_delay_exponent
        return ExponentialBackOff(initial, exponent, max_interval=longest).start()


def _timeout(text: str) -> float | None:
    milliseconds = integer(text)
    return milliseconds / 1000 if milliseconds >= 0 else None


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError("write a number") from None
    if not number >= 1:
        raise ValueError("write a number of 1 or more")
    return number


def _uris(text: str) -> tuple[TransportURI, ...]:
    return tuple(TransportURI.parse(part) for part in text.split(",") if part.strip())


def _source(text: str) -> Path | str | None:
    if not text:
        return None
    scheme, colon, rest = text.partition(":")
    if not colon or len(scheme) == 1:  # C:\brokers
        return Path(text)
    if scheme.lower() in ("http", "https") and rest.startswith("//"):
        return text
    if scheme.lower() != "file":
        raise ValueError("name a file, file:/etc/brokers, or a URL of http: or https:")
    return Path("/" + rest.lstrip("/") if rest.startswith("/") else rest)


FAILOVER: Options = {
    **options_of(
        FailoverOptions,
        leave_out=("update_uris_source",),
        reconnect_delay_exponent=_number,
        timeout=_timeout,
        priority_uris=_uris,
    ),
    "backOffMultiplier": ("reconnect_delay_exponent", _number),
    "updateURIsURL": ("update_uris_source", _source),
}
"""Option name in the URL -> (attribute, function that converts the text)."""


def read_failover_options(uri: TransportURI) -> tuple[FailoverOptions, dict[str, str]]:
    """Return the options of a `failover:` URL, and those of `nested.*` without that prefix."""
    nested, rest = uri.split_options("nested.")
    values = read_all(rest, FAILOVER)
    if not uri.components:
        raise could_not_create(
            f"{uri} names no broker",
            hint=f"write {uri.scheme}:(tcp://localhost:61616,tcp://localhost:61617)",
        )
    return FailoverOptions(**values), nested


_LONGEST_TEXT: Final = 64 * 1024
_MOST_URLS: Final = 100
_LONGEST_QUOTE: Final = 200


class BrokerList:
    """The broker list of one failover transport."""

    def __init__(
        self,
        configured: Iterable[TransportURI],
        options: FailoverOptions,
        nested: Mapping[str, str],
        shuffle: Callable[[list[TransportURI]], None] = random.shuffle,
    ) -> None:
        self._options = options
        self._nested = nested
        self._shuffle = shuffle
        self._configured = [self._complete(uri) for uri in configured]
        self._announced: list[TransportURI] = []
        priority = [self._complete(uri) for uri in options.priority_uris]
        self._priority = priority or self._configured[:1]
        self._acceptable = _acceptable_schemes([*self._configured, *priority])
        self._warned = WarnedOnce()
        self.failed: TransportURI | None = None
        """The broker that failed last."""

    def connect_list(self) -> list[TransportURI]:
        """Return the brokers in the order in which they are tried."""
        uris = _unique([*self._announced, *self._configured])
        if self._options.randomize:
            self._shuffle(uris)
        if self._options.priority_backup:
            uris.sort(key=lambda uri: not self.is_priority(uri))
        if self.failed is not None and self.failed in uris:
            uris.remove(self.failed)
            uris.append(self.failed)
        return uris

    def priorities(self) -> list[TransportURI]:
        """Return the brokers that are preferred over all others."""
        return list(self._priority)

    def is_priority(self, uri: TransportURI) -> bool:
        """Return whether `uri` is a priority broker."""
        return uri in self._priority

    def announce(self, text: str) -> bool:
        """Set the announced brokers from comma-separated URLs; return whether the list differs.

        An empty list changes nothing. The text comes from the configuration: every URL that a
        client may have is accepted.
        """
        return self.take_over(
            [self._complete(TransportURI.parse(part)) for part in text.split(",") if part.strip()]
        )

    def use_found(self, services: Iterable[str]) -> None:
        """Use the brokers that a discovery agent has found as those of the URL, without options.

        Addresses that cannot be used are skipped, and logged once. If none remain, the list stays
        unchanged: a broker whose announcements are not received may still be running.
        """
        found: list[TransportURI] = []
        for text in services:
            try:
                uri, _ = read_received_address(text)
            except ConfigurationException as error:
                self._warn(text, f"is skipped: {error}")
            else:
                found.append(self._complete(replace(uri, options={})))
        if found:
            self._configured = found
            self._priority = self._priority or found[:1]
            self._acceptable = NETWORK_SCHEMES

    def take_over(self, uris: Iterable[TransportURI]) -> bool:
        """Set the announced brokers; return whether the list differs.

        An empty list changes nothing.
        """
        uris = _unique(uris)
        if not uris or uris == self._announced:
            return False
        known, self._announced = self._announced, uris
        return {*map(_key, known)} != {*map(_key, uris)}

    def announced_by_broker(self, text: str) -> list[TransportURI]:
        """Return the brokers of a list that a broker has sent, with the options for all brokers.

        A broker may only announce network addresses: no composite URLs, no schemes without a
        network, no unencrypted scheme unless one is configured, other schemes only if they are
        configured. Options `ssl.*` and `socket.*` are dropped. Skipped entries are logged once.
        """
        if len(text) > _LONGEST_TEXT:
            self._warn(text, f"is skipped: a list is limited to {_LONGEST_TEXT} characters")
            return []
        parts = [part.strip() for part in text.split(",") if part.strip()]
        for part in parts[_MOST_URLS : _MOST_URLS + 1]:
            self._warn(part, f"is skipped: only the first {_MOST_URLS} of a list are used")
        found: list[TransportURI] = []
        for part in parts[:_MOST_URLS]:
            try:
                found.append(self._complete(self._from_broker(part)))
            except ConfigurationException as error:
                self._warn(part, f"is skipped: {error}")
        return found

    def _from_broker(self, text: str) -> TransportURI:
        allowed = ", ".join(sorted(self._acceptable)) or "none"
        why = f"the configured brokers allow only {allowed}"
        uri, dropped = read_received_address(text, self._acceptable, why)
        if dropped:
            self._warn(text, f"is used without {', '.join(dropped)}: the client sets these options")
        return uri

    def _warn(self, text: str, outcome: str) -> None:
        """Log once why `text` is not used unchanged, without its options and user."""
        warned = shorten(text, _LONGEST_QUOTE)
        if not self._warned.is_due(warned):
            return
        logger.warning(
            "The broker %s, which a broker has announced, %s",
            re.sub(r"//[^/]*@", "//***@", warned.partition("?")[0]),
            shorten(outcome, _LONGEST_QUOTE),
        )

    def _complete(self, uri: TransportURI) -> TransportURI:
        return replace(uri, options={**uri.options, **self._nested})

    def __str__(self) -> str:
        return ", ".join(map(str, _unique([*self._announced, *self._configured])))


def _acceptable_schemes(configured: Iterable[TransportURI]) -> frozenset[str]:
    """Return the schemes that a broker may announce to a client of these brokers."""
    schemes: set[str] = set()
    waiting = [*configured]
    while waiting:
        uri = waiting.pop()
        waiting += uri.components
        schemes.add(uri.scheme)
    for family in (PLAIN_SCHEMES, ENCRYPTED_SCHEMES):
        if schemes & family:
            schemes |= family
    return frozenset(schemes - UNANNOUNCED_SCHEMES)


def _unique(uris: Iterable[TransportURI]) -> list[TransportURI]:
    unique: dict[tuple[object, ...], TransportURI] = {}
    for uri in uris:
        unique.setdefault(_key(uri), uri)
    return [*unique.values()]


def _key(uri: TransportURI) -> tuple[object, ...]:
    """Return a hashable key that is equal for equal URLs."""
    components = tuple(map(_key, uri.components))
    return uri.scheme, uri.location, frozenset(uri.options.items()), components, uri.path
