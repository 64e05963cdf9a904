"""Schemes of ActiveMQ that are refused on both ends, each with the reason and what to use instead.

The decision for each of them is in docs/tls.md; `pyjms.transport.registry` and the broker's
connectors use the table.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["UNSUPPORTED", "Refusal"]


class Refusal(NamedTuple):
    """Why a scheme is not supported, and what to use instead."""

    reason: str
    hint: str


_DATAGRAMS = Refusal(
    "datagrams may be lost or duplicated, which OpenWire over UDP only partly corrects; ActiveMQ "
    "discourages it",
    "use tcp://host:port or ssl://host:port",
)
_HTTP = Refusal(
    "it carries OpenWire as XML of Java's XStream library, by polling, and only ActiveMQ Classic's "
    "own broker and client support it",
    "use tcp:// or ssl://host:port",
)
UNSUPPORTED: dict[str, Refusal] = {
    "udp": _DATAGRAMS,
    "multicast": Refusal(
        "it sends each message to all brokers of a network, without acknowledgements",
        "use discovery:(multicast://default) to find brokers, and a topic to reach many consumers",
    ),
    "http": _HTTP,
    "https": Refusal(_HTTP.reason, "use ssl://host:port"),
}
