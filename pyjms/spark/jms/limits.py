"""What Spark's read limits mean: how many rows and bytes a batch may take."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

__all__ = ["Limit", "limit_of"]


class Limit(NamedTuple):
    """The most that a batch may take."""

    rows: int = sys.maxsize
    size: int = sys.maxsize


def limit_of(read_limit: Any) -> Limit:
    """Return a limit that Spark hands over; those that say nothing of rows or bytes are none."""
    return Limit(
        getattr(read_limit, "max_rows", None) or sys.maxsize,
        getattr(read_limit, "max_bytes", None) or sys.maxsize,
    )
