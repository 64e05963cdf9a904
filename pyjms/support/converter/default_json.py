"""The JSON of the default converter, imported by the first payload or target that needs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pydantic

from pyjms.errors import MessageConversionException
from pyjms.jms.message import Message
from pyjms.support.converter.json import (
    JsonMessageConverter,
    MessageType,
    describe_problems,
    type_adapter,
    type_name,
)
from pyjms.support.converter.simple import SimpleMessageConverter
from pyjms.support.converter.type_ids import TYPE_ID_PROPERTY, is_open

__all__ = ["DefaultJson", "converted"]


class DefaultJson(JsonMessageConverter):
    """Writes text messages with the type id in the property `_type`, and reads them."""

    def __init__(self, mappings: Mapping[str, type], trusted_packages: Iterable[str]) -> None:
        super().__init__(
            target_type=MessageType.TEXT,
            type_id_property_name=TYPE_ID_PROPERTY,
            type_id_mappings=mappings,
            trusted_packages=trusted_packages,
        )
        self._simple = SimpleMessageConverter()

    def from_message(self, message: Message, target: object = None) -> Any:
        if is_open(target) and self.named_type(message, target) is None:
            return super().from_message(message, pydantic.JsonValue)
        if target is str or target is bytes:
            try:
                return super().from_message(message, target)
            except MessageConversionException:
                # JSON that is not a string: for a str target the JSON itself is returned
                return converted(self._simple.from_message(message), target, target, message)
        return super().from_message(message, target)


def converted(payload: object, target: Any, wanted: Any, message: Message) -> Any:
    """Return the payload of `message` as `target`, whose type without annotations is `wanted`.

    Raises:
        MessageConversionException: it does not match.
    """
    adapter = type_adapter(target)
    try:
        if isinstance(payload, str | bytes) and wanted is not str and wanted is not bytes:
            try:
                return adapter.validate_json(payload)
            except pydantic.ValidationError as error:
                if not isinstance(payload, str) or error.errors()[0]["type"] != "json_invalid":
                    raise
        return adapter.validate_python(payload)
    except pydantic.ValidationError as error:
        raise MessageConversionException(
            f"Could not convert the payload of message [{message.message_id}] to "
            f"{type_name(target)}: {describe_problems(error)}",
            target=target,
        ) from None
