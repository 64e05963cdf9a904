"""Requests that come through a reverse proxy: whose they are, and which URL the client sees.

Only what a trusted proxy says is believed, and of the addresses in `X-Forwarded-For` only those
that trusted proxies have written: each appends the address that it sees, so the client is the last
one that is not itself a trusted proxy. `Forwarded` (RFC 7239) is not read: proxies that write the
`X-Forwarded-` headers pass on a `Forwarded` that a client has invented.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, TypeAlias

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Scope

Network: TypeAlias = IPv4Network | IPv6Network

_HOST: Final = re.compile(
    r"[\w.-]{1,253}(?::\d{1,5})?|\[[0-9a-fA-F:.]{2,45}\](?::\d{1,5})?", re.ASCII
)
_PREFIX: Final = re.compile(r"(?:/[\w.~-]{1,100}){1,10}", re.ASCII)
_SCHEMES: Final = frozenset({"http", "https"})
_MOST_ADDRESSES: Final = 20
"""Addresses of `X-Forwarded-For` that are looked at."""

SENT_HOST: Final = "pyjms.sent_host"
"""The key of a request's scope with the header Host that the peer has sent, before `apply`."""
path_prefix: Final[ContextVar[str]] = ContextVar("path_prefix", default="")
"""The path of the site in the client's URLs, `/broker`, of the request that is being answered."""


class TrustedProxies:
    """The proxies whose headers are believed.

    Args:
        networks: their addresses.
    """

    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = tuple(networks)

    def has(self, host: str) -> bool:
        """Return whether a peer is a trusted proxy."""
        return bool(self._networks) and self._is_trusted(_address(host))

    def _is_trusted(self, address: IPv4Address | IPv6Address | None) -> bool:
        return address is not None and any(address in each for each in self._networks)

    def apply(self, scope: Scope) -> Scope:
        """Return the scope of a request as its client has sent it to the proxy.

        `client`, `scheme` and the header Host are then the client's; `path_prefix` is set.
        """
        peer = scope.get("client")
        if peer is None or not self.has(peer[0]):
            path_prefix.set("")
            return scope
        headers = Headers(scope=scope)
        seen = MutableHeaders(raw=list(scope["headers"]))
        host = _first(headers, "x-forwarded-host", _HOST.fullmatch)
        if host is not None:
            seen["host"] = host
        path_prefix.set(_first(headers, "x-forwarded-prefix", _PREFIX.fullmatch) or "")
        scheme = _first(headers, "x-forwarded-proto", _SCHEMES.__contains__)
        return {
            **scope,
            SENT_HOST: headers.get("host", ""),
            "headers": seen.raw,
            "client": self._client(headers, peer),
            "scheme": scheme or scope["scheme"],
        }

    def _client(self, headers: Headers, peer: tuple[str, int]) -> tuple[str, int]:
        """Return the client's address; port 0: unknown."""
        texts = ",".join(headers.getlist("x-forwarded-for")).split(",")
        found = peer
        for text in texts[: -_MOST_ADDRESSES - 1 : -1]:
            address = _address(text)
            if address is None:  # such as `unknown`; what is before it cannot be believed
                break
            found = (str(address), 0)
            if not self._is_trusted(address):
                break
        return found


def _first(headers: Headers, name: str, is_valid: Callable[[str], object]) -> str | None:
    """Return the value of a header that the outermost of several proxies has written."""
    value = headers.get(name, "").partition(",")[0].strip().rstrip("/")
    return value if value and is_valid(value) else None


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """Return the address in `10.0.0.1`, `10.0.0.1:80`, `::1` or `[::1]:80`; None: there is none."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text[:60])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
