"""The general writer: any structure for any version, loose or tight, cached or not, by field.

The counterpart of `reader`. ActiveMQ's tight encoding traverses a structure twice, for the flags
and then for the fields; here one pass suffices, since flags and bytes are collected separately.
Only LocalProtocolError escapes, and then the cache is as if nothing had been written.
(openwire-encoding 2 to 5)
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Final

from pyjms.errors import LocalProtocolError
from pyjms.jms.mutf8 import encode_mutf8
from pyjms.wire.limits import (
    LARGE_FRAME,
    MAX_COUNT,
    MAX_NESTING_DEPTH,
    MAX_STRING_SIZE,
    MAX_TIGHT_STRING_SIZE,
)
from pyjms.wire.openwire import kinds
from pyjms.wire.openwire.cache import NOT_STORED, WriteCache
from pyjms.wire.openwire.commands import Throwable
from pyjms.wire.openwire.kinds import I8, I16, I32, I64, MAGIC_SIZE, U16, U32
from pyjms.wire.openwire.schema import MARSHALL_AWARE, STRUCTURES, Structure, layout_of

# The writers of these versions truncate error messages. (openwire-encoding 5)
_TRUNCATING_VERSIONS: Final = (1, 10)
_LONGEST_MESSAGE: Final = 1024


class Writer:
    """Writes one frame. Create a LooseWriter or a TightWriter per frame.

    If `is_sharing`, long byte fields are omitted from the frame, and the caller inserts them.
    """

    def __init__(
        self,
        version: int,
        stack_trace: bool,
        cache: WriteCache | None = None,
        *,
        is_sharing: bool = False,
    ) -> None:
        self.out: bytearray = bytearray()
        self.shared: list[tuple[int, bytes]] = []
        """The omitted values with their positions in `out`, with which the frame ends."""
        self.is_sharing = is_sharing
        self.version = version
        self.stack_trace = stack_trace
        self.cache = cache
        self.depth: int = 0

    def frame(self, value: Structure | None) -> bytes:
        """Return type byte and body of `value`, without a size."""
        if value is None:
            return b"\0"
        cache = self.cache
        if cache is not None:
            cache.begin_frame()
        try:
            self._begin()
            self._structure(value)
            return self._finish(value.TYPE)
        except (struct.error, AttributeError, TypeError, OverflowError) as e:
            self._undo()
            raise LocalProtocolError(f"{type(value).__name__} cannot be written: {e}") from e
        except LocalProtocolError:
            self._undo()
            raise

    def write_nested(self, value: Structure | None, accepts: frozenset[int]) -> None:
        """Append a nullable structure of one of the types in `accepts`."""
        self._flag(value is not None)
        if value is None:
            return
        code = value.TYPE
        if code not in accepts:
            raise LocalProtocolError(f"Type {code} where one of {sorted(accepts)} is expected")
        self.out.append(code)
        self._aware(code)
        self._structure(value)

    def _undo(self) -> None:
        if self.cache is not None:
            self.cache.undo_frame()

    def _begin(self) -> None:
        """Prepare for a frame; loose: nothing to do."""

    @abstractmethod
    def _finish(self, code: int) -> bytes: ...

    def _aware(self, code: int) -> None:
        """Append the bytes before a nested structure of type `code`; loose: none."""

    @abstractmethod
    def _flag(self, value: bool) -> None: ...

    @abstractmethod
    def _long(self, value: int) -> None: ...

    @abstractmethod
    def _string(self, value: str | None) -> None: ...

    @abstractmethod
    def _add_to_cache(self, value: Structure | None, accepts: frozenset[int]) -> None: ...

    def _structure(self, value: Structure) -> None:
        code = value.TYPE
        if code not in STRUCTURES:
            raise LocalProtocolError(f"{type(value).__name__} has no type code")
        self.depth += 1
        if self.depth > MAX_NESTING_DEPTH:
            raise LocalProtocolError(f"Structures nest deeper than {MAX_NESTING_DEPTH}")
        for name, kind, accepts in layout_of(code, self.version):
            _WRITE[kind](self, getattr(value, name), accepts)
        self.depth -= 1

    def _write_cached(self, value: Structure | None, accepts: frozenset[int]) -> None:
        cache = self.cache
        if cache is None:
            self.write_nested(value, accepts)
            return
        index = cache.find(value)
        self._flag(index == NOT_STORED)
        if index == NOT_STORED:
            self._add_to_cache(value, accepts)
        else:
            self.out += I16.pack(index)

    def _array(self, value: list[Structure | None] | None, accepts: frozenset[int]) -> None:
        self._flag(value is not None)
        if value is not None:
            if len(value) > MAX_COUNT:
                raise LocalProtocolError(
                    f"Array of {len(value)} elements is longer than {MAX_COUNT}"
                )
            self.out += I16.pack(len(value))
            for item in value:
                self.write_nested(item, accepts)

    def _write_fixed(self, form: struct.Struct, value: int) -> None:
        self.out += form.pack(value)

    def _bytes(self, value: bytes | None, _: frozenset[int]) -> None:
        self._flag(value is not None)
        if value is not None:
            self.out += I32.pack(len(value))
            if len(value) > LARGE_FRAME and self.is_sharing and type(value) is bytes:
                self.shared.append((len(self.out), value))
            else:
                self.out += value

    def _magic(self, value: bytes, _: frozenset[int]) -> None:
        if len(value) != MAGIC_SIZE:
            raise LocalProtocolError(f"Magic is {len(value)} bytes, not {MAGIC_SIZE}")
        self.out += value

    def _throwable(self, value: Throwable | None, depth: int) -> None:
        self._flag(value is not None)
        if value is None:
            return
        if depth > MAX_NESTING_DEPTH:
            raise LocalProtocolError(f"Causes nest deeper than {MAX_NESTING_DEPTH}")
        self._string(value.class_name)
        self._string(self._truncate(value.message))
        if not self.stack_trace:
            return
        if len(value.stack_trace) > MAX_COUNT:
            raise LocalProtocolError(
                f"Stack trace of {len(value.stack_trace)} elements is longer than {MAX_COUNT}"
            )
        self.out += I16.pack(len(value.stack_trace))
        for element in value.stack_trace:
            self._string(element.declaring_class)
            self._string(element.method)
            self._string(element.file)
            self.out += I32.pack(element.line)
        self._throwable(value.cause, depth + 1)

    def _truncate(self, message: str | None) -> str | None:
        if (
            message is None
            or self.version not in _TRUNCATING_VERSIONS
            or len(message) <= _LONGEST_MESSAGE
        ):
            return message
        return message[: _LONGEST_MESSAGE - 3] + "..."


_WRITE: Final[dict[int, Callable[[Writer, Any, frozenset[int]], None]]] = {
    kinds.BOOLEAN: lambda self, value, _: self._flag(bool(value)),
    kinds.BYTE: lambda self, value, _: self._write_fixed(I8, value),
    kinds.SHORT: lambda self, value, _: self._write_fixed(I16, value),
    kinds.INT: lambda self, value, _: self._write_fixed(I32, value),
    kinds.LONG: lambda self, value, _: self._long(value),
    kinds.STRING: lambda self, value, _: self._string(value),
    kinds.BYTES: lambda self, value, accepts: self._bytes(value, accepts),
    kinds.MAGIC: lambda self, value, accepts: self._magic(value, accepts),
    kinds.NESTED: Writer.write_nested,
    kinds.CACHED: lambda self, value, accepts: self._write_cached(value, accepts),
    kinds.ARRAY: lambda self, value, accepts: self._array(value, accepts),
    kinds.THROWABLE: lambda self, value, _: self._throwable(value, 0),
}
"""The function that writes a field, by its kind."""


class LooseWriter(Writer):
    """Writes loose encoding."""

    def _finish(self, code: int) -> bytes:
        return bytes((code,)) + self.out

    def _flag(self, value: bool) -> None:
        self.out.append(1 if value else 0)

    def _long(self, value: int) -> None:
        self.out += I64.pack(value)

    def _string(self, value: str | None) -> None:
        self._flag(value is not None)
        if value is not None:
            data = _encode_text(value, MAX_STRING_SIZE)
            self.out += U16.pack(len(data))
            self.out += data

    def _add_to_cache(self, value: Structure | None, accepts: frozenset[int]) -> None:
        cache = self.cache
        if cache is not None:
            self.out += I16.pack(cache.add(value))
            self.write_nested(value, accepts)


class TightWriter(Writer):
    """Writes tight encoding. (openwire-encoding 3)"""

    _bits: bytearray
    _bit = 0

    def _begin(self) -> None:
        self._bits = bytearray()

    def _finish(self, code: int) -> bytes:
        count = len(self._bits)
        if count < 64:
            head = bytes((code, count))
        elif count < 256:
            head = bytes((code, 0xC0, count))
        else:
            head = bytes((code, 0x80)) + I16.pack(count)
        return head + self._bits + self.out

    def _aware(self, code: int) -> None:
        if code in MARSHALL_AWARE:
            self._flag(False)

    def _flag(self, value: bool) -> None:
        bit = self._bit & 7
        if bit == 0:
            self._bits.append(0)
        if value:
            self._bits[-1] |= 1 << bit
        self._bit += 1

    def _long(self, value: int) -> None:
        if value == 0:
            form = None
        elif 0 < value <= 0xFFFF:
            form = U16
        elif 0 < value <= 0xFFFFFFFF:
            form = U32
        else:
            form = I64
        self._flag(form is U32 or form is I64)
        self._flag(form is U16 or form is I64)
        if form is not None:
            self.out += form.pack(value)

    def _string(self, value: str | None) -> None:
        self._flag(value is not None)
        if value is not None:
            data = _encode_text(value, MAX_TIGHT_STRING_SIZE)
            self._flag(data.isascii())
            self.out += U16.pack(len(data))
            self.out += data

    def _add_to_cache(self, value: Structure | None, accepts: frozenset[int]) -> None:
        # the reference stores the value inside a cached value before it
        cache = self.cache
        if cache is not None:
            index_at = len(self.out)
            self.out += b"\0\0"
            self.write_nested(value, accepts)
            I16.pack_into(self.out, index_at, cache.add(value))


def _encode_text(value: str, limit: int) -> bytes:
    data = encode_mutf8(value)
    if len(data) > limit:
        raise LocalProtocolError(f"String of {len(data)} bytes is longer than {limit}")
    return data
