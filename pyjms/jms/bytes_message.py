"""The message of raw bytes: written in sequence, read from the start after `reset()`.

No types are recorded: what was written as an int may be read as four bytes. Numbers are
big-endian. (jms-api 7; java.io.DataOutput)
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import ClassVar, Final, TypeVar, cast

from pyjms.errors import MessageEOFException, MessageFormatException, MessageNotReadableException
from pyjms.jms.conversions import fit, fit_bytes, normalize, type_of
from pyjms.jms.message import Message
from pyjms.jms.mutf8 import decode_mutf8, encode_mutf8
from pyjms.jms.typed_access import TypedReads, TypedWrites

__all__ = ["BytesMessage"]

_T = TypeVar("_T")

_LONGEST_UTF: Final = 0xFFFF

_LAYOUTS: Final[dict[str, struct.Struct]] = {
    "boolean": struct.Struct(">?"),
    "byte": struct.Struct(">b"),
    "unsigned byte": struct.Struct(">B"),
    "short": struct.Struct(">h"),
    "unsigned short": struct.Struct(">H"),
    "int": struct.Struct(">i"),
    "long": struct.Struct(">q"),
    "float": struct.Struct(">f"),
    "double": struct.Struct(">d"),
}


class BytesMessage(TypedReads, TypedWrites, Message):
    """A message of bytes.

    `data` is the whole body, readable in either mode; the `write_` and `read_` methods process it
    in pieces. A new message is write-only until `reset()`; a received message is read-only until
    `clear_body()`. JMS: javax.jms.BytesMessage (JMS 1.1 section 3.11).
    """

    __slots__ = ("_position",)
    MIME_TYPE: ClassVar[str] = "jms/bytes-message"
    BODY_TYPES: ClassVar[tuple[type, ...]] = (bytes,)
    _body: bytes | bytearray
    _position: int

    def __init__(self, data: bytes | None = None) -> None:
        super().__init__()
        self._reset_body()
        if data:
            self.write_bytes(data)

    @property
    def data(self) -> bytes:
        """The whole body, independent of the read position; setting it replaces the body.

        Raises:
            MessageNotWriteableException: it is set while read-only.
        """
        if self._pending:
            self._load()
        return bytes(self._body)

    @data.setter
    def data(self, data: bytes) -> None:
        fresh = bytearray(cast("bytes", fit(data, "bytes") or b""))
        self._writable()
        self._body = fresh

    @property
    def body_length(self) -> int:
        """The number of bytes; only while readable.

        Raises:
            MessageNotReadableException: the message is write-only.
        """
        return len(self._readable())

    def reset(self) -> None:
        """Make the body read-only and move to its start. JMS: reset."""
        if self._pending:
            self._load()
        self._body = bytes(self._body)
        self.read_only_body = True
        self._position = 0

    def get_body(self, kind: type[_T]) -> _T | None:
        """Reset the message and return the whole body; None if it is empty."""
        self.reset()
        return super().get_body(kind)

    def read_unsigned_byte(self) -> int:
        """Read a byte from 0 to 255."""
        return cast("int", self._read("unsigned byte"))

    def read_unsigned_short(self) -> int:
        """Read 16 bits, unsigned."""
        return cast("int", self._read("unsigned short"))

    def read_char(self) -> str:
        """Read one UTF-16 unit."""
        return chr(cast("int", self._read("unsigned short")))

    def read_utf(self) -> str:
        """Read a string written by `write_utf`.

        Raises:
            MessageFormatException: the bytes are not modified UTF-8.
        """
        start = self._position
        count = cast("int", self._read("unsigned short"))
        body = self._readable()
        end = self._position + count
        if end > len(body):
            self._position = start
            raise self._end(count)
        try:
            text = decode_mutf8(bytes(body[self._position : end]))
        except ValueError as error:
            self._position = start
            raise MessageFormatException(
                f"Invalid modified UTF-8 at offset {start}: {error}"
            ) from error
        self._position = end
        return text

    def read_bytes(self, length: int | None = None) -> bytes | None:
        """Read up to `length` bytes, by default all remaining ones; None at the end.

        JMS: readBytes(byte[]), which returns -1 instead of None.
        """
        body = self._readable()
        if self._position >= len(body):
            return None
        end = len(body) if length is None else self._position + length
        data = bytes(body[self._position : end])
        self._position += len(data)
        return data

    def write_char(self, value: str) -> None:
        """Write one UTF-16 unit."""
        unit = ord(cast("str", fit(value, "char")))
        body = self._writable()
        body += unit.to_bytes(2, "big")

    def write_utf(self, value: str) -> None:
        """Write a 2-byte count and the string in modified UTF-8.

        Raises:
            MessageFormatException: it is not a str, or longer than 65535 bytes.
        """
        text = fit(value, "String")
        if not isinstance(text, str):
            raise TypeError("write_utf needs a string, not None")
        data = encode_mutf8(text)
        if len(data) > _LONGEST_UTF:
            raise MessageFormatException(
                f"A string of {len(data)} bytes is too long for write_utf",
                hint="the limit is 65535; write_bytes has none",
            )
        body = self._writable()
        body += len(data).to_bytes(2, "big")
        body += data

    def write_bytes(self, value: bytes, offset: int = 0, length: int | None = None) -> None:
        """Write `value`, or `length` bytes of it from `offset`."""
        data = fit_bytes(value, offset, length)
        if not isinstance(data, bytes):
            raise TypeError("write_bytes needs bytes, not None")
        body = self._writable()
        body += data

    def write_object(self, value: object) -> None:
        """Write a number, bool, str or bytes, as the method for its type does.

        Raises:
            TypeError: it is None.
            MessageFormatException: no method writes such a value.
        """
        if value is None:
            raise TypeError("write_object needs a value, not None")
        value = normalize(value, binary=True, containers=False)
        kind = type_of(value)
        write = _WRITERS.get(kind)
        if write is None:
            self._write(kind, value)
        else:
            write(self, value)

    def _read(self, kind: str) -> object:
        layout = _LAYOUTS[kind]
        body = self._readable()
        if self._position + layout.size > len(body):
            raise self._end(layout.size)
        value: object = layout.unpack_from(body, self._position)[0]
        self._position += layout.size
        return value

    def _write(self, kind: str, value: object) -> None:
        data = _LAYOUTS[kind].pack(fit(value, kind))
        body = self._writable()
        body += data

    def _readable(self) -> bytes | bytearray:
        if not self.read_only_body:
            raise MessageNotReadableException(
                "The message is write-only", hint="call reset() first, or use .data"
            )
        if self._pending:
            self._load()
        return self._body

    def _writable(self) -> bytearray:
        self._check_body_writable()
        body = self._body
        if not isinstance(body, bytearray):  # it was read-only until clear_body()
            body = self._body = bytearray(body)
        return body

    def _end(self, count: int) -> MessageEOFException:
        left = len(self._body) - self._position
        return MessageEOFException(f"Cannot read {count} bytes: {left} are left")

    def _load(self) -> None:
        super()._load()
        self._position = 0

    def _whole_body(self) -> object:
        return self.data or None

    def _reset_body(self) -> None:
        self._body = bytearray()
        self._position = 0


_WRITERS: Final[dict[str, Callable[[BytesMessage, object], None]]] = {
    "char": lambda message, value: message.write_char(cast("str", value)),
    "String": lambda message, value: message.write_utf(cast("str", value)),
    "bytes": lambda message, value: message.write_bytes(cast("bytes", value)),
}
