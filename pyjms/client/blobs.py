"""Blob messages: upload, download and deletion of their bodies, by one strategy per URL scheme.

Bodies are stored in a directory, or on a web server. Imported for the first blob message, since the
modules for HTTP take a third as long to import as the rest of the client. ActiveMQ:
FileSystemBlobStrategy and DefaultBlobUploadStrategy.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import astuple
from functools import lru_cache
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any, BinaryIO, Final, Protocol, cast
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

import sniffio
from anyio import to_thread, wrap_file

from pyjms.client.policies import BlobTransferPolicy, upload_url
from pyjms.errors import (
    IllegalStateException,
    JMSException,
    JMSSecurityException,
    UnsupportedOperationException,
)
from pyjms.jms.blob import BlobBody, BlobMessage, BlobStream, BlobTransfer
from pyjms.runtime.distribution import entry_points

__all__ = ["BlobStrategy", "PolicyTransfer", "new_blob_message"]

GROUP: Final = "pyjms.blob_strategies"
"""The entry-point group: a URL scheme, and a callable that returns a strategy for a policy."""

_BUILT_IN: Final = ("file", "http", "https")


class BlobStrategy(Protocol):
    """Stores bodies under URLs of one scheme. Its methods block and must be thread-safe."""

    def upload(self, stream: BinaryIO, directory: str) -> str:
        """Store the content of `stream` below the URL `directory`; return the URL of the body."""

    def open(self, url: str) -> BinaryIO:
        """Return a binary stream of the body at `url`."""

    def delete(self, url: str) -> None:
        """Delete the body at `url`."""


class PolicyTransfer(BlobTransfer):
    """Transfers the bodies of blob messages according to a policy. Thread-safe."""

    def __init__(self, policy: BlobTransferPolicy) -> None:
        self._policy = policy

    async def upload(self, body: BlobBody) -> str:
        """Store the body's file or stream, and return its URL.

        Raises:
            JMSException: it cannot be read or stored.
        """
        return await to_thread.run_sync(self._upload, body)

    async def open_async(self, url: str) -> BlobStream:
        """Return a stream of the body at `url`, which reads in threads; raises like `open`."""
        return wrap_file(await to_thread.run_sync(self._open, url))

    async def delete_async(self, url: str) -> None:
        """Delete the body at `url`; raises like `delete`."""
        await to_thread.run_sync(self._delete, url)

    def _upload(self, body: BlobBody) -> str:
        target, file = self._policy.target, body.file
        assert file is not None
        strategy = self._strategy(target)
        try:
            with Path(file).open("rb") if isinstance(file, str) else nullcontext(file) as stream:
                if isinstance(file, str):
                    body.size = Path(file).stat().st_size
                return strategy.upload(stream, target)
        except OSError as error:
            raise JMSException(
                f"The body of a blob message cannot be uploaded to {target}: {error}",
                hint="see the options jms.blobTransferPolicy.*",
            ) from error

    def open(self, url: str) -> BinaryIO:
        """Return a stream of the body at `url`. Blocks.

        Raises:
            IllegalStateException: called on an event loop.
            JMSException: it cannot be read.
        """
        _refuse_on_a_loop("get_input_stream")
        return self._open(url)

    def delete(self, url: str) -> None:
        """Delete the body at `url`. Blocks.

        Raises:
            IllegalStateException: called on an event loop.
            JMSException: it cannot be deleted.
        """
        _refuse_on_a_loop("delete")
        self._delete(url)

    def _open(self, url: str) -> BinaryIO:
        try:
            return self._strategy(url).open(url)
        except OSError as error:
            raise JMSException(f"The blob at {url} cannot be read: {error}") from error

    def _delete(self, url: str) -> None:
        try:
            self._strategy(url).delete(url)
        except OSError as error:
            raise JMSException(f"The blob at {url} cannot be deleted: {error}") from error

    def _strategy(self, url: str) -> BlobStrategy:
        scheme = urlsplit(url).scheme
        try:
            return _strategy(scheme, *astuple(self._policy))
        except LookupError:
            upload_url(url)  # raises with the reason for schemes that are refused deliberately
            raise UnsupportedOperationException(
                f"Blob messages cannot use {scheme}: URLs: {url}",
                hint=f"known schemes: {', '.join(_BUILT_IN)}; packages may add others ({GROUP})",
            ) from None


@lru_cache(maxsize=64)
def _strategy(scheme: str, *policy: Any) -> BlobStrategy:
    """Return the strategy of a scheme, one instance for all policies with these values.

    Raises:
        LookupError: there is no strategy for the scheme.
    """
    if scheme in _BUILT_IN:
        kind = DirectoryStrategy if scheme == "file" else HttpStrategy
        return kind(BlobTransferPolicy(*policy))
    for point in entry_points(group=GROUP, name=scheme):
        strategy: BlobStrategy = point.load()(BlobTransferPolicy(*policy))
        return strategy
    raise LookupError(scheme)


def _refuse_on_a_loop(call: str) -> None:
    try:
        sniffio.current_async_library()
    except sniffio.AsyncLibraryNotFoundError:
        return
    raise IllegalStateException(
        f"{call}() would block the event loop", hint=f"await message.{call}_async() here"
    )


def new_blob_message(
    policy: BlobTransferPolicy,
    url: str | None,
    *,
    file: str | os.PathLike[str] | None = None,
    stream: BinaryIO | None = None,
    deleted_by_broker: bool | None = None,
) -> BlobMessage:
    """Return a message with the body at `url`, or in a local file or stream.

    Raises:
        TypeError: not exactly one of the three is given.
    """
    if sum(given is not None for given in (url, file, stream)) != 1:
        raise TypeError("create_blob_message() takes one of url, file and stream")
    body = BlobBody(None if url is None else upload_url(url))
    body.deleted_by_broker = url is None if deleted_by_broker is None else deleted_by_broker
    if file is not None:
        body.file = os.fspath(file)
        body.name = Path(file).name
    else:
        body.file = stream
    return BlobMessage(body, PolicyTransfer(policy))


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
        path = self._path_of(f"{directory.rstrip('/')}/{uuid.uuid4().hex}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                shutil.copyfileobj(stream, file, self._buffer_size)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return path.as_uri()

    def open(self, url: str) -> BinaryIO:
        return self._path_of(url).open("rb")

    def delete(self, url: str) -> None:
        self._path_of(url).unlink()

    def _path_of(self, url: str) -> Path:
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
