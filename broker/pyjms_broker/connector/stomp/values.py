"""Parsing of header values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pyjms.errors import RemoteProtocolError

__all__ = ["MAXIMUM_INT", "boolean", "check_kept", "integer", "required"]

MAXIMUM_INT: Final = 2**31 - 1
_MAXIMUM_KEPT: Final = 1024
"""The maximum length of a name that the broker stores: a client may have thousands."""
_MAXIMUM_LONG: Final = 2**63 - 1
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}\Z")


def required(headers: Mapping[str, str], name: str, otherwise: str) -> str:
    """Return a required header.

    Raises:
        RemoteProtocolError: it is missing or empty; the message is `otherwise`, as in ActiveMQ.
    """
    value = headers.get(name)
    if not value:
        raise RemoteProtocolError(otherwise)
    return value


def check_kept(what: str, text: str) -> str:
    """Check the length of a name that the broker stores, and return it.

    Raises:
        RemoteProtocolError: it is too long.
    """
    if len(text) > _MAXIMUM_KEPT:
        raise RemoteProtocolError(
            f"The {what} has {len(text)} characters; at most {_MAXIMUM_KEPT} are allowed"
        )
    return text


def integer(name: str, text: str, lowest: int = 0, highest: int = _MAXIMUM_LONG) -> int:
    """Return a header's number.

    Raises:
        RemoteProtocolError: it is not an integer, or out of range.
    """
    number = int(text) if _INTEGER.match(text.strip()) else None
    if number is None or not lowest <= number <= highest:
        raise RemoteProtocolError(
            f"The header {name} must be a whole number from {lowest} to {highest}: [{text[:100]}]"
        )
    return number


def boolean(name: str, text: str) -> bool:
    """Return a header's boolean value.

    Raises:
        RemoteProtocolError: it is neither true nor false.
    """
    lowered = text.strip().lower()
    if lowered not in {"true", "false"}:
        raise RemoteProtocolError(f"The header {name} must be true or false: [{text[:100]}]")
    return lowered == "true"
