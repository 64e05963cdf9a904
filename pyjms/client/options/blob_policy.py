"""The transfer policy of blob messages: `jms.blobTransferPolicy.*`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from pyjms.errors import UnsupportedOperationException

__all__ = ["BlobTransferPolicy", "upload_url"]

_FTP: Final = (
    "FTP sends passwords and bodies in clear text, and few firewalls admit its data connections"
)
_REFUSED: Final = {"ftp": _FTP, "ftps": "pyjms has no dependency that supports FTPS"}


@dataclass
class BlobTransferPolicy:
    """How the bodies of blob messages are transferred. ActiveMQ: BlobTransferPolicy."""

    upload_url: str | None = None
    """The directory (file:, http: or https: URL) to upload to; None: `broker_upload_url`."""
    broker_upload_url: str | None = None
    """Like `upload_url`, used if `upload_url` is None."""
    default_upload_url: str = "http://localhost:8080/uploads/"
    """Like `upload_url`, used if the other two are None."""
    buffer_size: int = 131072
    """Bytes that are read and written at a time."""

    @property
    def target(self) -> str:
        """The URL of the upload directory."""
        return self.upload_url or self.broker_upload_url or self.default_upload_url


def upload_url(text: str) -> str:
    """Return `text` if it can be an upload URL.

    Raises:
        UnsupportedOperationException: its scheme is supported by ActiveMQ, but not by pyjms.
        ValueError: it has no scheme.
    """
    scheme = urlsplit(text).scheme
    if not scheme:
        raise ValueError("an upload URL begins with file:, http: or https:")
    if scheme in _REFUSED:
        raise UnsupportedOperationException(
            f"Blob messages cannot use {scheme}: URLs: {_REFUSED[scheme]}",
            hint="use an https: server that accepts PUT, or a file: directory that both ends mount",
        )
    return text
