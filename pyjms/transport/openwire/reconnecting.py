"""Transports that find a new peer by themselves when they have lost one."""

from __future__ import annotations

from abc import ABC
from typing import Protocol

from pyjms.transport.openwire.correlator import RequestTransport

__all__ = ["InterruptionListener", "ReconnectingTransport"]


class InterruptionListener(Protocol):
    """The receiver of interruptions. Both are plain calls on the loop and must not block."""

    def transport_interrupted(self, error: Exception) -> None:
        """Note that the peer is lost, because of `error`. ActiveMQ: transportInterupted."""

    def transport_resumed(self) -> None:
        """Note that there is a peer again. ActiveMQ: transportResumed."""


class ReconnectingTransport(RequestTransport, ABC):
    """A transport that survives the loss of its peer.

    `oneway` does not raise while there is no peer: `congested` is true, and `drained` waits.
    Requests wait for the next peer. It fails, once, when it gives up.
    """

    interruptions: InterruptionListener | None = None
    """The receiver of interruptions; set it before `start()`."""
