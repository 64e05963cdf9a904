"""The format of a journal record: a version, then the operations of a unit.

An operation is the number of its class (one byte) and its fields. A field is a tag (one byte) and
the value; strings and bytes are preceded by their length.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

from pyjms.errors import JMSException
from pyjms_broker.store.jdbc.execution import operations as records

__all__ = ["DamagedRecordError", "decode_operations", "encode_operations"]

_VERSION: Final = 1
_CLASSES: Final[tuple[type, ...]] = (
    records.AddMessage,
    records.RemoveMessage,
    records.AcknowledgeMessage,
    records.UpdateMessage,
    records.RemoveTopicMessage,
    records.RemoveAll,
    records.AddContainer,
    records.RemoveContainer,
    records.AddSubscription,
    records.RemoveSubscription,
    records.SetPrioritized,
    records.PrepareAdd,
    records.PrepareRemove,
    records.PrepareAcknowledgement,
    records.CommitAdd,
    records.CommitAcknowledgement,
    records.RollbackAdd,
    records.RollbackRemove,
    records.RollbackAcknowledgement,
)
"""The order is part of the format: append new classes at the end."""
_NUMBERS: Final = {cls: number for number, cls in enumerate(_CLASSES)}
_FIELDS: Final = {cls: tuple(field.name for field in fields(cls)) for cls in _CLASSES}

_NONE, _FALSE, _TRUE, _INT, _TEXT, _BYTES, _OPERATION = range(7)
_NUMBER: Final = struct.Struct(">Bq")
_LENGTH: Final = struct.Struct(">BI")


class DamagedRecordError(JMSException):
    """A record of the journal in front of the database is damaged."""


def encode_operations(operations: Sequence[records.Operation]) -> bytes:
    """Encode the operations of a unit as the payload of a record."""
    parts = [bytes((_VERSION,))]
    for operation in operations:
        _encode_operation(operation, parts)
    return b"".join(parts)


def decode_operations(payload: bytes) -> list[records.Operation]:
    """Return the operations of a record.

    Raises:
        DamagedRecordError: the record is damaged.
        JMSException: it was written by another version.
    """
    if not payload or payload[0] != _VERSION:
        raise JMSException(
            "The journal in front of the database was written by another version; start and stop "
            "that version once, which writes its records to the database"
        )
    operations: list[records.Operation] = []
    at = 1
    try:
        while at < len(payload):
            operation, at = _decode_operation(payload, at)
            operations.append(operation)
    except (IndexError, TypeError, struct.error, UnicodeDecodeError) as error:
        raise DamagedRecordError(
            "A record of the journal in front of the database is damaged"
        ) from error
    return operations


def _encode_operation(operation: records.Operation, parts: list[bytes]) -> None:
    cls = type(operation)
    parts.append(bytes((_NUMBERS[cls],)))
    for name in _FIELDS[cls]:
        value = getattr(operation, name)
        if value is None:
            parts.append(bytes((_NONE,)))
        elif isinstance(value, bool):
            parts.append(bytes((_TRUE if value else _FALSE,)))
        elif isinstance(value, int):
            parts.append(_NUMBER.pack(_INT, value))
        elif isinstance(value, str):
            data = value.encode("utf-8", "surrogatepass")
            parts += (_LENGTH.pack(_TEXT, len(data)), data)
        elif isinstance(value, bytes):
            parts += (_LENGTH.pack(_BYTES, len(value)), value)
        else:
            parts.append(bytes((_OPERATION,)))
            _encode_operation(value, parts)


def _decode_operation(payload: bytes, at: int) -> tuple[Any, int]:
    cls = _CLASSES[payload[at]]
    at += 1
    values: list[Any] = []
    for _ in _FIELDS[cls]:
        value, at = _decode_value(payload, at)
        values.append(value)
    return cls(*values), at


def _decode_value(payload: bytes, at: int) -> tuple[Any, int]:
    kind = payload[at]
    if kind in {_NONE, _FALSE, _TRUE}:
        return (None, False, True)[kind], at + 1
    if kind == _INT:
        return _NUMBER.unpack_from(payload, at)[1], at + _NUMBER.size
    if kind == _OPERATION:
        return _decode_operation(payload, at + 1)
    _, length = _LENGTH.unpack_from(payload, at)
    at += _LENGTH.size
    data = payload[at : at + length]
    if len(data) != length or kind not in {_TEXT, _BYTES}:
        raise IndexError
    return (data.decode("utf-8", "surrogatepass") if kind == _TEXT else data), at + length
