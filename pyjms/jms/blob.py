"""The message that refers to a large body, which is stored elsewhere and bypasses the broker.

ActiveMQ: BlobMessage. The message contains a URL; the body is uploaded just before the message is
sent, and downloaded when the receiver reads it.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Final, Protocol, cast

from pyjms.errors import IllegalStateException, JMSException
from pyjms.jms.message import Message
from pyjms.runtime.forwarding import Computed, TypedProperty

OCTET_STREAM = "application/octet-stream"


class BlobBody:
    """The location of a blob message's body: at `url`, or still in a local file or stream."""

    __slots__ = ("deleted_by_broker", "file", "mime_type", "name", "size", "url")

    def __init__(self, url: str | None = None, mime_type: str | None = OCTET_STREAM) -> None:
        self.url: str | None = url
        self.mime_type: str | None = mime_type
        self.deleted_by_broker: bool = False
        self.name: str | None = None
        self.size: int | None = None
        self.file: str | BinaryIO | None = None
        """The path or the stream to be uploaded; None: there is nothing to upload."""


class BlobStream(Protocol):
    """A body as an asynchronous binary file."""

    async def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes, or the rest."""

    async def aclose(self) -> None:
        """Close it."""


class BlobTransfer(Protocol):
    """Transfers bodies of blob messages."""

    async def upload(self, body: BlobBody) -> str:
        """Store the body and return its URL."""

    def open(self, url: str) -> BinaryIO:
        """Return a stream of the body at `url`. Blocks."""

    async def open_async(self, url: str) -> BlobStream:
        """Return a stream of the body at `url`."""

    def delete(self, url: str) -> None:
        """Delete the body at `url`. Blocks."""

    async def delete_async(self, url: str) -> None:
        """Delete the body at `url`."""


class _Remote(Protocol):
    """The command of a received blob message."""

    remote_blob_url: str | None
    mime_type: str | None
    deleted_by_broker: bool


def _set_in_body(self: BlobMessage, name: str, value: str | None) -> None:
    self._check_body_writable()
    setattr(self.body, name, value)


class _OfBody(TypedProperty[str | None]):
    """An attribute of the body that the sender sets."""

    def __init__(self, name: str, doc: str) -> None:
        super().__init__(attrgetter(f"body.{name}"), self._write, doc=doc)
        self._name = name

    def _write(self, message: BlobMessage, value: str | None) -> None:
        _set_in_body(message, self._name, value)

    if TYPE_CHECKING:

        def __set__(self, instance: object, value: str | None) -> None: ...


class BlobMessage(Message):
    """A message whose body is stored outside of the broker, at `url`. ActiveMQ: BlobMessage.

    `Session.create_blob_message` creates one. The name and the size of a file stay with the
    sender: only the URL, the MIME type and `deleted_by_broker` are sent.
    """

    __slots__ = ("transfer",)
    MIME_TYPE: ClassVar[str] = OCTET_STREAM
    raw_body: BlobBody
    transfer: BlobTransfer | None
    """Set by the session that created or delivered the message."""

    def __init__(self, body: BlobBody | None = None, transfer: BlobTransfer | None = None) -> None:
        super().__init__()
        self.raw_body = body or BlobBody()
        self.transfer = transfer

    @property
    def body(self) -> BlobBody:
        """The location of the body and its local file or stream."""
        if self.is_body_encoded:
            self.load_body()
        return self.raw_body

    url: Final = Computed[str | None](
        attrgetter("body.url"),
        "The URL of the body; None: it is not uploaded yet. ActiveMQ: getURL.",
    )
    mime_type: _OfBody = _OfBody(
        "mime_type",
        """The MIME type; application/octet-stream unless set.

        Raises:
            MessageNotWriteableException: it is set while the body is read-only.
        """,
    )
    name: _OfBody = _OfBody(
        "name",
        """The name of the file, only on the sender's side.

        Raises:
            MessageNotWriteableException: it is set while the body is read-only.
        """,
    )
    size: Final = Computed[int | None](
        attrgetter("body.size"),
        "The size of the file in bytes, only on the sender's side after the upload, or None.",
    )
    deleted_by_broker: Final = Computed[bool](
        attrgetter("body.deleted_by_broker"),
        "Whether the body was uploaded for this message only and may be deleted with it.",
    )

    def get_input_stream(self) -> BinaryIO:
        """Return the body as a binary file, to be closed by the caller. Blocks, as its reads do.

        ActiveMQ: BlobMessage.getInputStream.

        Raises:
            IllegalStateException: called on an event loop, or there is no body.
            JMSException: the body cannot be read, or its URL must not be read here.
        """
        return self._transfer().open(self._url())

    async def get_input_stream_async(self) -> BlobStream:
        """Return the body as an asynchronous binary file, to be closed with `aclose`.

        Its reads are done in threads.

        Raises:
            IllegalStateException: there is no body.
            JMSException: as for `get_input_stream`.
        """
        return await self._transfer().open_async(self._url())

    async def upload(self) -> None:
        """Upload a local body, as `send` does.

        Raises:
            JMSException: it cannot be uploaded; the message is not sent.
        """
        body = self.body
        if body.file is not None:
            body.url = await self._transfer().upload(body)
            body.file = None

    def delete(self) -> None:
        """Delete the uploaded body. Blocks. ActiveMQ: ActiveMQBlobMessage.deleteFile.

        Raises:
            IllegalStateException: as for `get_input_stream`.
            JMSException: it cannot be deleted, or its URL must not be used here.
        """
        self._transfer().delete(self._url())

    async def delete_async(self) -> None:
        """Delete the uploaded body.

        Raises:
            JMSException: as for `delete`.
        """
        await self._transfer().delete_async(self._url())

    def _url(self) -> str:
        url = self.url
        if url is None:
            raise IllegalStateException(
                "The blob message has no body to read",
                hint="its file or stream is uploaded when the message is sent",
            )
        return url

    def _transfer(self) -> BlobTransfer:
        transfer: BlobTransfer | None = getattr(self, "transfer", None)
        if transfer is None:
            raise JMSException("The blob message belongs to no session")
        return transfer

    def load_body(self) -> None:
        command = cast("_Remote", cast("Any", self.source).command)
        self.raw_body = BlobBody(command.remote_blob_url, command.mime_type)
        self.raw_body.deleted_by_broker = command.deleted_by_broker
        self.is_body_encoded = False

    def _reset_body(self) -> None:
        self.raw_body = BlobBody()
