"""Simple Java objects in Java's serialization format: strings, boxed values, lists and maps.

Only these classes are supported: anything else in an object message is an error, and no code of a
sender is ever executed. (Java Object Serialization Specification, 6)
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pyjms.errors import MessageFormatException
from pyjms.jms.mutf8 import decode_mutf8_lenient, encode_mutf8
from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms_broker.connector.stomp.elements import Counter

_MAGIC: Final = b"\xac\xed\x00\x05"
_NULL, _REFERENCE, _CLASS, _OBJECT, _STRING, _END, _RESET = b"pqrstxy"
_BLOCK: Final = 0x77
_LONG_STRING: Final = 0x7C
_FIRST_HANDLE: Final = 0x7E0000
_MAXIMUM_SHORT: Final = 0xFFFF
_SERIALIZABLE, _WITH_ANNOTATION = 2, 3


class _Class(NamedTuple):
    name: str
    version: str
    flags: int = _SERIALIZABLE
    fields: tuple[tuple[str, str], ...] = ()
    parent: _Class | None = None


_NUMBER: Final = _Class("java.lang.Number", "86ac951d0b94e08b")
_BOXED: Final[dict[type, tuple[_Class, str]]] = {
    kind: (_Class(f"java.lang.{name}", version, _SERIALIZABLE, ((code, "value"),), parent), form)
    for kind, name, version, code, form, parent in (
        (bool, "Boolean", "cd207280d59cfaee", "Z", ">?", None),
        (Byte, "Byte", "9c4e6084ee50f51c", "B", ">b", _NUMBER),
        (Short, "Short", "684d37133460da52", "S", ">h", _NUMBER),
        (int, "Integer", "12e2a0a4f7818738", "I", ">i", _NUMBER),
        (Long, "Long", "3b8be490cc8f23df", "J", ">q", _NUMBER),
        (Float, "Float", "daedc9a2db3cf0ec", "F", ">f", _NUMBER),
        (float, "Double", "80b3c24a296bfb04", "D", ">d", _NUMBER),
        (Char, "Character", "348b47d96b1a2678", "C", ">H", None),
    )
}
_LIST: Final = _Class("java.util.ArrayList", "7881d21d99c7619d", _WITH_ANNOTATION, (("I", "size"),))
_MAP: Final = _Class(
    "java.util.HashMap",
    "0507dac1c31660d1",
    _WITH_ANNOTATION,
    (("F", "loadFactor"), ("I", "threshold")),
)
_LOAD_FACTOR: Final = 0.75
_SMALLEST_MAP: Final = 16


def dumps(value: object) -> bytes:
    """Serialize a value like ObjectOutputStream.

    Raises:
        MessageFormatException: it is not a string, number, boolean, list or map.
    """
    writer = _Writer()
    writer.write(value)
    return bytes(writer.out) + bytes([_RESET])


class _Writer:
    def __init__(self) -> None:
        self.out = bytearray(_MAGIC)
        self._handles: dict[str, int] = {}
        self._next = _FIRST_HANDLE

    def write(self, value: object) -> None:
        boxed = _BOXED.get(type(value))
        if value is None:
            self.out.append(_NULL)
        elif boxed is not None:
            self._begin(boxed[0])
            raw: Any = ord(value) if isinstance(value, Char) else value
            self.out += struct.pack(boxed[1], raw)
        elif isinstance(value, str):
            self._string(value)
        elif isinstance(value, list):
            self._begin(_LIST)
            self.out += struct.pack(">iBBi", len(value), _BLOCK, 4, len(value))
            for item in value:
                self.write(item)
            self.out.append(_END)
        elif isinstance(value, dict):
            self._map(value)
        else:
            raise MessageFormatException(f"A {type(value).__name__} cannot be an object here")

    def _map(self, value: dict[str, object]) -> None:
        capacity = _SMALLEST_MAP
        while capacity * _LOAD_FACTOR < len(value):
            capacity *= 2
        self._begin(_MAP)
        threshold = int(capacity * _LOAD_FACTOR)
        self.out += struct.pack(">fiBBii", _LOAD_FACTOR, threshold, _BLOCK, 8, capacity, len(value))
        for key, item in value.items():
            self.write(key)
            self.write(item)
        self.out.append(_END)

    def _begin(self, kind: _Class) -> None:
        self.out.append(_OBJECT)
        self._describe(kind)
        self._next += 1  # the handle of the object

    def _describe(self, kind: _Class | None) -> None:
        if kind is None:
            self.out.append(_NULL)
            return
        known = self._handles.get(kind.name)
        if known is not None:
            self.out += struct.pack(">Bi", _REFERENCE, known)
            return
        self.out.append(_CLASS)
        self._text(kind.name)
        self._handles[kind.name] = self._next
        self._next += 1
        self.out += bytes.fromhex(kind.version)
        self.out += struct.pack(">BH", kind.flags, len(kind.fields))
        for code, name in kind.fields:
            self.out += code.encode()
            self._text(name)
        self.out.append(_END)
        self._describe(kind.parent)

    def _string(self, value: str) -> None:
        data = encode_mutf8(value)
        if len(data) <= _MAXIMUM_SHORT:
            self.out += struct.pack(">BH", _STRING, len(data))
        else:
            self.out += struct.pack(">BQ", _LONG_STRING, len(data))
        self.out += data
        self._next += 1

    def _text(self, name: str) -> None:
        self.out += struct.pack(">H", len(name)) + name.encode()


_PRIMITIVES: Final = {
    "B": ">b", "C": ">H", "D": ">d", "F": ">f", "I": ">i", "J": ">q", "S": ">h", "Z": ">?",
}  # fmt: skip
_EXTERNALIZABLE: Final = 4
_ANNOTATED: Final = 1
_END_OF_OBJECT: Final = object()


@dataclass
class _FoundClass:
    name: str
    flags: int = 0
    fields: list[tuple[str, str]] = field(default_factory=list)
    parent: _FoundClass | None = None


@dataclass
class _FoundObject:
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


_UNBOXED: Final[dict[str, Callable[[Any], object]]] = {
    kind.name: python for python, (kind, _) in _BOXED.items()
} | {"java.lang.Character": lambda code: Char(chr(code))}
_LISTS: Final = frozenset({"java.util.ArrayList", "java.util.LinkedList"})
_MAPS: Final = frozenset({"java.util.HashMap", "java.util.LinkedHashMap"})


class _Values:
    """Converts objects to values, counting them, because objects may be shared or recursive."""

    def __init__(self) -> None:
        self._counter = Counter()

    def of(self, found: object, depth: int) -> object:
        self._counter.add(depth)
        if not isinstance(found, _FoundObject):
            return found
        box = _UNBOXED.get(found.name)
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
            0x78: lambda _: _END_OF_OBJECT,
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
        return _FoundObject("")

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

    def _class(self, depth: int) -> _FoundClass | None:
        code = self._unpack(">B")
        if code != 0x72:
            found = self._one(code, depth) if code in {0x70, 0x71} else 0
            if found is not None and not isinstance(found, _FoundClass):
                raise ValueError("a class is missing")
            return found
        kind = _FoundClass(self._text())
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
        while (item := self.read(depth + 1)) is not _END_OF_OBJECT:
            if not (isinstance(item, _FoundObject) and not item.name):
                found.append(item)
        return found

    def _object(self, depth: int) -> _FoundObject:
        kind = self._class(depth)
        if kind is None:
            raise ValueError("an object has no class")
        found = _FoundObject(kind.name)
        self._handles.append(found)
        chain: list[_FoundClass] = []
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
            if each.flags & _ANNOTATED:
                found.contents += self._until_end(depth)
        return found
