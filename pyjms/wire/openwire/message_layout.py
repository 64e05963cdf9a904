"""The layout of a message in the form that the fast codec reads and writes: loose, version 12.

A client's message has few of its nullable fields set. `MIDDLE` and `TAIL` cover a run of fields
with one struct format each, in which a nullable field is represented by its flag: usually all flags
are zero, and one call converts the whole run. `fast_reader`, `fast_writer` and `raw` share the
formats, which are generated from codegen/commands.yaml.
"""

from __future__ import annotations

import struct
from typing import Final

from pyjms.wire.openwire.commands import ActiveMQBlobMessage, ActiveMQMessage, MessageId

__all__ = [
    "GROUP_SEQUENCE",
    "GROUP_SEQUENCE_SIZE",
    "MIDDLE",
    "MIDDLE_SIZE",
    "PERSISTENT_EXPIRATION_PRIORITY",
    "PERSISTENT_EXPIRATION_PRIORITY_SIZE",
    "RESPONSE",
    "TAIL",
    "TAIL_SIZE",
    "TIMESTAMP",
    "TIMESTAMP_SIZE",
    "is_plain",
    "is_plain_id",
    "pack_tail",
]

# generated: structs of a message
# producerSequenceId to type, nullable fields as their flags
MIDDLE: Final = struct.Struct(">qqBBiB?qbBqB")
MIDDLE_SIZE: Final = 43
# dataStructure to the end, likewise
TAIL: Final = struct.Struct(">BB?iBqB??Bqq?")
TAIL_SIZE: Final = 37
# fields of fixed size between originalTransactionId and type
GROUP_SEQUENCE: Final = struct.Struct(">i")
GROUP_SEQUENCE_SIZE: Final = 4
PERSISTENT_EXPIRATION_PRIORITY: Final = struct.Struct(">?qb")
PERSISTENT_EXPIRATION_PRIORITY_SIZE: Final = 10
TIMESTAMP: Final = struct.Struct(">q")
TIMESTAMP_SIZE: Final = 8
# end generated
# type, commandId, responseRequired, correlationId
RESPONSE: Final = struct.Struct(">Bi?i")


def is_plain_id(value: MessageId | None) -> bool:
    """Return whether a message id has none of the fields that only clients of others set."""
    return value is None or value.text_view is None


def is_plain(message: ActiveMQMessage) -> bool:
    """Return whether only the fields that clients set are set: nothing nullable in the tail."""
    # generated: is_plain
    return (
        message.data_structure is None
        and message.target_consumer_id is None
        and message.broker_path is None
        and message.user_id is None
        and message.cluster is None
        and not isinstance(message, ActiveMQBlobMessage)
        and is_plain_id(message.message_id)
    )
    # end generated


def pack_tail(message: ActiveMQMessage) -> bytes:
    """Return the last TAIL_SIZE bytes of a plain message: from dataStructure on."""
    # generated: pack_tail
    return TAIL.pack(
        0,
        0,
        message.compressed,
        message.redelivery_counter,
        0,
        message.arrival,
        0,
        message.received_by_df_bridge,
        message.droppable,
        0,
        message.broker_in_time,
        message.broker_out_time,
        message.jms_xgroup_first_for_consumer,
    )
    # end generated
