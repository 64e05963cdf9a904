"""Messages with a text, a map or an object; bytes and stream messages are re-exported.

A body is writable until the message is received; then it is read-only until `clear_body()`.
(jms-api 7)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, cast

from pyjms.errors import MessageFormatException
from pyjms.jms.bytes_message import BytesMessage
from pyjms.jms.conversions import BODY_READS, MAP_NULLS, convert, fit, fit_bytes, normalize_named
from pyjms.jms.message import Message
from pyjms.jms.stream_message import StreamMessage
from pyjms.jms.typed_access import TypedGetters, TypedSetters

__all__ = ["BytesMessage", "MapMessage", "ObjectMessage", "StreamMessage", "TextMessage"]


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
        value = normalize_named("a value", _checked(name), value, binary=True)
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
        return self._values().get(_checked(name))

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
        value = self._values().get(_checked(name))
        try:
            return convert(value, target, BODY_READS, MAP_NULLS)
        except MessageFormatException as error:
            raise MessageFormatException(f"{name!r}: {error.reason}", hint=error.hint) from None

    def _whole_body(self) -> object:
        return dict(self._values()) or None

    def _reset_body(self) -> None:
        self._body = {}


def _checked(name: str) -> str:
    if not name:
        raise ValueError("The name of a value in a map cannot be None or empty")
    return name
