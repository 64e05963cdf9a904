"""The message of a sequence of typed values, read from the start after `reset()`.

Each value is read as the type it was written as, or converted as the table in `conversions`
allows; a read that fails leaves the position unchanged. (jms-api 7.4, 7.7, 7.8)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, cast

from pyjms.errors import MessageEOFException, MessageFormatException, MessageNotReadableException
from pyjms.jms.conversions import BODY_READS, NULLS, convert, fit, fit_bytes, normalize
from pyjms.jms.message import Message
from pyjms.jms.typed_access import TypedReads, TypedWrites

__all__ = ["StreamMessage"]


class StreamMessage(TypedReads, TypedWrites, Message):
    """A message of typed values; write-only until `reset()`, read-only once received.

    Reads also raise MessageFormatException if the conversion table has no entry or bytes are only
    partly read, ValueError if a text cannot be converted or an integer is None, and TypeError if a
    float or character is None. JMS: javax.jms.StreamMessage (JMS 1.1 section 3.11).
    """

    __slots__ = ("_bytes_ended", "_offset", "_position")
    MIME_TYPE: ClassVar[str] = "jms/stream-message"
    _body: list[object]
    _position: int
    _offset: int | None  # within a bytes value that is read in pieces
    _bytes_ended: bool  # the last read returned the last piece of a bytes value

    def __init__(self, values: Iterable[object] = ()) -> None:
        super().__init__()
        self._reset_body()
        for value in values:
            self.write_object(value)

    @property
    def values(self) -> list[object]:
        """All values with the types they were written with, independent of the read position."""
        if self._pending:
            self._load()
        return list(self._body)

    def reset(self) -> None:
        """Make the body read-only and move to its start. JMS: reset."""
        if self._pending:
            self._load()
        self.read_only_body = True
        self._position = 0
        self._offset = None
        self._bytes_ended = False

    def read_char(self) -> str:
        """Read the next value as one character."""
        return cast("str", self._read("char"))

    def read_string(self) -> str | None:
        """Read the next value as text; None if it is None."""
        return cast("str | None", self._read("String"))

    def read_object(self) -> object:
        """Read the next value with the type it was written with."""
        value = self._next()
        self._position += 1
        return value

    def read_bytes(self, length: int | None = None) -> bytes | None:
        """Read up to `length` bytes of the next value, all of it by default.

        With a length, the calls read the same value until one of them returns fewer bytes than
        requested, or None; until then every other read fails. The result is also None if the value
        is None, and once after the last piece of the last value.
        JMS: readBytes(byte[]), which returns -1 instead of None.
        """
        if self._bytes_ended and self._position >= len(self._body):
            self._bytes_ended = False
            return None
        value = self._current_bytes()
        if value is None:
            self._position += 1
            return None
        if length is None:
            data = value[self._offset or 0 :]
            self._finish_bytes()
            self._bytes_ended = False
            return data
        start = self._offset or 0
        if self._offset is not None and start >= len(value):
            self._finish_bytes()
            self._bytes_ended = False
            return None
        data = value[start : start + length]
        self._offset = start + len(data)
        if len(data) < length or not value:
            self._finish_bytes()
        return data

    def write_char(self, value: str) -> None:
        """Write one character, a UTF-16 unit."""
        self._write("char", value)

    def write_string(self, value: str | None) -> None:
        """Write a string, or None."""
        self._write("String", value)

    def write_bytes(self, value: bytes | None, offset: int = 0, length: int | None = None) -> None:
        """Write a copy of `value` as one value, or of `length` bytes of it from `offset`."""
        self._append(fit_bytes(value, offset, length))

    def write_object(self, value: object) -> None:
        """Write a bool, int, float, str, bytes, None or one of `pyjms.jms.types`.

        Raises:
            MessageFormatException: JMS has no type for the value.
        """
        self._append(normalize(value, binary=True, containers=False))

    def _write(self, kind: str, value: object) -> None:
        fitted = fit(value, kind)
        self._check_body_writable()
        self._body.append(fitted)

    def _append(self, value: object) -> None:
        self._check_body_writable()
        self._body.append(value)

    def _read(self, target: str) -> object:
        value = convert(self._next(), target, BODY_READS, NULLS)
        self._position += 1
        return value

    def _next(self) -> object:
        if not self.read_only_body:
            raise MessageNotReadableException(
                "The message is write-only", hint="call reset() first"
            )
        if self._pending:
            self._load()
        if self._offset is not None:
            raise MessageFormatException(
                "A bytes value is only partly read",
                hint="call read_bytes() until it returns fewer bytes than requested, or None",
            )
        self._bytes_ended = False
        if self._position >= len(self._body):
            raise MessageEOFException(f"All {len(self._body)} values of the stream have been read")
        return self._body[self._position]

    def _current_bytes(self) -> bytes | None:
        value = self._next() if self._offset_free() else self._body[self._position]
        return cast("bytes | None", convert(value, "bytes", BODY_READS, NULLS))

    def _offset_free(self) -> bool:
        return self._pending or not self.read_only_body or self._offset is None

    def _finish_bytes(self) -> None:
        self._offset = None
        self._bytes_ended = True
        self._position += 1

    def _load(self) -> None:
        super()._load()
        self._position = 0
        self._offset = None
        self._bytes_ended = False

    def _reset_body(self) -> None:
        self._body = []
        self._position = 0
        self._offset = None
        self._bytes_ended = False

    def is_body_assignable_to(self, kind: type) -> bool:
        """Return False: a stream is read value by value. JMS 2.0: isBodyAssignableTo."""
        del kind
        return False
