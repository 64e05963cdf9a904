"""The brokers that a failover transport may connect to, and in which order it tries them.

Brokers that were announced (by a broker with updateClusterClients, or by the file of updateURIsURL)
come before those of the URL. With randomize they are shuffled; priority brokers, if preferred, stay
first, and the broker that failed last is tried last. (activemq-edges F1, F7, NW10)
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from pyjms.transport.failover.options import FailoverOptions
from pyjms.transport.uri import TransportURI

__all__ = ["BrokerList"]


class BrokerList:
    """The list of one failover transport."""

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
        self.failed: TransportURI | None = None
        """The broker that failed last."""

    def connect_list(self) -> list[TransportURI]:
        """Return the brokers in the order in which to try them."""
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
        """Return the brokers that are preferred to all others."""
        return list(self._priority)

    def is_priority(self, uri: TransportURI) -> bool:
        """Whether `uri` is one of those."""
        return uri in self._priority

    def announce(self, text: str) -> bool:
        """Take over a list of URLs, separated by commas; return whether it differs.

        An empty list changes nothing.

        Raises:
            ConfigurationException: one of them is not a URL.
        """
        uris = _unique(
            self._complete(TransportURI.parse(part)) for part in text.split(",") if part.strip()
        )
        if not uris or uris == self._announced:
            return False
        known, self._announced = self._announced, uris
        return not (len(known) == len(uris) and all(uri in known for uri in uris))

    def complete(self, text: str) -> TransportURI:
        """Return the URL `text` with the options that all brokers of the list have.

        Raises:
            ConfigurationException: it is not a URL.
        """
        return self._complete(TransportURI.parse(text))

    def _complete(self, uri: TransportURI) -> TransportURI:
        return replace(uri, options={**uri.options, **self._nested})

    def __str__(self) -> str:
        return ", ".join(map(str, _unique([*self._announced, *self._configured])))


def _unique(uris: Iterable[TransportURI]) -> list[TransportURI]:
    unique: list[TransportURI] = []
    for uri in uris:
        if uri not in unique:
            unique.append(uri)
    return unique
