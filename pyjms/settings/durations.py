"""Durations in YAML: a number with a unit, `500ms`, `30s`, `5m`, `1h`; seconds in Python."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

__all__ = ["Duration", "parse_duration"]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PATTERN = re.compile(r"(-?\d+(?:\.\d+)?)\s*(ms|s|m|h)")


def parse_duration(value: Any) -> float:
    """Return the seconds that `value` means; 0 and -1 need no unit.

    Raises:
        ValueError: no unit, or no duration at all.

    """
    if isinstance(value, str):
        text = value.strip()
        if match := _PATTERN.fullmatch(text):
            return float(match[1]) * _UNITS[match[2]]
        if text in ("0", "-1"):
            return float(text)
        value = text
    if isinstance(value, int | float) and not isinstance(value, bool) and value in (0, -1):
        return float(value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{value!r} is no duration: write 500ms, 30s, 5m or 1h") from None
    raise ValueError(
        f"a duration needs a unit: {number:g} could mean {number:g}ms (as in Spring) "
        f"or {number:g}s; write which"
    )


Duration = Annotated[
    float,
    BeforeValidator(lambda value: value if type(value) is float else parse_duration(value)),
    WithJsonSchema({"type": ["string", "integer"], "pattern": r"^-?\d+(\.\d+)?\s*(ms|s|m|h)$"}),
]
