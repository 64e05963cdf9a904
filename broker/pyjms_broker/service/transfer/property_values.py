"""Properties of messages as JSON, which keeps their Java types; see `message_file`."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any, Final

from pyjms.errors import JMSException, MessageFormatException
from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms.wire.openwire.primitives import decode_map, encode_map

__all__ = ["decode_bytes", "decode_properties", "encode_bytes", "encode_properties"]

_INT: Final = range(-(1 << 31), 1 << 31)


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise MessageFormatException(f"{value!r} is not a list")
    return value


def encode_bytes(data: bytes) -> str:
    """Return bytes as base64 text."""
    return base64.b64encode(data).decode("ascii")


def decode_bytes(name: str, value: object) -> bytes:
    """Decode base64 text; `name` is the field, for error messages.

    Raises:
        MessageFormatException: it is not base64.
    """
    try:
        return base64.b64decode(str(value), validate=True)
    except (binascii.Error, ValueError) as error:
        raise MessageFormatException(f"{name}: it is not base64") from error


def encode_properties(data: bytes) -> dict[str, object] | None:
    """Return marshalled properties for JSON; None if they cannot be decoded.

    Raises:
        MessageFormatException: a value's type cannot be represented in the file.
    """
    try:
        properties = decode_map(data)
    except JMSException:
        return None
    return {name: _encode_value(value) for name, value in properties.items()}


def _encode_value(value: object) -> object:
    kind = type(value)
    if value is None or kind is str or kind is bool or (kind is int and value in _INT):
        return value
    for name, (type_, encode, _) in _TYPES.items():
        if kind is type_:
            return {"type": name, "value": encode(value)}
    raise MessageFormatException(
        f"Properties of type {kind.__name__} cannot be written to a message file"
    )


def decode_properties(value: object) -> bytes:
    """Return the marshalled properties of a JSON object.

    Raises:
        MessageFormatException: a value is invalid; the error names the property.
    """
    if not isinstance(value, dict):
        raise MessageFormatException("properties: not a JSON object")
    properties = {}
    for name, item in value.items():
        try:
            properties[name] = _decode_value(item)
        except (MessageFormatException, ValueError, TypeError) as error:
            raise MessageFormatException(f"properties: {name}: {error}") from error
    try:
        return encode_map(properties)
    except JMSException as error:
        raise MessageFormatException(f"properties: {error.reason}") from error


def _decode_value(value: object) -> object:
    if value is None or isinstance(value, str | bool | int | float):
        return value
    known = _TYPES.get(str(value.get("type"))) if isinstance(value, dict) else None
    if known is None or not isinstance(value, dict):
        raise MessageFormatException(f"{value!r} is not a property value")
    return known[2](value.get("value"))


def _decode_list(value: object) -> list[object]:
    return [_decode_value(item) for item in _list(value)]


def _decode_mapping(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise MessageFormatException("it is not a JSON object")
    return {name: _decode_value(item) for name, item in value.items()}


_Encode = Callable[[Any], object]
_Decode = Callable[[Any], object]
_TYPES: Final[dict[str, tuple[type, _Encode, _Decode]]] = {
    "byte": (Byte, int, Byte),
    "short": (Short, int, Short),
    "long": (Long, int, Long),
    "int": (int, int, Long),
    "float": (Float, repr, Float),
    "double": (float, repr, float),
    "char": (Char, str, Char),
    "bytes": (bytes, encode_bytes, lambda value: decode_bytes("value", value)),
    "map": (
        dict,
        lambda value: {name: _encode_value(item) for name, item in value.items()},
        _decode_mapping,
    ),
    "list": (list, lambda value: [_encode_value(item) for item in value], _decode_list),
}
