"""What is wrong with bytes that should be KahaDB's.

Files and peers break the same rules, so a journal's errors are a peer's: one `except` serves both.
"""

from __future__ import annotations

from pyjms.errors import RemoteProtocolError

__all__ = ["KahaDBFormatError"]


class KahaDBFormatError(RemoteProtocolError):
    """Bytes that should be KahaDB's are not; `position` is the offset in them, if known."""
