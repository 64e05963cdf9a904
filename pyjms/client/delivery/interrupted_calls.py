"""Calls of AUTO listeners during which the connection is lost, and the redelivered message.

The acknowledgement is lost with the broker, so the next broker dispatches the message again,
perhaps before the listener has returned. The handling of this copy depends on how the listener
ends:

    the listener    the copy
    --------------  ------------------------------------------------------------
    is running      waits for the listener's end
    has returned    is acknowledged: its message was handled
    has raised      is delivered as the message's redelivery
"""

from __future__ import annotations

from pyjms.wire.openwire.commands import MessageDispatch, MessageId

__all__ = ["InterruptedCall"]


class InterruptedCall:
    """The interrupted call of one consumer, whose listener has one call at a time."""

    def __init__(self) -> None:
        self._running: MessageDispatch | None = None
        self._handled: MessageId | None = None
        self._copy: MessageDispatch | None = None

    def interrupt(self, delivered: list[MessageDispatch]) -> None:
        """Record the loss of the connection; `delivered`: the message of a call in progress."""
        self._running = delivered[-1] if delivered else self._running
        self._copy = None

    def keep(self, dispatch: MessageDispatch) -> bool:
        """Keep a copy that arrives during the call; return whether `dispatch` is one."""
        if self._running is None or _id(dispatch) != _id(self._running):
            return False
        self._copy = dispatch
        return True

    def is_handled(self, dispatch: MessageDispatch) -> bool:
        """Return whether it is a copy of the last message handled; True at most once."""
        handled = self._handled is not None and _id(dispatch) == self._handled
        if handled:
            self._handled = None
        return handled

    def end(self) -> MessageDispatch | None:
        """Record that the listener has returned; return the copy, which is handled as well."""
        running, self._running = self._running, None
        copy, self._copy = self._copy, None
        if running is not None and copy is None:
            self._handled = _id(running)
        return copy

    def fail(self) -> tuple[list[MessageDispatch], list[MessageDispatch]]:
        """Record that the listener has raised; return the message to expect, and its copy."""
        running, self._running = self._running, None
        copy, self._copy = self._copy, None
        if copy is not None:
            return [], [copy]
        return ([] if running is None else [running]), []


def _id(dispatch: MessageDispatch) -> MessageId | None:
    return None if dispatch.message is None else dispatch.message.message_id
