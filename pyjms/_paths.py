"""Tells paths from URIs: folders in settings are paths of mounted file systems."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["uri_scheme"]

_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""A scheme of at least two letters: a single one is a drive of Windows."""


def uri_scheme(text: str) -> str | None:
    """Return the scheme of `text` if it is a URI, or None if it is a path."""
    found = _URI.match(text)
    return None if found is None else found[1]
