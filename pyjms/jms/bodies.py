"""The messages with a body: bytes, a stream of values, a text, a map of values, a Java object.

A body is writable until the message is received; then it is read-only until `clear_body()`. The
bodies of bytes and stream messages are written in sequence and read from the start after `reset()`.

A bytes message records no types: what was written as an int may be read as four bytes. Numbers are
big-endian. A stream message does: each value is read as the type it was written as, or converted as
the table in `conversions` allows; a read that fails leaves the position unchanged.
(jms-api 7; java.io.DataOutput)
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import ClassVar, Final, TypeVar, cast

from pyjms.errors import MessageEOFException, MessageFormatException, MessageNotReadableException
from pyjms.jms.conversions import (
    BODY_READS,
    MAP_NULLS,
    NULLS,
    convert,
    fit,
    fit_bytes,
    normalize,
    normalize_named,
    type_of,
)
from pyjms.jms.message import Message
from pyjms.jms.mutf8 import decode_mutf8, encode_mutf8
from pyjms.jms.typed_access import TypedGetters, TypedReads, TypedSetters, TypedWrites

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


class TextMessage(Message):
    """A message with or without a text: "" and None are different.

    JMS: javax.jms.TextMessage (JMS 1.1 section 3.11).
    """

    __slots__ = ()
    MIME_TYPE: ClassVar[str] = "jms/text-message"
    BODY_TYPES: ClassVar[tuple[type, ...]] = (str,)
    _body: str | None

    def __init__(self, text: str | None = None) -> None:
        super().__init__()
        self.text = text

    @property
    def text(self) -> str | None:
        """The text, which can be set.

        Raises:
            MessageFormatException: the received text is damaged, or the value set is not a str.
            MessageNotWriteableException: it is set while the body is read-only.
        """
        if self._pending:
            self._load()
        return self._body

    @text.setter
    def text(self, text: str | None) -> None:
        if self.read_only_body:
            self._check_body_writable()
        if text is not None and not isinstance(text, str):
            raise MessageFormatException(f"The text of a message cannot be a {type(text).__name__}")
        self._pending = False
        self._body = text

    def _whole_body(self) -> object:
        return self.text

    def _reset_body(self) -> None:
        self._body = None


class ObjectMessage(Message):
    """A message with a serialized Java object, carried as opaque bytes.

    `data` is the Java serialization stream (`aced0005...`) or None. It is never converted to a
    Python object: deserialising data from a network can run the sender's code.
    JMS: javax.jms.ObjectMessage (JMS 1.1 section 3.11).
    """

    __slots__ = ()
    MIME_TYPE: ClassVar[str] = "jms/object-message"
    BODY_TYPES: ClassVar[tuple[type, ...]] = (bytes,)
    _body: bytes | None

    def __init__(self, data: bytes | None = None) -> None:
        super().__init__()
        self.data = data

    @property
    def data(self) -> bytes | None:
        """The serialized form, which can be set."""
        if self._pending:
            self._load()
        return self._body

    @data.setter
    def data(self, data: bytes | None) -> None:
        self._check_body_writable()
        self._pending = False
        self._body = cast("bytes | None", fit(data, "bytes"))

    def _whole_body(self) -> object:
        return self.data

    def _reset_body(self) -> None:
        self._body = None


class MapMessage(TypedGetters, TypedSetters, Message):
    """A message of named values: a mapping that also has JMS's typed getters and setters.

    It is true even if it is empty, and compares by identity, as all messages do. The typed getters
    return 0, False or None if a value is missing; `get_char` raises TypeError.
    JMS: javax.jms.MapMessage (JMS 1.1 section 3.11).
    """

    __slots__ = ()
    MIME_TYPE: ClassVar[str] = "jms/map-message"
    BODY_TYPES: ClassVar[tuple[type, ...]] = (dict,)
    _body: dict[str, object]

    def __init__(self, values: Mapping[str, object] | None = None) -> None:
        super().__init__()
        self._body = {}
        for name, value in (values or {}).items():
            self[name] = value

    def __getitem__(self, name: str) -> object:
        return self._values()[name]

    def __setitem__(self, name: str, value: object) -> None:
        """Set a bool, int, float, str, bytes, None, one of `pyjms.jms.types`, list or dict.

        Raises:
            MessageFormatException: JMS has no type for the value.
            MessageNotWriteableException: the body is read-only.
            ValueError: the name is None or empty.
        """
        self._check_body_writable()
        value = normalize_named("a value", _check_name(name), value, binary=True)
        self._values()[name] = value

    def __delitem__(self, name: str) -> None:
        self._check_body_writable()
        del self._values()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values())

    def __len__(self) -> int:
        return len(self._values())

    def __bool__(self) -> bool:
        return True

    def __contains__(self, name: object) -> bool:
        return name in self._values()

    def keys(self) -> list[str]:
        """Return the names."""
        return list(self._values())

    def items(self) -> list[tuple[str, object]]:
        """Return names and values, with the types they were set with."""
        return list(self._values().items())

    @property
    def map_names(self) -> list[str]:
        """The names, in no particular order. JMS: getMapNames."""
        return list(self._values())

    def item_exists(self, name: str) -> bool:
        """Return whether there is a value of this name, even None. JMS: itemExists."""
        return name in self._values()

    def get_object(self, name: str) -> object:
        """Return the value with the type it was set with; None if it is missing."""
        return self._values().get(_check_name(name))

    def get_char(self, name: str) -> str:
        """Return the value as one character.

        Raises:
            TypeError: it is missing.
        """
        return cast("str", self._convert(name, "char"))

    def get_bytes(self, name: str) -> bytes | None:
        """Return the value, which must be bytes; None if it is missing."""
        return cast("bytes | None", self._convert(name, "bytes"))

    def set_char(self, name: str, value: str) -> None:
        """Set one character, a UTF-16 unit."""
        self[name] = fit(value, "char")

    def set_bytes(
        self, name: str, value: bytes | None, offset: int = 0, length: int | None = None
    ) -> None:
        """Set a copy of `value`, or of `length` bytes of it from `offset`."""
        self[name] = fit_bytes(value, offset, length)

    def _values(self) -> dict[str, object]:
        if self._pending:
            self._load()
        return self._body

    def _convert(self, name: str, target: str) -> object:
        value = self._values().get(_check_name(name))
        try:
            return convert(value, target, BODY_READS, MAP_NULLS)
        except MessageFormatException as error:
            raise MessageFormatException(f"{name!r}: {error.reason}", hint=error.hint) from None

    def _whole_body(self) -> object:
        return dict(self._values()) or None

    def _reset_body(self) -> None:
        self._body = {}


def _check_name(name: str) -> str:
    if not name:
        raise ValueError("The name of a value in a map cannot be None or empty")
    return name
