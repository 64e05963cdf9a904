"""Simple Java objects in Java's serialization format: strings, boxed values, lists and maps.

Only these classes are supported: anything else in an object message is an error, and no code of a
sender is ever executed. (Java Object Serialization Specification, 6)
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from pyjms.errors import MessageFormatException
from pyjms.jms.mutf8 import encode_mutf8
from pyjms.jms.types import Byte, Char, Float, Long, Short

__all__ = ["dumps"]

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
