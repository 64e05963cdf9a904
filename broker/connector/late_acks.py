"""Acknowledgements that wait until what came with them has been answered.

A client that asks and acknowledges in one chunk waits for the answer only. Nobody sees the
difference: all of it happens in one turn of the loop, before anything else is read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from pyjms.transport.openwire import OpenWireTransport
from pyjms.wire.openwire.commands import ActiveMQMessage, Command, MessageAck

__all__ = ["LateAcks"]


class LateAcks:
    """Those of one connection. Only messages overtake them, and only in one chunk."""

    __slots__ = ("_handle", "_waiting", "transport")

    def __init__(self, transport: OpenWireTransport, handle: Callable[[Command], None]) -> None:
        self.transport = transport
        self._handle = handle
        self._waiting: deque[MessageAck] = deque()

    def take(self, command: Command) -> bool:
        """Return whether `command` waits; if it does not, what it must not overtake is handled."""
        if type(command) is MessageAck:
            # no part of a transaction, and no answer is asked for
            if command.transaction_id is None and not command.response_required:
                if self._waiting or self.transport.defer(self.handle_all):
                    self._waiting.append(command)
                    return True
                return False
        elif isinstance(command, ActiveMQMessage):
            return False
        if self._waiting:
            self.handle_all()
        return False

    def handle_all(self) -> None:
        """Handle what waits, in its order."""
        waiting = self._waiting
        while waiting:
            self._handle(waiting.popleft())
