"""The XID column: ActiveMQ's text for a transaction and what the row is to it.

Base64 of: `+` for a message added or `-` for one acknowledged, eight bytes and one that we
leave zero, the format id, the length of the global id, the global id, the branch. (J8)
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
"""The pattern of the texts whose first byte is `-`."""

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
        raise JMSException(f"The transaction id {xid} is too long for the database")
    return text


def decode_xid(text: str) -> tuple[XATransactionId, bool]:
    """Return the transaction, and whether its row was added rather than acknowledged.

    Raises:
        JMSException: it is no such text.
    """
    try:
        data = b64decode(text, validate=True)
        flag, _, _, format_id, length = _HEAD.unpack_from(data)
    except (binascii.Error, ValueError, struct.error) as e:
        raise JMSException(f"The database has a damaged transaction id: {text!r}") from e
    rest = data[_HEAD.size :]
    return XATransactionId(format_id, rest[:length], rest[length:]), flag == b"+"
