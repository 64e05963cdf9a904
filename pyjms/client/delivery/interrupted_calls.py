"""Calls of AUTO listeners during which the connection is lost, and the redelivered message.

The acknowledgement is lost with the broker, so the next broker dispatches the message again,
perhaps before the listener has returned. What happens to this copy depends on how the listener
ends:

    the listener    the copy
    --------------  ------------------------------------------------------------
    runs            waits for its end
    has returned    is acknowledged: its message was handled
    has raised      is the message's redelivery
"""

from __future__ import annotations

from pyjms.wire.openwire.commands import MessageDispatch, MessageId

__all__ = ["InterruptedCall"]


class InterruptedCall:
    """That of one consumer, whose listener has one call at a time."""

    def __init__(self) -> None:
        self._running: MessageDispatch | None = None
        self._handled: MessageId | None = None
        self._copy: MessageDispatch | None = None

    def interrupt(self, delivered: list[MessageDispatch]) -> None:
        """Note the loss of the connection; `delivered` has the message of a call in progress."""
        self._running = delivered[-1] if delivered else self._running
        self._copy = None

    def keep(self, dispatch: MessageDispatch) -> bool:
        """Keep a copy that comes during the call; return whether it is one."""
        if self._running is None or _id(dispatch) != _id(self._running):
            return False
        self._copy = dispatch
        return True

    def is_handled(self, dispatch: MessageDispatch) -> bool:
        """Return whether it is the copy of the message that was handled last, once."""
        handled = self._handled is not None and _id(dispatch) == self._handled
        if handled:
            self._handled = None
        return handled

    def end(self) -> MessageDispatch | None:
        """Note that the listener has returned; return the copy, which is handled as well."""
        running, self._running = self._running, None
        copy, self._copy = self._copy, None
        if running is not None and copy is None:
            self._handled = _id(running)
        return copy

    def fail(self) -> tuple[list[MessageDispatch], list[MessageDispatch]]:
        """Note that the listener has raised; return what is expected again, and what has come."""
        running, self._running = self._running, None
        copy, self._copy = self._copy, None
        if copy is not None:
            return [], [copy]
        return ([] if running is None else [running]), []


def _id(dispatch: MessageDispatch) -> MessageId | None:
    return None if dispatch.message is None else dispatch.message.message_id
