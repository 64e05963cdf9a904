"""What handlers were called with, and what they raised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyjms.jms.api import Session
from pyjms.jms.message import Message

__all__ = ["HandlerCall", "Recorder"]


@dataclass(frozen=True)
class HandlerCall:
    """One call of a handler."""

    handler: Callable[..., Any]
    message: Message
    error: BaseException | None
    """What the handler raised; None when it returned."""


class Recorder:
    """Keeps the calls of an application's handlers, in the order in which they ended."""

    def __init__(self) -> None:
        self.all_calls: list[HandlerCall] = []

    def calls(self, handler: Callable[..., Any]) -> list[HandlerCall]:
        """The calls of this handler. Methods compare by function and instance."""
        return [call for call in self.all_calls if call.handler == handler]

    def messages(self, handler: Callable[..., Any]) -> list[Message]:
        """The messages that this handler was called with."""
        return [call.message for call in self.calls(handler)]

    def errors(self) -> list[BaseException]:
        """What the handlers raised."""
        return [call.error for call in self.all_calls if call.error is not None]

    def around(self, handler: Callable[..., Any], listener: Callable[..., Any]) -> Any:
        """Return `listener` with its calls recorded under `handler`."""

        async def record(message: Message, session: Session) -> None:
            error: BaseException | None = None
            try:
                await listener(message, session)
            except Exception as raised:
                error = raised.__cause__ or raised
                raise
            finally:
                self.all_calls.append(HandlerCall(handler, message, error))

        return record
