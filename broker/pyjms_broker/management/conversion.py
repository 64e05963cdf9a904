"""Conversion of the values in management requests to the types of attributes and parameters."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from pyjms_broker.management.errors import InvalidArgumentException

__all__ = ["BOOLEAN", "BYTE", "DOUBLE", "FLOAT", "INT", "LONG", "MAP", "STRING", "converted"]

STRING: Final = "java.lang.String"
BOOLEAN: Final = "boolean"
BYTE: Final = "byte"
INT: Final = "int"
LONG: Final = "long"
FLOAT: Final = "float"
DOUBLE: Final = "double"
MAP: Final = "java.util.Map"


def converted(value: object, java_type: str, where: str) -> object:
    """Convert a value of a request to the Java type with this name.

    Numbers and booleans may be strings, as in URLs. `where` is the attribute or parameter.

    Raises:
        InvalidArgumentException: it is not a value of that type.
    """
    try:
        return _READERS[java_type](value)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidArgumentException(
            f"{where}: a {type(value).__name__} cannot be read as {java_type}",
            hint=f"give a value of type {java_type}",
        ) from error


def _text(value: object) -> object:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise TypeError


def _boolean(value: object) -> object:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _BOOLEANS:
        return _BOOLEANS[value.lower()]
    raise TypeError


_BOOLEANS: Final = {"true": True, "false": False}


def _integer(bits: int) -> Callable[[object], object]:
    def read(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int | str) or len(str(value)) > 20:
            raise TypeError
        number = int(value)
        if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            raise ValueError
        return number

    return read


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    return float(value)


def _map(value: object) -> object:
    if isinstance(value, str):
        value = json.loads(value)
    if isinstance(value, Mapping):
        return {str(key): each for key, each in value.items()}
    raise TypeError


_READERS: Final[dict[str, Callable[[object], object]]] = {
    STRING: _text,
    BOOLEAN: _boolean,
    BYTE: _integer(8),
    INT: _integer(32),
    LONG: _integer(64),
    FLOAT: _number,
    DOUBLE: _number,
    MAP: _map,
}
