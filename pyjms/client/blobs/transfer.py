"""Upload, download and deletion of blob message bodies according to the policy."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import astuple
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol
from urllib.parse import urlsplit

import sniffio
from anyio import to_thread, wrap_file

from pyjms.client.policies import BlobTransferPolicy, upload_url
from pyjms.errors import IllegalStateException, JMSException, UnsupportedOperationException
from pyjms.jms.blob import BlobBody, BlobMessage, BlobStream
from pyjms.runtime.distribution import entry_points

__all__ = ["GROUP", "BlobStrategy", "PolicyTransfer", "new_blob_message"]

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


class PolicyTransfer:
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
        from pyjms.client.blobs import strategies  # noqa: PLC0415 - see its docstring

        kind = strategies.DirectoryStrategy if scheme == "file" else strategies.HttpStrategy
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
