"""The two connections of a bridge, to the local and to the remote broker."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final

import anyio

from pyjms.errors import ConnectionFailedException
from pyjms.runtime import clock as _clock
from pyjms.runtime.ids import IdGenerator
from pyjms.runtime.logging import get_logger
from pyjms.transport.openwire.correlator import RequestChannel
from pyjms.wire.openwire import commands

__all__ = ["BridgeEnd"]

logger = get_logger(__name__)

_TIMEOUT: Final = 30.0
"""Seconds to wait for the broker's BrokerInfo, and for each response while a bridge starts."""
_SESSION: Final = 1


class BridgeEnd:
    """A connection with one session and one producer without a destination.

    Args:
        transport: the transport, not started.
        on_command: called with the broker's commands other than responses.
        on_failure: called with the failure of the transport.
        is_duplex: whether the broker at the other end also forwards over the connection.
    """

    def __init__(
        self,
        transport: RequestChannel,
        on_command: Callable[[commands.Command], None],
        on_failure: Callable[[Exception], None],
        *,
        is_duplex: bool = False,
    ) -> None:
        self.transport = transport
        self.connection_id = commands.ConnectionId(IdGenerator().generate())
        self.producer_id = commands.ProducerId(self.connection_id.value, 1, _SESSION)
        self.client_id = ""
        self._deliver = on_command
        self._fail = on_failure
        self._consumers = itertools.count(1)
        self._introduction: commands.BrokerInfo | None = None
        self._introduced = anyio.Event()
        self._error: Exception | None = None
        self._has_connection = False
        self._is_duplex = is_duplex
        transport.listener = self

    def next_consumer_id(self) -> commands.ConsumerId:
        """Return the id of a new consumer of the session."""
        return commands.ConsumerId(self.connection_id.value, _SESSION, next(self._consumers))

    async def start(self) -> commands.BrokerInfo:
        """Connect; return the broker's BrokerInfo.

        Raises:
            ConnectionFailedException: the connection failed, or no BrokerInfo arrived in time.
        """
        await self.transport.start()
        with _clock.timeout(_TIMEOUT):
            await self._introduced.wait()
        if self._introduction is None:
            raise ConnectionFailedException(
                f"{self.transport.remote_address}: the broker has not introduced itself"
            ) from self._error
        return self._introduction

    async def open(self, client_id: str, user_name: str | None, password: str | None) -> None:
        """Log in, and open the session and the producer.

        Raises:
            JMSException: the broker refuses that, or does not respond.
        """
        self.client_id = client_id
        info = commands.ConnectionInfo(self.connection_id, client_id, password, user_name)
        self._has_connection = True
        await self.request(info)
        await self.request(
            commands.SessionInfo(commands.SessionId(self.connection_id.value, _SESSION))
        )
        await self.request(commands.ProducerInfo(self.producer_id))

    async def request(self, command: commands.Command) -> None:
        """Send a command and wait for its response, which a duplex connection does not have.

        Raises:
            JMSException: the broker refuses that, or does not respond.
        """
        if self._is_duplex:
            self.transport.oneway(command)  # a refusal arrives as a ConnectionError
        else:
            await self.transport.request(command, _TIMEOUT)

    def send(self, command: commands.Command) -> None:
        """Send a command; end the bridge if the transport has failed."""
        try:
            self.transport.oneway(command)
        except ConnectionFailedException as error:
            self._fail(error)

    def try_request(
        self, command: commands.Command, on_refusal: Callable[[Exception], None] | None = None
    ) -> None:
        """Send a command without waiting; a refusal is passed to `on_refusal`, or logged."""

        def on_response(outcome: commands.Response | Exception) -> None:
            # a failure of the connection ends the bridge anyway
            if isinstance(outcome, Exception) and not isinstance(
                outcome, ConnectionFailedException
            ):
                if on_refusal is not None:
                    on_refusal(outcome)
                else:
                    logger.warning("A request of a network bridge was refused: %s", outcome)

        try:
            self.transport.request_soon(command, on_response)
        except ConnectionFailedException as error:
            logger.debug("%s: nothing is sent: %s", self.transport.remote_address, error)

    async def stop(self, last_delivered: int) -> None:
        """Close the connection; messages after `last_delivered` were not processed. Idempotent."""
        if self._has_connection and self._error is None:
            self._has_connection = False
            try:
                end = commands.RemoveInfo(self.connection_id, last_delivered)
                self.transport.oneway(commands.ShutdownInfo() if self._is_duplex else end)
            except ConnectionFailedException as error:
                logger.debug("%s is lost already: %s", self.transport.remote_address, error)
        await self.transport.stop()

    # from the transport
    def on_command(self, command: commands.Command) -> None:
        """Handle a command of the broker."""
        if isinstance(command, commands.BrokerInfo):
            self._introduction = command
            self._introduced.set()
        else:
            self._deliver(command)

    def on_exception(self, error: Exception) -> None:
        """Handle a failure of the transport."""
        self._error = error
        self._introduced.set()
        self._fail(error)
