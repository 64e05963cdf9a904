"""The interface of message converters."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from pyjms.jms.api import Session
from pyjms.jms.message import Message

__all__ = ["MessageConverter"]


@runtime_checkable
class MessageConverter(Protocol):
    """Converts payloads to messages, and messages to payloads. Spring: MessageConverter.

    Both methods are synchronous and must not block; tasks and threads may call them concurrently.
    `pyjms.testing.contract.converter` has tests for implementations.
    """

    def to_message(self, payload: object, session: Session) -> Message:
        """Return a message of `session` for `payload`.

        Raises:
            MessageConversionException: the converter does not support it.
        """
        ...

    def from_message(self, message: Message, target: object = None) -> Any:
        """Return the payload of `message`, of type `target` if it is given.

        `target` is a type or typing form (`list[Order]`); None, `object` and `Any` leave the
        choice to the message.

        Raises:
            MessageConversionException: the message cannot be read, or not converted to `target`.
        """
        ...
