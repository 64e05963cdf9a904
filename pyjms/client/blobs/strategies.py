"""Blob strategies: bodies are stored in a directory, or on a web server. All calls block.

Imported for the first blob message, since the modules for HTTP take a third as long to import as
the rest of the client. ActiveMQ: FileSystemBlobStrategy and DefaultBlobUploadStrategy.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import IO, BinaryIO, Final, cast
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    UnknownHandler,
    url2pathname,
)

from pyjms.client.policies import BlobTransferPolicy
from pyjms.errors import JMSException, JMSSecurityException

__all__ = ["DirectoryStrategy", "HttpStrategy"]

_TIMEOUT: Final = 60.0
"""Seconds that a server may take for each read and write."""


class DirectoryStrategy:
    """Stores bodies in a directory that senders and receivers share.

    The URLs in messages are chosen by the senders and are not trusted: only files below the upload
    directory in the receiver's options are read or deleted.
    """

    def __init__(self, policy: BlobTransferPolicy) -> None:
        self._buffer_size = policy.buffer_size
        own = (policy.upload_url, policy.broker_upload_url, policy.default_upload_url)
        self._roots = [_path(url) for url in own if url and urlsplit(url).scheme == "file"]

    def upload(self, stream: BinaryIO, directory: str) -> str:
        path = self._checked(f"{directory.rstrip('/')}/{uuid.uuid4().hex}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                shutil.copyfileobj(stream, file, self._buffer_size)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return path.as_uri()

    def open(self, url: str) -> BinaryIO:
        return self._checked(url).open("rb")

    def delete(self, url: str) -> None:
        self._checked(url).unlink()

    def _checked(self, url: str) -> Path:
        path = _path(url)
        if not any(root in path.parents for root in self._roots):
            raise JMSSecurityException(
                f"The body of the blob message is not in the upload directory: {url}",
                hint="set jms.blobTransferPolicy.uploadUrl to the directory that both ends share",
            )
        return path


class HttpStrategy:
    """Stores bodies on a web server that accepts PUT and DELETE, as ActiveMQ's fileserver did.

    Redirects are refused: the sender of a message could choose their target.
    """

    def __init__(self, policy: BlobTransferPolicy) -> None:
        self._buffer_size = policy.buffer_size
        self._opener = OpenerDirector()
        handlers = (ProxyHandler, HTTPHandler, HTTPSHandler, HTTPErrorProcessor, UnknownHandler)
        for handler in handlers:
            self._opener.add_handler(handler())
        self._opener.add_handler(_RaiseStatus())

    def upload(self, stream: BinaryIO, directory: str) -> str:
        url = f"{directory.rstrip('/')}/{uuid.uuid4().hex}"
        self._request("PUT", url, self._blocks(stream)).close()
        return url

    def open(self, url: str) -> BinaryIO:
        return self._request("GET", url)

    def delete(self, url: str) -> None:
        self._request("DELETE", url).close()

    def _request(self, method: str, url: str, data: Iterator[bytes] | None = None) -> BinaryIO:
        headers = {} if data is None else {"Content-Type": "application/octet-stream"}
        request = Request(url, data, headers, method=method)  # noqa: S310 - http and https only
        try:
            return cast("BinaryIO", self._opener.open(request, timeout=_TIMEOUT))
        except HTTPError as error:
            with error:
                raise JMSException(
                    f"{method} of {url} failed: {error.code} {error.reason}",
                    hint="redirects are refused" if 300 <= error.code < 400 else "",
                ) from error
        except HTTPException as error:
            raise JMSException(f"{method} of {url} failed: {error!r}") from error

    def _blocks(self, stream: BinaryIO) -> Iterator[bytes]:
        while block := stream.read(self._buffer_size):
            yield block


class _RaiseStatus(UnknownHandler):
    """Raises an HTTPError for every status but success, including redirects."""

    def http_error_default(
        self, request: Request, response: IO[bytes], code: int, reason: str, headers: object
    ) -> None:
        raise HTTPError(request.full_url, code, reason, headers, response)  # type: ignore[arg-type]


def _path(url: str) -> Path:
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost"):
        raise JMSSecurityException(
            f"The URL of the blob message names another host: {url}",
            hint="bodies are read from file: URLs without a host, or from http: and https: URLs",
        )
    return Path(url2pathname(parts.path)).resolve()  # symbolic links resolved before the check
