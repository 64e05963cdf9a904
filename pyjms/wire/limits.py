"""Limits on the memory that a peer can cause to be allocated; exceeding one is the peer's error.

A reader rejects every count that the rest of the frame cannot contain. The number of elements is
also limited, since a small value needs many times its size once it is decoded. (decisions D15)
"""

from __future__ import annotations

import zlib
from typing import Final

from pyjms.errors import RemoteProtocolError

__all__ = [
    "LARGE_FRAME",
    "MAX_CACHE_SIZE",
    "MAX_FRAME_SIZE",
    "MAX_INFLATED_SIZE",
    "MAX_NEGOTIATION_SIZE",
    "MAX_NEGOTIATION_VALUES",
    "MAX_NESTING_DEPTH",
    "MAX_PROPERTY_VALUES",
    "MAX_STRING_SIZE",
    "MAX_STRUCTURES",
    "MAX_TIGHT_STRING_SIZE",
    "MAX_VALUES",
    "inflate",
    "inflate_sized",
]

# The stock broker's maxFrameSize; the Java client alone has no limit.
MAX_FRAME_SIZE: Final = 104857600
# Smaller incomplete frames are not counted: a connection has at most one of them.
LARGE_FRAME: Final = 65536
# For the WireFormatInfo, which is much smaller; larger frames are refused before negotiation.
MAX_NEGOTIATION_SIZE: Final = 65536
# ActiveMQ 5.17 reads at most 4096 entries of a WireFormatInfo.
MAX_NEGOTIATION_VALUES: Final = 4096
# The deepest structure of a real conversation is 5 (dispatch, advisory, info, path, id).
MAX_NESTING_DEPTH: Final = 64
# Structures, array elements and stack trace elements of one frame; an array has at most 32,767.
MAX_STRUCTURES: Final = 100000
# Values in one map or stream, including nested ones, of a body, which the client decodes.
MAX_VALUES: Final = 10000000
# The same for the properties of one message, which the broker decodes on its event loop.
MAX_PROPERTY_VALUES: Final = 100000
# A field string has a u16 byte count.
MAX_STRING_SIZE: Final = 65535
# ActiveMQ's tight writer refuses longer strings; its reader takes the count as i16.
MAX_TIGHT_STRING_SIZE: Final = 32766
# Cache indexes are i16; a negotiated size of 0 means this.
MAX_CACHE_SIZE: Final = 16383
# activemq-broker 6 stops inflating a body here.
MAX_INFLATED_SIZE: Final = 104857600

_SIZE: Final = 4


def inflate(data: bytes, limit: int = MAX_INFLATED_SIZE) -> bytes:
    """Return the content of a zlib stream of at most `limit` bytes.

    Never allocates more than `limit` + 1 bytes. Bytes after the stream are ignored, as by Java's
    InflaterInputStream. A truncated stream is accepted: Artemis writes such streams, and a Java
    client reads only as far as the lengths in the content require.

    Raises:
        RemoteProtocolError: the stream is damaged or inflates to more than `limit`.
    """
    inflater = zlib.decompressobj()
    try:
        content = inflater.decompress(data, limit + 1)
    except zlib.error as e:
        raise RemoteProtocolError(f"Compressed body is damaged: {e}") from e
    if len(content) > limit:
        raise RemoteProtocolError(f"Compressed body inflates to more than {limit} bytes")
    return content


def inflate_sized(data: bytes, limit: int = MAX_INFLATED_SIZE) -> bytes:
    """Return the content of a BytesMessage's compressed body: its size, and a zlib stream.

    The stream may contain more than the body: Java deflates its whole buffer.

    Raises:
        RemoteProtocolError: as for `inflate`, or the stream contains less than the declared size.
    """
    length = int.from_bytes(data[:_SIZE], "big")
    content = inflate(data[_SIZE:], limit)
    if len(data) < _SIZE or len(content) < length:
        raise RemoteProtocolError(f"Compressed body holds {len(content)} bytes instead of {length}")
    return content[:length]
