"""The XID column: ActiveMQ's text for a transaction and the role of the row in it.

It is the Base64 encoding of: `+` for an added message or `-` for an acknowledged one, nine zero
bytes, the format id, the length of the global id, the global id, the branch qualifier.
(activemq-persistence J8)
"""

from __future__ import annotations

import binascii
import struct
from base64 import b64decode, b64encode
from typing import Final

from pyjms.errors import JMSException
from pyjms.wire.openwire.commands import XATransactionId

__all__ = ["REMOVAL", "decode_xid", "encode_xid"]

REMOVAL: Final = "L%"
"""The LIKE pattern of values whose first byte is `-`."""

_HEAD: Final = struct.Struct(">cqbih")
_LONGEST: Final = 250


def encode_xid(xid: XATransactionId, *, added: bool) -> str:
    """Return the column's text.

    Raises:
        JMSException: the id is too long for the column.
    """
    global_id, branch = xid.global_transaction_id or b"", xid.branch_qualifier or b""
    head = _HEAD.pack(b"+" if added else b"-", 0, 0, xid.format_id, len(global_id))
    text = b64encode(head + global_id + branch).decode()
    if len(text) > _LONGEST:
        raise JMSException(
            f"The transaction id {xid} is too long for the column XID ({_LONGEST} characters)"
        )
    return text


def decode_xid(text: str) -> tuple[XATransactionId, bool]:
    """Return the transaction, and whether the row was added rather than acknowledged.

    Raises:
        JMSException: the text is damaged.
    """
    try:
        data = b64decode(text, validate=True)
        flag, _, _, format_id, length = _HEAD.unpack_from(data)
    except (binascii.Error, ValueError, struct.error) as e:
        raise JMSException(f"The database has a damaged transaction id: {text!r}") from e
    rest = data[_HEAD.size :]
    return XATransactionId(format_id, rest[:length], rest[length:]), flag == b"+"
