"""Transport listeners of the handles on a shared connection. (ActiveMQ: TransportListener)"""

from __future__ import annotations

from pyjms.jms.api import Connection
from pyjms.transport.openwire import InterruptionListener, InterruptionListeners

__all__ = ["SharedInterruptions", "TransportListening"]


class SharedInterruptions(InterruptionListeners):
    """The transport listeners of all handles on one connection, or on those that replace it."""

    def watch(self, connection: Connection) -> None:
        """Listen to the interruptions of `connection`, if it reports any."""
        add = getattr(connection, "add_transport_listener", None)  # JMS has no such method
        if add is not None:
            add(self)


class TransportListening:
    """A handle on a shared connection, with transport listeners of its own."""

    def __init__(self, interruptions: SharedInterruptions) -> None:
        self._interruptions = interruptions
        self._own: list[InterruptionListener] = []

    def add_transport_listener(self, listener: InterruptionListener) -> None:
        """Register a listener that is called when a failover transport loses or finds a broker.

        The calls are made on the event loop and must not block; they end when this handle is
        closed. ActiveMQ: addTransportListener.
        """
        self._interruptions.add(listener)
        self._own.append(listener)

    def remove_transport_listener(self, listener: InterruptionListener) -> None:
        """Stop calling `listener`. ActiveMQ: removeTransportListener."""
        if listener in self._own:
            self._own.remove(listener)
            self._interruptions.remove(listener)

    def drop_transport_listeners(self) -> None:
        """Stop calling the listeners of this handle: it is closed."""
        while self._own:
            self._interruptions.remove(self._own.pop())
