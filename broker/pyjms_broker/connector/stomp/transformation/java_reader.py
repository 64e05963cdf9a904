"""Deserialization of simple Java objects; see `java_objects`."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from pyjms.errors import MessageFormatException
from pyjms.jms.mutf8 import decode_mutf8_lenient
from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms_broker.connector.stomp.transformation.elements import Counter

__all__ = ["loads"]

_MAGIC: Final = b"\xac\xed\x00\x05"
_FIRST_HANDLE: Final = 0x7E0000
_PRIMITIVES: Final = {
    "B": ">b", "C": ">H", "D": ">d", "F": ">f", "I": ">i", "J": ">q", "S": ">h", "Z": ">?",
}  # fmt: skip
_EXTERNALIZABLE: Final = 4
_WITH_ANNOTATION: Final = 1
_END: Final = object()


@dataclass
class _Class:
    name: str
    flags: int = 0
    fields: list[tuple[str, str]] = field(default_factory=list)
    parent: _Class | None = None


@dataclass
class _Object:
    name: str
    fields: dict[str, Any] = field(default_factory=dict)
    contents: list[Any] = field(default_factory=list)


def loads(data: bytes) -> object:
    """Deserialize a string, number, boolean, list or map.

    Raises:
        MessageFormatException: it is an object of another class, or damaged.
    """
    try:
        return _Values().of(_Reader(data).read(0), 0)
    except (struct.error, IndexError, TypeError, ValueError, OverflowError) as error:
        raise MessageFormatException(f"The serialized object is damaged: {error}") from error


_BOXED: Final[dict[str, Callable[[Any], object]]] = {
    "java.lang.Boolean": bool,
    "java.lang.Byte": Byte,
    "java.lang.Short": Short,
    "java.lang.Integer": int,
    "java.lang.Long": Long,
    "java.lang.Float": Float,
    "java.lang.Double": float,
    "java.lang.Character": lambda code: Char(chr(code)),
}
_LISTS: Final = frozenset({"java.util.ArrayList", "java.util.LinkedList"})
_MAPS: Final = frozenset({"java.util.HashMap", "java.util.LinkedHashMap"})


class _Values:
    """Converts objects to values, counting them, because objects may be shared or recursive."""

    def __init__(self) -> None:
        self._counter = Counter()

    def of(self, found: object, depth: int) -> object:
        self._counter.add(depth)
        if not isinstance(found, _Object):
            return found
        box = _BOXED.get(found.name)
        if box is not None and "value" in found.fields:
            return box(found.fields["value"])
        if found.name not in _LISTS | _MAPS:
            raise MessageFormatException(f"Objects of {found.name[:200]} are not converted")
        values = [self.of(item, depth + 1) for item in found.contents]
        if found.name in _LISTS:
            return values
        if not all(isinstance(key, str) for key in values[::2]):
            raise MessageFormatException("The keys of a map must be strings")
        return dict(zip(values[::2], values[1::2], strict=True))


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = len(_MAGIC)
        self._handles: list[Any] = []
        self._counter = Counter()
        self._kinds: dict[int, Callable[[int], Any]] = {
            0x70: lambda _: None,
            0x71: lambda _: self._handles[self._unpack(">i") - _FIRST_HANDLE],
            0x73: self._object,
            0x74: lambda _: self._string(">H"),
            0x77: lambda _: self._skip(self._unpack(">B")),
            0x78: lambda _: _END,
            0x7C: lambda _: self._string(">Q"),
        }
        if not data.startswith(_MAGIC):
            raise ValueError("it does not begin as one")

    def read(self, depth: int) -> Any:
        self._counter.add(depth)
        return self._one(self._unpack(">B"), depth)

    def _one(self, code: int, depth: int) -> Any:
        read = self._kinds.get(code)
        if read is None:
            raise ValueError(f"element {code:#x} is not expected")
        return read(depth)

    def _unpack(self, form: str) -> Any:
        size = struct.calcsize(form)
        (value,) = struct.unpack_from(form, self._data, self._at)
        self._at += size
        return value

    def _skip(self, size: int) -> Any:
        """Skip data that a class wrote in addition to its objects: sizes, which are not needed."""
        self._at += size
        return _Object("")

    def _string(self, form: str) -> str:
        text = self._text(form)
        self._handles.append(text)
        return text

    def _text(self, form: str = ">H") -> str:
        size = self._unpack(form)
        if size > len(self._data) - self._at:
            raise ValueError("it ends too early")
        data = self._data[self._at : self._at + size]
        self._at += size
        return decode_mutf8_lenient(data)

    def _class(self, depth: int) -> _Class | None:
        code = self._unpack(">B")
        if code != 0x72:
            found = self._one(code, depth) if code in {0x70, 0x71} else 0
            if found is not None and not isinstance(found, _Class):
                raise ValueError("a class is missing")
            return found
        kind = _Class(self._text())
        self._counter.add(depth)
        self._unpack(">q")
        self._handles.append(kind)
        kind.flags = self._unpack(">B")
        for _ in range(self._unpack(">H")):
            code = chr(self._unpack(">B"))
            kind.fields.append((code, self._text()))
            if code not in _PRIMITIVES:
                self.read(depth + 1)
        self._until_end(depth)
        kind.parent = self._class(depth + 1)
        return kind

    def _until_end(self, depth: int) -> list[Any]:
        found = []
        while (item := self.read(depth + 1)) is not _END:
            if not (isinstance(item, _Object) and not item.name):
                found.append(item)
        return found

    def _object(self, depth: int) -> _Object:
        kind = self._class(depth)
        if kind is None:
            raise ValueError("an object has no class")
        found = _Object(kind.name)
        self._handles.append(found)
        chain: list[_Class] = []
        while kind is not None:
            if kind.flags & _EXTERNALIZABLE:
                raise ValueError("external data")
            self._counter.add(len(chain))  # a damaged class may be its own parent
            chain.insert(0, kind)
            kind = kind.parent
        for each in chain:
            for code, name in each.fields:
                form = _PRIMITIVES.get(code)
                found.fields[name] = self.read(depth + 1) if form is None else self._unpack(form)
            if each.flags & _WITH_ANNOTATION:
                found.contents += self._until_end(depth)
        return found
