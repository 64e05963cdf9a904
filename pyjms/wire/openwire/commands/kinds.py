"""The kinds of fields on the wire, by which the marshallers choose what to read and write."""

from __future__ import annotations

from typing import Final

__all__ = [
    "ARRAY",
    "BOOLEAN",
    "BYTE",
    "BYTES",
    "CACHED",
    "INT",
    "LONG",
    "MAGIC",
    "NESTED",
    "SHORT",
    "STRING",
    "THROWABLE",
]

BOOLEAN: Final = 0
BYTE: Final = 1
SHORT: Final = 2
INT: Final = 3
LONG: Final = 4
STRING: Final = 5
BYTES: Final = 6
MAGIC: Final = 7
NESTED: Final = 8
CACHED: Final = 9
ARRAY: Final = 10
THROWABLE: Final = 11
