"""The general reader: any structure of any version, loose or tight, cached or not, by field.

Loose and tight encoding differ only in how flags, longs and strings are read. Loose: a flag is a
byte at its position. Tight: all flags are bits in a stream before the fields. Only
RemoteProtocolError escapes from `read_frame`; its position is the offset in the frame, which here
begins with the type byte. (openwire-encoding 2 to 5)
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Final

from pyjms.errors import InvalidDestinationException, RemoteProtocolError
from pyjms.jms.mutf8 import decode_mutf8
from pyjms.wire.limits import MAX_NESTING_DEPTH, MAX_STRUCTURES
from pyjms.wire.openwire import kinds
from pyjms.wire.openwire.cache import ReadCache
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    Command,
    DataStructure,
    StackTraceElement,
    Throwable,
)
from pyjms.wire.openwire.kinds import I8, I16, I32, I64, MAGIC_SIZE, U16, U32
from pyjms.wire.openwire.schema import (
    CURRENT_VERSION,
    DESTINATIONS,
    MARSHALL_AWARE,
    NULL_TYPE,
    STRUCTURES,
    Structure,
    layout_of,
)

# The size of the shortest element of a stack trace: its line number.
_SMALLEST_ELEMENT: Final = 4


class TruncatedFrameError(RemoteProtocolError):
    """The bytes end inside a structure; at least `needed` are required."""

    def __init__(self, needed: int, position: int) -> None:
        super().__init__("Frame is cut short", position=position)
        self.needed = needed


class Reader:
    """Reads one frame. Create a LooseReader or a TightReader per frame."""

    def __init__(
        self, frame: bytes, version: int, stack_trace: bool, cache: ReadCache | None = None
    ) -> None:
        self.frame = frame
        self.pos: int = 0
        self.version = version
        self.stack_trace = stack_trace
        self.cache = cache
        self.depth: int = 0
        self.elements: int = 0

    def read_frame(self) -> Structure | None:
        """Return the structure whose type byte is the first byte; None for the null frame.

        Afterwards `pos` is the position after it.

        Raises:
            TruncatedFrameError: the bytes end too early.
            RemoteProtocolError: they are not a valid structure.
        """
        try:
            code = self._byte()
            if code == NULL_TYPE:
                return None
            self._begin()
            return self._structure(code)
        except TruncatedFrameError:
            raise
        except RemoteProtocolError as e:
            raise RemoteProtocolError(e.reason, position=self.pos) from e
        except UnicodeDecodeError as e:
            reason = f"Not modified UTF-8: {e.reason}"
            raise RemoteProtocolError(reason, position=self.pos) from e
        except (IndexError, struct.error) as e:
            raise TruncatedFrameError(len(self.frame) + 1, self.pos) from e

    def read_nested(self, accepts: frozenset[int]) -> Structure | None:
        """Return a nullable structure of one of the types in `accepts`."""
        if not self._flag():
            return None
        code = self._byte()
        if code not in accepts:
            raise RemoteProtocolError(f"Type {code} where one of {sorted(accepts)} is expected")
        self._aware(code)
        return self._structure(code)

    def _begin(self) -> None:
        """Read the bytes between the type byte and the fields; loose: none."""

    def _aware(self, code: int) -> None:
        """Read the bytes before a nested structure of type `code`; loose: none."""

    @abstractmethod
    def _flag(self) -> bool: ...

    @abstractmethod
    def _long(self) -> int: ...

    @abstractmethod
    def _string(self) -> str | None: ...

    def _byte(self) -> int:
        value = self.frame[self.pos]
        self.pos += 1
        return value

    def _read_fixed(self, form: struct.Struct) -> int:
        value: int = form.unpack_from(self.frame, self.pos)[0]
        self.pos += form.size
        return value

    def _read_bytes(self, count: int) -> bytes:
        start = self.pos
        if count < 0:
            raise RemoteProtocolError(f"Count {count} is negative")
        end = start + count
        if end > len(self.frame):
            raise TruncatedFrameError(end, start)
        self.pos = end
        return self.frame[start:end]

    def _structure(self, code: int) -> Structure:
        if code not in STRUCTURES:
            raise RemoteProtocolError(f"Unknown data type {code}")
        self._count(1)
        self.depth += 1
        if self.depth > MAX_NESTING_DEPTH:
            raise RemoteProtocolError(f"Structures nest deeper than {MAX_NESTING_DEPTH}")
        values: dict[str, Any] = {}
        for name, kind, accepts in layout_of(code, self.version):
            values[name] = _READ[kind](self, accepts)
        self.depth -= 1
        if code in DESTINATIONS:
            return _destination(code, values["physical_name"])
        return _build(code, values)

    def _read_cached(self, accepts: frozenset[int]) -> Structure | None:
        cache = self.cache
        if cache is None:
            return self.read_nested(accepts)
        if self._flag():
            index = self._read_fixed(I16)
            value = self.read_nested(accepts)
            cache.put(index, value)
            return value
        value = cache.get(self._read_fixed(I16))
        if value is not None and value.TYPE not in accepts:
            raise RemoteProtocolError(
                f"Cached type {value.TYPE} where one of {sorted(accepts)} is expected"
            )
        return value

    def _read_array(self, accepts: frozenset[int]) -> list[Structure | None] | None:
        if not self._flag():
            return None
        count = self._read_fixed(I16)
        if count < 0:
            raise RemoteProtocolError(f"Count {count} is negative")
        self._count(count)
        return [self.read_nested(accepts) for _ in range(count)]

    def _count(self, more: int) -> None:
        self.elements += more
        if self.elements > MAX_STRUCTURES:
            raise RemoteProtocolError(f"A frame has more than {MAX_STRUCTURES} structures")

    def _read_throwable(self, depth: int) -> Throwable | None:
        if not self._flag():
            return None
        if depth > MAX_NESTING_DEPTH:
            raise RemoteProtocolError(f"Causes nest deeper than {MAX_NESTING_DEPTH}")
        class_name = self._string()
        message = self._string()
        if not self.stack_trace:
            return Throwable(class_name, message)
        count = self._read_fixed(I16)
        if count < 0:
            raise RemoteProtocolError(f"Count {count} is negative")
        least_end = self.pos + count * _SMALLEST_ELEMENT
        if least_end > len(self.frame):
            raise TruncatedFrameError(least_end, self.pos)
        self._count(count)
        trace = tuple([self._trace_element() for _ in range(count)])
        return Throwable(class_name, message, trace, self._read_throwable(depth + 1))

    def _trace_element(self) -> StackTraceElement:
        declaring_class = self._string()
        method = self._string()
        file = self._string()
        return StackTraceElement(declaring_class, method, file, self._read_fixed(I32))

    def _read_nullable_bytes(self, _: frozenset[int]) -> bytes | None:
        return self._read_bytes(self._read_fixed(I32)) if self._flag() else None


_READ: Final[dict[int, Callable[[Reader, frozenset[int]], object]]] = {
    kinds.BOOLEAN: lambda self, _: self._flag(),
    kinds.BYTE: lambda self, _: self._read_fixed(I8),
    kinds.SHORT: lambda self, _: self._read_fixed(I16),
    kinds.INT: lambda self, _: self._read_fixed(I32),
    kinds.LONG: lambda self, _: self._long(),
    kinds.STRING: lambda self, _: self._string(),
    kinds.BYTES: lambda self, accepts: self._read_nullable_bytes(accepts),
    kinds.MAGIC: lambda self, _: self._read_bytes(MAGIC_SIZE),
    kinds.NESTED: Reader.read_nested,
    kinds.CACHED: lambda self, accepts: self._read_cached(accepts),
    kinds.ARRAY: lambda self, accepts: self._read_array(accepts),
    kinds.THROWABLE: lambda self, _: self._read_throwable(0),
}
"""The function that reads a field, by its kind."""


class LooseReader(Reader):
    """Reads loose encoding. Messages keep their bytes if these can be reused: see `raw`."""

    def _structure(self, code: int) -> Structure:
        start = self.pos
        value = super()._structure(code)
        if (
            isinstance(value, ActiveMQMessage)
            and self.cache is None
            and self.version == CURRENT_VERSION
            and value.data_structure is None  # it may contain a stack trace; not all peers read it
        ):
            value.raw = self.frame[start : self.pos]
        return value

    def _flag(self) -> bool:
        value = self.frame[self.pos]
        self.pos += 1
        return value != 0

    def _long(self) -> int:
        return self._read_fixed(I64)

    def _string(self) -> str | None:
        if not self._flag():
            return None
        return decode_mutf8(self._read_bytes(self._read_fixed(U16)))


class TightReader(Reader):
    """Reads tight encoding. (openwire-encoding 3)"""

    _bits = b""
    _bit = 0

    def _begin(self) -> None:
        count = self._byte()
        if count == 0xC0:
            count = self._byte()
        elif count == 0x80:
            count = self._read_fixed(I16)
        self._bits = self._read_bytes(count)

    def _aware(self, code: int) -> None:
        # the bit means that the structure was marshalled before; no implementation sets it
        if code in MARSHALL_AWARE and self._flag():
            raise RemoteProtocolError("Premarshalled structures are not supported")

    def _flag(self) -> bool:
        bit = self._bit
        if bit >> 3 >= len(self._bits):
            raise RemoteProtocolError(f"More flags are read than the {len(self._bits) * 8} sent")
        self._bit = bit + 1
        return (self._bits[bit >> 3] >> (bit & 7)) & 1 == 1

    def _long(self) -> int:
        if self._flag():
            return self._read_fixed(I64 if self._flag() else U32)
        return self._read_fixed(U16) if self._flag() else 0

    def _string(self) -> str | None:
        if not self._flag():
            return None
        self._flag()  # ASCII only: the bytes are the same either way
        return decode_mutf8(self._read_bytes(self._read_fixed(U16)))


def _destination(code: int, name: str | None) -> Structure:
    if not name:
        raise RemoteProtocolError("A destination has no name")
    try:
        return DESTINATIONS[code](name)
    except InvalidDestinationException as e:
        raise RemoteProtocolError(e.reason) from e


def _build(code: int, values: dict[str, Any]) -> DataStructure:
    cls: Any = STRUCTURES[code]
    if not issubclass(cls, Command):
        # ids compute their hash in the constructor
        built: DataStructure = cls(**values)
        return built
    command: DataStructure = cls()
    for name, value in values.items():
        setattr(command, name, value)
    return command
