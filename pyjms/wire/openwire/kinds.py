"""The kinds of fields on the wire, by which the marshallers choose what to read and write.

`I8` to `I64`, `U16` and `U32` are the forms of signed and unsigned integers of that many bits.
"""

from __future__ import annotations

import struct
from typing import Final

BOOLEAN, BYTE, SHORT, INT, LONG, STRING, BYTES, MAGIC, NESTED, CACHED, ARRAY, THROWABLE = range(12)

MAGIC_SIZE: Final = 8

I8: Final = struct.Struct(">b")
I16: Final = struct.Struct(">h")
U16: Final = struct.Struct(">H")
I32: Final = struct.Struct(">i")
U32: Final = struct.Struct(">I")
I64: Final = struct.Struct(">q")
I64_PAIR: Final = struct.Struct(">qq")
