"""Checks of broker addresses that another program has sent.

A broker or a datagram is less trusted than the configuration: an address may only name a host in
the network, and must not have options about local files or checks. (activemq-edges NW10, U7)
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final, NamedTuple

from pyjms.errors import ConfigurationException
from pyjms.transport.uri import COMPOSITE_SCHEMES, TransportURI

__all__ = ["ENCRYPTED", "NETWORK", "NEVER", "PLAIN", "Address", "read_address"]

PLAIN: Final = frozenset({"tcp", "nio", "auto", "auto+nio"})
ENCRYPTED: Final = frozenset({"ssl", "nio+ssl", "auto+ssl", "auto+nio+ssl"})
NETWORK: Final = PLAIN | ENCRYPTED | {"ws", "wss"}
"""The schemes of brokers in the network."""
NEVER: Final = COMPOSITE_SCHEMES | {"vm", "mock", "peer"}
"""Schemes that cannot be announced: they contain other URLs or have effects in this process."""

_LOCAL_OPTIONS: Final = ("ssl.", "socket.")
"""Options about files and checks on the client's side."""
_LABEL = r"[A-Za-z0-9_-]{1,63}"
_HOST: Final = re.compile(
    rf"(?:{_LABEL}(?:\.{_LABEL})*\.?|\[[0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.-]+)?\])(?::\d{{1,5}})?/?"
)
_LONGEST: Final = 2000


class Address(NamedTuple):
    """A broker's address that may be used."""

    uri: TransportURI
    dropped: list[str]
    """The options that were removed from it."""


def read_address(
    text: str, acceptable: frozenset[str] = NETWORK, why: str = "it must be a host in the network"
) -> Address:
    """Check and return an address received from another program.

    Args:
        text: the URL.
        acceptable: the schemes that it may have.
        why: the reason for refusing other schemes.

    Raises:
        ConfigurationException: it must not be used; with the reason.
    """
    scheme = text.partition(":")[0].lower()
    if scheme in NEVER or "(" in text or ")" in text or len(text) > _LONGEST:
        raise ConfigurationException("a broker can only announce network addresses")
    uri = TransportURI.parse(text)
    if scheme not in acceptable:
        raise ConfigurationException(why)
    if scheme in NETWORK and not _HOST.fullmatch(uri.location):
        raise ConfigurationException("it has no valid host and port")
    dropped = [name for name in uri.options if name.lower().startswith(_LOCAL_OPTIONS)]
    kept = {k: v for k, v in uri.options.items() if k not in dropped}
    return Address(replace(uri, options=kept), dropped)
