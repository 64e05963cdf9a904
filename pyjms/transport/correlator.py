"""The outermost filter: commands get their numbers here, responses find who waits for them.

One counter numbers every command, from 1; a command that asks for a response is answered
exactly once, by the peer or by the transport's failure. (ActiveMQ U4, ENCODING section 10)
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from anyio.lowlevel import checkpoint

from pyjms import _clock
from pyjms._wakeup import Waiter
from pyjms.errors import ConnectionFailedException, RequestTimeoutException
from pyjms.transport.base import RequestTransport, Transport
from pyjms.transport.remote_errors import from_throwable
from pyjms.wire.openwire.commands import Command, ExceptionResponse, Response

__all__ = ["ResponseCorrelator"]

logger = logging.getLogger(__name__)

_LAST_ID = 0x7FFF_FFFF  # command ids are i32 on the wire; after the last comes 1 again


class ResponseCorrelator(RequestTransport):
    """Numbers commands and matches responses by that number. JMS has no name for it."""

    def __init__(self, next_transport: Transport) -> None:
        super().__init__(next_transport)
        self._inner = next_transport
        self._last_id = 0
        self._pending: dict[int, Callable[[Response | Exception], None]] = {}
        self._error: Exception | None = None

    async def start(self) -> None:
        await self.next.start()
        self._inner = self.next.inner

    @property
    def congested(self) -> bool:
        return self._inner.congested

    def send_now(self) -> None:
        self._inner.send_now()

    def oneway(self, command: Command) -> None:
        number = self._last_id = self._last_id + 1 if self._last_id < _LAST_ID else 1
        command.command_id = number
        command.response_required = False
        self._inner.oneway(command)

    def request_soon(
        self, command: Command, on_response: Callable[[Response | Exception], None]
    ) -> None:
        if self._error is not None:
            raise _again(self._error)
        number = self._last_id = self._last_id + 1 if self._last_id < _LAST_ID else 1
        command.command_id = number
        command.response_required = True
        self._pending[number] = on_response
        try:
            self._inner.oneway(command)
        except Exception:
            self._pending.pop(number, None)
            raise

    async def request(self, command: Command, timeout: float | None = None) -> Response:
        waiter = Waiter()
        answers: list[Response | Exception] = []

        def take(answer: Response | Exception) -> None:
            answers.append(answer)
            waiter.wake()

        self.request_soon(command, take)
        self._inner.send_now()
        try:
            if answers:
                await checkpoint()  # others have their turn all the same
            else:
                await _clock.wait(waiter, timeout)
        finally:
            if not answers:
                self._pending.pop(command.command_id, None)
        if not answers:
            raise RequestTimeoutException(
                f"The broker did not answer {type(command).__name__} within {timeout:g} s",
                hint=f"the transport to {self.remote_address} is open; the broker may be busy",
            )
        if isinstance(answers[0], Exception):
            raise answers[0]
        return answers[0]

    def on_command(self, command: Command) -> None:
        if not isinstance(command, Response):
            self.listener.on_command(command)
            return
        on_response = self._pending.pop(command.correlation_id, None)
        if on_response is None:
            logger.debug("Response %d is for nobody", command.correlation_id)
        elif isinstance(command, ExceptionResponse):
            on_response(from_throwable(command.exception))
        else:
            on_response(command)

    def on_exception(self, error: Exception) -> None:
        self._fail_pending(error)
        self.listener.on_exception(error)

    async def stop(self) -> None:
        try:
            await self.next.stop()
        finally:
            self._fail_pending(
                ConnectionFailedException(f"The transport to {self.remote_address} was stopped")
            )

    def _fail_pending(self, error: Exception) -> None:
        self._error = self._error or error
        pending, self._pending = self._pending, {}
        for on_response in pending.values():
            on_response(_again(error))


def _again(error: Exception) -> Exception:
    """A fresh exception for each waiter: one object raised twice would mix their tracebacks."""
    fresh = ConnectionFailedException(str(error) or type(error).__name__)
    fresh.linked_exception = fresh.__cause__ = error
    return fresh
