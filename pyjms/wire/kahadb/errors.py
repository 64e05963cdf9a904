"""The error for malformed KahaDB data, and which disk errors are temporary.

Files and peers may violate the same formats, so it is a RemoteProtocolError: one `except` handles
both.
"""

from __future__ import annotations

import errno
from typing import Final

from pyjms.errors import RemoteProtocolError

_PASSING: Final = frozenset(
    (
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.EINTR,
        errno.EAGAIN,
        errno.ETIMEDOUT,
        getattr(errno, "ESTALE", errno.EAGAIN),
    )
)


class KahaDBFormatError(RemoteProtocolError):
    """The bytes are not valid KahaDB data; `position` is the offset of the error, if known."""


def is_passing(error: OSError) -> bool:
    """Return whether reading the same data again may succeed."""
    return error.errno in _PASSING
