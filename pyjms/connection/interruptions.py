"""The interruptions of a shared connection, told to the transport listeners of its handles.

TransportListening stays interpreted: `pyjms.sync` derives its class from it.
"""

from __future__ import annotations

from pyjms.jms import api
from pyjms.transport.openwire.correlator import InterruptionListener, InterruptionListeners


class SharedInterruptions(InterruptionListeners):
    """The transport listeners of all handles on one connection, or on those that replace it."""

    def watch(self, connection: api.Connection) -> None:
        """Listen to the interruptions of `connection`, if it reports any."""
        add = getattr(connection, "add_transport_listener", None)  # JMS has no such method
        if add is not None:
            add(self)


class TransportListening:
    """A handle on a shared connection, with transport listeners of its own."""

    _interruptions: SharedInterruptions
    _transport_listeners: list[InterruptionListener]

    def add_transport_listener(self, listener: InterruptionListener) -> None:
        """Register a listener that is called when a failover transport loses or finds a broker.

        The calls are made on the event loop and must not block; they end when this handle is
        closed. ActiveMQ: addTransportListener.
        """
        self._interruptions.add(listener)
        self._transport_listeners.append(listener)

    def remove_transport_listener(self, listener: InterruptionListener) -> None:
        """Stop calling `listener`. ActiveMQ: removeTransportListener."""
        if listener in self._transport_listeners:
            self._transport_listeners.remove(listener)
            self._interruptions.remove(listener)
