"""The keys of idempotent handlers: from a header, a format string, or a function of the payload.

A field in braces is the name of a header or property, or `payload`, followed by attributes and
keys: `{payload.customer.id}`, `{payload[number]}`; for a dict, an attribute name is a key.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyjms.errors import ConfigurationException, MessageConversionException

__all__ = ["KeyReader", "key_reader"]

KeyReader = Callable[[Mapping[str, object], object], str]
"""Returns the key of a message, of its headers and its payload."""

_PAYLOAD: Final = "payload"


def key_reader(key: str | Callable[[Any], object], handler: str) -> KeyReader:
    """Return a function that reads the key described by `@idempotent(key=...)`.

    Raises:
        ConfigurationException: the text has fields that cannot be read.
    """
    if callable(key):
        function = key
        return lambda _headers, payload: _text(function(payload), "its function")
    if "{" not in key:
        return lambda headers, _payload: _text(headers.get(key), key)
    try:
        parts = list(string.Formatter().parse(key))
    except ValueError as error:
        raise ConfigurationException(
            f"Handler {handler}: the key {key!r} cannot be read: {error}",
            hint='write fields as in "{jms_type}:{payload.number}"',
        ) from error
    if any(field == "" for _, field, _, _ in parts):
        raise ConfigurationException(
            f"Handler {handler}: the key {key!r} has a field without a name",
            hint='write fields as in "{jms_type}:{payload.number}"',
        )

    def read(headers: Mapping[str, object], payload: object) -> str:
        found = []
        for literal, field, _spec, _conversion in parts:
            found.append(literal)
            if field is not None:
                found.append(_text(_value(field, headers, payload), field))
        return "".join(found)

    return read


def _value(field: str, headers: Mapping[str, object], payload: object) -> object:
    names = field.replace("]", "").replace("[", ".").split(".")
    value: object = payload if names[0] == _PAYLOAD else headers.get(names[0])
    for name in filter(None, names[1:]):
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return value


def _text(value: object, source: str) -> str:
    if value is None or value == "":
        raise MessageConversionException(
            f"The message has no idempotency key: {source} is missing", target=str
        )
    return str(value)
