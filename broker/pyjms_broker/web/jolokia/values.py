"""Conversion of views' values to JSON, and selection of parts by path."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from pyjms_broker.management.object_name import ObjectName
from pyjms_broker.web.jolokia.requests import canonical

__all__ = ["as_json", "part_of", "typed"]

_DEEPEST: Final = 15
"""The default of `maxDepth`, in levels of lists and mappings, as in Jolokia."""


def typed(value: object, java_type: str) -> object:
    """Convert a view's value by its Java type: object names, and tables by message id.

    Source: Jolokia ObjectNameSimplifier, TabularDataExtractor.
    """
    if java_type.endswith(_TABLE) and isinstance(value, list):
        return {
            str(row["JMSMessageID"]): {k: v for k, v in row.items() if k not in _BODIES}
            for row in value
            if isinstance(row, dict) and "JMSMessageID" in row
        } or value
    if "javax.management.ObjectName" not in java_type:
        return value
    if isinstance(value, list | tuple):
        return [_named(each) for each in value]
    return _named(value)


_TABLE: Final = "javax.management.openmbean.TabularData"
_BODIES: Final = frozenset({"Text", "BodyLength", "BodyPreview", "ContentMap"})
"""Columns that ActiveMQ's table of messages lacks, as they depend on the message type."""


def _named(value: object) -> object:
    return ObjectName(value) if isinstance(value, str) else value


def as_json(value: object, depth: int = 0, longest: int = 0) -> object:
    """Convert a view's value to JSON; object names become `{"objectName": name}`.

    Args:
        value: the value.
        depth: the number of levels of lists and mappings, below which there is text; 0: 15.
        longest: the maximum number of list members; 0: all.
    """
    return _json(value, depth or _DEEPEST, longest)


def _json(value: object, depth: int, longest: int) -> object:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, ObjectName):
        return {"objectName": canonical(value)}
    if not isinstance(value, Mapping | Sequence | set | frozenset):
        return str(value)
    if depth <= 0:
        return f"[{type(value).__name__} of {len(value)}]"
    if isinstance(value, Mapping):
        return {str(key): _json(each, depth - 1, longest) for key, each in value.items()}
    members = list(value)[:longest] if longest > 0 else value
    return [_json(each, depth - 1, longest) for each in members]


def part_of(value: object, path: Sequence[str]) -> object:
    """Return the part of a JSON value at a path; None if there is none."""
    for part in path:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part[:9]) < len(value):
            value = value[int(part[:9])]
        else:
            return None
    return value
