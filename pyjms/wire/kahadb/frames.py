"""Conversion between the fields of KahaDB's commands and OpenWire's data structures.

The journal has messages, acknowledgements and subscriptions as loose, uncached frames with their
4-byte size, in the OpenWire version of the store: 11 for ActiveMQ's, unless its index says
otherwise. Decoding raises RemoteProtocolError, encoding LocalProtocolError.
(activemq-persistence S5, K30)
"""

from __future__ import annotations

import struct
from typing import Final, TypeVar

from pyjms.errors import InvalidDestinationException, LocalProtocolError
from pyjms.jms.destination import Destination
from pyjms.wire.kahadb.commands import (
    DestinationType,
    KahaDestination,
    KahaLocalTransactionId,
    KahaTransactionInfo,
    KahaXATransactionId,
)
from pyjms.wire.kahadb.errors import KahaDBFormatError
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    ConnectionId,
    LocalTransactionId,
    MessageAck,
    SubscriptionInfo,
    TransactionId,
    XATransactionId,
)
from pyjms.wire.openwire.fast_reader import unmarshal_body
from pyjms.wire.openwire.fast_writer import marshal_body
from pyjms.wire.openwire.reader import LooseReader
from pyjms.wire.openwire.schema import CURRENT_VERSION, DESTINATIONS, MESSAGES, Structure
from pyjms.wire.openwire.writer import LooseWriter

STORE_OPENWIRE_VERSION: Final = 11

_SIZE: Final = struct.Struct(">i")
_OWNER: Final = b"user:"
SAME_MESSAGES_FROM: Final = 11
"""Messages have the same layout in all versions from this one on, so `raw` fits them all."""
FRAME_HEAD: Final = struct.Struct(">iB")
"""The size of a message's frame and its type, which its body follows."""
_CODES: Final[dict[int, int]] = {
    DestinationType.QUEUE: 100,
    DestinationType.TOPIC: 101,
    DestinationType.TEMP_QUEUE: 102,
    DestinationType.TEMP_TOPIC: 103,
}
_TYPES: Final = {code: int(kind) for kind, code in _CODES.items()}

S = TypeVar("S", ActiveMQMessage, MessageAck, SubscriptionInfo)


def decode_message(frame: bytes, version: int = STORE_OPENWIRE_VERSION) -> ActiveMQMessage:
    """Return the message of an add, an update or a job, with its `raw` set if possible."""
    if SAME_MESSAGES_FROM <= version <= CURRENT_VERSION and _is_message(frame):
        return unmarshal_body(frame[_SIZE.size], bytes(frame[_SIZE.size + 1 :]))
    return _decode(frame, version, ActiveMQMessage)


def decode_ack(frame: bytes, version: int = STORE_OPENWIRE_VERSION) -> MessageAck | None:
    """Return the acknowledgement of a remove; None if the frame is empty."""
    return _decode(frame, version, MessageAck) if frame else None


def decode_subscription_info(
    frame: bytes, version: int = STORE_OPENWIRE_VERSION
) -> SubscriptionInfo:
    """Return the durable subscription of a subscription command."""
    return _decode(frame[: _owner_at(frame)], version, SubscriptionInfo)


def subscription_owner(frame: bytes) -> str | None:
    """Return the user who made the durable subscription; None: unknown, as with ActiveMQ's."""
    at = _owner_at(frame)
    return None if at is None else frame[at + len(_OWNER) :].decode(errors="replace")


def encode_subscription(
    info: SubscriptionInfo, owner: str | None, version: int = STORE_OPENWIRE_VERSION
) -> bytes:
    """Return a durable subscription as a frame, with its owner behind it if there is one.

    ActiveMQ reads the frame from a stream and ignores what follows.
    (activemq-persistence K33)
    """
    frame = encode_frame(info, version)
    return frame if owner is None else frame + _OWNER + owner.encode(errors="replace")


def _owner_at(frame: bytes) -> int | None:
    """Return where the frame ends and its owner begins; None: it has none."""
    if len(frame) < _SIZE.size:
        return None
    end = _SIZE.size + max(0, _SIZE.unpack_from(frame)[0])
    return end if frame.startswith(_OWNER, end) else None


def encode_message(message: ActiveMQMessage, version: int = STORE_OPENWIRE_VERSION) -> bytes:
    """Return the message as a frame; from version 11 on, its `raw` is copied or made."""
    if version < SAME_MESSAGES_FROM:
        return encode_frame(message, version)
    body = message.raw or marshal_body(message)
    return FRAME_HEAD.pack(len(body) + 1, message.TYPE) + body


def encode_frame(structure: Structure, version: int = STORE_OPENWIRE_VERSION) -> bytes:
    """Return a MessageAck, SubscriptionInfo or other structure as a loose frame with its size."""
    frame = LooseWriter(version, stack_trace=True).frame(structure)
    return _SIZE.pack(len(frame)) + frame


def to_kaha_destination(destination: Destination) -> KahaDestination:
    """Return the KahaDestination of `destination`."""
    kind = _TYPES.get(destination.TYPE)
    if kind is None:
        raise LocalProtocolError(f"{destination!r} cannot be stored")
    return KahaDestination(kind, destination.physical_name)


def from_kaha_destination(destination: KahaDestination) -> Destination:
    """Return the queue or topic of a KahaDestination."""
    try:
        code = _CODES[destination.type]
    except KeyError as e:
        raise KahaDBFormatError(f"Unknown destination type {destination.type}") from e
    try:
        return DESTINATIONS[code](destination.name)
    except InvalidDestinationException as e:
        raise KahaDBFormatError("The destination has no name") from e


def to_transaction_info(transaction_id: TransactionId) -> KahaTransactionInfo:
    """Return the KahaTransactionInfo of a transaction id."""
    if isinstance(transaction_id, LocalTransactionId):
        connection = transaction_id.connection_id
        if connection is None or connection.value is None:
            raise LocalProtocolError("The local transaction id has no connection id")
        local = KahaLocalTransactionId(connection.value, transaction_id.value)
        return KahaTransactionInfo(local_transaction_id=local)
    if not isinstance(transaction_id, XATransactionId):
        raise LocalProtocolError(f"{type(transaction_id).__name__} is not a transaction id")
    xa = KahaXATransactionId(
        transaction_id.format_id,
        transaction_id.branch_qualifier or b"",
        transaction_id.global_transaction_id or b"",
    )
    return KahaTransactionInfo(xa_transaction_id=xa)


def from_transaction_info(info: KahaTransactionInfo) -> TransactionId:
    """Return the transaction id of a KahaTransactionInfo."""
    local, xa = info.local_transaction_id, info.xa_transaction_id
    if local is not None:
        return LocalTransactionId(local.transaction_id, ConnectionId(local.connection_id))
    if xa is not None:
        return XATransactionId(xa.format_id, xa.global_transaction_id, xa.branch_qualifier)
    raise KahaDBFormatError("The transaction is neither local nor XA")


def subscription_key(client_id: str | None, subscription_name: str) -> str:
    """Return the key of a durable subscription in the journal, `clientId:name`."""
    return f"{client_id}:{subscription_name}"


def _is_message(frame: bytes) -> bool:
    return (
        len(frame) > _SIZE.size
        and _SIZE.unpack_from(frame)[0] == len(frame) - _SIZE.size
        and frame[_SIZE.size] in MESSAGES
    )


def _decode(frame: bytes, version: int, wanted: type[S]) -> S:
    if len(frame) < _SIZE.size or _SIZE.unpack_from(frame)[0] != len(frame) - _SIZE.size:
        raise KahaDBFormatError("The frame's size does not match its bytes", position=0)
    if not 1 <= version <= CURRENT_VERSION:
        raise KahaDBFormatError(f"OpenWire version {version} is unknown")
    body = bytes(frame[_SIZE.size :])
    reader = LooseReader(body, version, stack_trace=True)
    found = reader.read_frame()
    if reader.pos != len(body):
        raise KahaDBFormatError("The frame has bytes after its end", position=reader.pos)
    if not isinstance(found, wanted):
        raise KahaDBFormatError(f"Expected {wanted.__name__}, found {type(found).__name__}")
    return found
