"""Transports that find a new peer by themselves when they have lost one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

from anyio.lowlevel import checkpoint

from pyjms import _clock
from pyjms._wakeup import Waiter
from pyjms.errors import RequestTimeoutException
from pyjms.transport.openwire.correlator import RequestTransport
from pyjms.wire.openwire.commands import Command, Response

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

    @abstractmethod
    def abandon(self, command: Command) -> None:
        """Do not repeat the request of `command`: nobody waits for its response any more."""

    async def request(self, command: Command, timeout: float | None = None) -> Response:
        waiter = Waiter()
        outcomes: list[Response | Exception] = []

        def complete(outcome: Response | Exception) -> None:
            outcomes.append(outcome)
            waiter.wake()

        self.request_soon(command, complete)
        self.flush()
        try:
            if outcomes:
                await checkpoint()  # other tasks get to run all the same
            else:
                await _clock.wait(waiter, timeout)
        finally:
            if not outcomes:
                self.abandon(command)
        if not outcomes:
            raise RequestTimeoutException(
                f"No response from a broker to {type(command).__name__} within {timeout:g} s",
                hint=f"the transport is {self.remote_address}",
            )
        if isinstance(outcomes[0], Exception):
            raise outcomes[0]
        return outcomes[0]
