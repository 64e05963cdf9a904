"""The datagrams of ActiveMQ's multicast discovery.

`<group>.ActiveMQ-4.alive.%<name>%<url>` every half second, and once with `dead.` instead of
`alive.` when the broker stops. The name is the broker's name or `localhost`; it has no effect.
Source: ActiveMQ MulticastDiscoveryAgent, observed on 5.17.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["LONGEST", "Announcement", "read_datagram"]

LONGEST: Final = 8192
"""The maximum number of bytes that are read of a datagram."""
_TYPE: Final = ".ActiveMQ-4."
_ALIVE: Final = "alive."
_DEAD: Final = "dead."
_DELIMITER: Final = "%"
_LONGEST_URL: Final = 2000


@dataclass(frozen=True)
class Announcement:
    """An announcement that a broker runs, or that it stops."""

    service: str
    is_alive: bool = True
    name: str = "localhost"

    def written(self, group: str) -> bytes:
        """Return the datagram for a group."""
        word = _ALIVE if self.is_alive else _DEAD
        text = f"{group}{_TYPE}{word}{_DELIMITER}{self.name}{_DELIMITER}{self.service}"
        return text.encode()


def read_datagram(data: bytes, group: str) -> Announcement | None:
    """Return the announcement of a datagram in `group`; None: it is for another group.

    Raises:
        ValueError: it is for this group but cannot be read; the text says why.
    """
    prefix = f"{group}{_TYPE}".encode()
    if not data.startswith(prefix):
        return None
    if len(data) > LONGEST:
        raise ValueError("it is too long")
    text = data[len(prefix) :].decode()
    word = _ALIVE if text.startswith(_ALIVE) else _DEAD
    if not text.startswith(word):
        raise ValueError("it says neither alive nor dead")
    start, _, rest = text[len(word) :].partition(_DELIMITER)
    name, _, service = rest.partition(_DELIMITER)
    if start or not service:
        raise ValueError("it names no broker")
    if len(service) > _LONGEST_URL or not service.isprintable() or " " in service:
        raise ValueError("its URL is too long, or has characters that no URL has")
    return Announcement(service, word == _ALIVE, name)
