"""Sizes in configuration files: bytes, or a number with a unit such as `64mb`."""

from __future__ import annotations

import re
from typing import Annotated, Final, TypeAlias

from pydantic import BeforeValidator, WithJsonSchema

__all__ = ["ByteLimit", "Bytes"]

_FACTORS: Final = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_PERCENT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%")
_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(b|([kmgt])b?)?", re.IGNORECASE)


def _read_size(value: object) -> int:
    match = _SIZE.fullmatch(str(value).strip())
    if match is None or isinstance(value, bool):
        raise ValueError(f"{str(value)!r} is not a size; write bytes, or for instance 64mb or 1gb")
    return int(float(match[1]) * _FACTORS[(match[3] or "").lower()])


Bytes: TypeAlias = Annotated[
    int,
    BeforeValidator(_read_size),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]"}]}
    ),
]
"""A number of bytes, written without a unit or with kb, mb or gb (powers of 1024)."""


def _read_limit(value: object) -> int | str:
    text = str(value).strip()
    if not text.endswith("%"):
        return _read_size(value)
    percent = _PERCENT.fullmatch(text)
    if percent is None or not 0 < float(percent[1]) <= 100:
        raise ValueError(f"{text!r} is not a percentage; write for instance 70%, 100% at most")
    return text


ByteLimit: TypeAlias = Annotated[
    int | str,
    BeforeValidator(_read_limit),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]"}]}
    ),
]
"""A number of bytes, or a string such as `70%` (of the memory or the disk)."""
