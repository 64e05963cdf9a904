"""Folders in settings are paths of file systems that are mounted, and no URIs."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["uri_scheme"]

_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""How a URI begins that is no path; one letter is a drive of Windows."""


def uri_scheme(text: str) -> str | None:
    """Return the scheme of a URI; None: it is a path."""
    found = _URI.match(text)
    return None if found is None else found[1]
