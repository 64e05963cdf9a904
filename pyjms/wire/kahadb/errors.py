"""The error for malformed KahaDB data.

Files and peers violate the same formats, so it is a RemoteProtocolError: one `except` handles both.
"""

from __future__ import annotations

from pyjms.errors import RemoteProtocolError

__all__ = ["KahaDBFormatError"]


class KahaDBFormatError(RemoteProtocolError):
    """The bytes are not valid KahaDB data; `position` is the offset of the error, if known."""
