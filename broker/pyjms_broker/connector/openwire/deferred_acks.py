"""Deferral of acknowledgements until the responses to commands of the same chunk are sent.

A client that sends a request and an acknowledgement in one chunk waits only for the response.
Handling the acknowledgement afterwards shortens that wait. The difference is not observable,
because everything happens in one turn of the event loop, before anything else is read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from pyjms.transport.openwire import OpenWireTransport
from pyjms.wire.openwire.commands import ActiveMQMessage, Command, MessageAck

__all__ = ["DeferredAcks"]


class DeferredAcks:
    """The deferred acknowledgements of one connection.

    Only messages of the same chunk overtake them.
    """

    __slots__ = ("_deferred", "_handle", "transport")

    def __init__(self, transport: OpenWireTransport, handle: Callable[[Command], None]) -> None:
        self.transport = transport
        self._handle = handle
        self._deferred: deque[MessageAck] = deque()

    def defer(self, command: Command) -> bool:
        """Defer `command` if possible; return whether it is deferred.

        If it is not, deferred acknowledgements that it must not overtake are handled now.
        """
        if type(command) is MessageAck:
            # outside a transaction, and nobody waits for a response
            if command.transaction_id is None and not command.response_required:
                if self._deferred or self.transport.defer(self.handle_all):
                    self._deferred.append(command)
                    return True
                return False
        elif isinstance(command, ActiveMQMessage):
            return False
        if self._deferred:
            self.handle_all()
        return False

    def handle_all(self) -> None:
        """Handle the deferred acknowledgements in order."""
        deferred = self._deferred
        while deferred:
            self._handle(deferred.popleft())
