"""The brokers to which a failover transport may connect, and the order in which it tries them.

Announced brokers (by a broker with updateClusterClients, or by the file of updateURIsURL) come
before those of the URL. With randomize they are shuffled; priority brokers, if preferred, stay
first, and the broker that failed last is tried last. (activemq-edges F1, F7, NW10)

A broker is less trusted than the configuration: see `BrokerList.announced_by_broker`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from pyjms._logger import WarnedOnce, get_logger, shortened
from pyjms.errors import ConfigurationException
from pyjms.transport.discovery.addresses import ENCRYPTED, NETWORK, NEVER, PLAIN, read_address
from pyjms.transport.failover.options import FailoverOptions
from pyjms.transport.uri import TransportURI

__all__ = ["BrokerList"]

logger: Final = get_logger(__name__)

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

        Raises:
            ConfigurationException: an entry is not a URL.
        """
        return self.take_over(
            [self._complete(TransportURI.parse(part)) for part in text.split(",") if part.strip()]
        )

    def found(self, services: Iterable[str]) -> None:
        """Use the brokers that a discovery agent has found as those of the URL, without options.

        Addresses that cannot be used are skipped, and logged once. If none remain, the list stays
        unchanged: a broker whose announcements are not received may still be running.
        """
        found: list[TransportURI] = []
        for text in services:
            try:
                uri, _ = read_address(text)
            except ConfigurationException as error:
                self._warn(text, f"is skipped: {error}")
            else:
                found.append(self._complete(replace(uri, options={})))
        if found:
            self._configured = found
            self._priority = self._priority or found[:1]
            self._acceptable = NETWORK

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
        uri, dropped = read_address(text, self._acceptable, why)
        if dropped:
            self._warn(text, f"is used without {', '.join(dropped)}: the client sets these options")
        return uri

    def _warn(self, text: str, outcome: str) -> None:
        """Log once why `text` is not used unchanged, without its options and user."""
        warned = shortened(text, _LONGEST_QUOTE)
        if not self._warned.is_due(warned):
            return
        logger.warning(
            "The broker %s, which a broker has announced, %s",
            re.sub(r"//[^/]*@", "//***@", warned.partition("?")[0]),
            shortened(outcome, _LONGEST_QUOTE),
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
    for family in (PLAIN, ENCRYPTED):
        if schemes & family:
            schemes |= family
    return frozenset(schemes - NEVER)


def _unique(uris: Iterable[TransportURI]) -> list[TransportURI]:
    unique: dict[tuple[object, ...], TransportURI] = {}
    for uri in uris:
        unique.setdefault(_key(uri), uri)
    return [*unique.values()]


def _key(uri: TransportURI) -> tuple[object, ...]:
    """Return a hashable key that is equal for equal URLs."""
    components = tuple(map(_key, uri.components))
    return uri.scheme, uri.location, frozenset(uri.options.items()), components, uri.path
