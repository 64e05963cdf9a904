"""The asynchronous sends of a session, and the callbacks that tell the application their outcome.

A send with a callback requires a response from the broker and does not wait for it. Responses may
arrive in another order than the sends; the callbacks are called in the order of the sends:

    send()         -> the send is outstanding (in the order of the sends), the message is locked
    _on_response() -> the outcome is recorded; the dispatcher is woken if the send is the first
    deliver_one()  -> the callback of the first send is called by the session's listener dispatcher,
                      so that no listener runs at that time; the send is no longer outstanding

Closing, commit and rollback wait for all callbacks. In a listener of the session, which keeps the
dispatcher busy, `wait` calls them itself. When the session is disposed its dispatcher ends, and a
background task calls the remaining callbacks; sends without a response have failed.
(JMS 2.0, section 7.3; jms-api 3.11)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from anyio.lowlevel import checkpoint

from pyjms.errors import IllegalStateException, JMSException
from pyjms.jms.api import AsyncCallback, CompletionListener
from pyjms.jms.message import Message
from pyjms.runtime import clock as _clock
from pyjms.runtime.clock import Waiters
from pyjms.runtime.event_loop import BackgroundTask, spawn
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.commands import ActiveMQMessage, ProducerId, Response

if TYPE_CHECKING:
    from pyjms.client.session import ActiveMQSession

logger: Final = get_logger(__name__)

_YIELD_MASK = 0x3F  # every 64th send lets other tasks run


class _Send:
    """One outstanding send; its message cannot be changed before the callback."""

    __slots__ = ("_writable", "listener", "message", "outcome", "producer_id")

    def __init__(
        self, message: Message, listener: CompletionListener, producer_id: ProducerId | None
    ) -> None:
        self.message = message
        self.listener = listener
        self.producer_id = producer_id
        self.outcome: Response | Exception | None = None
        self._writable = (message.read_only_body, message.read_only_properties)
        message.read_only_body = message.read_only_properties = True

    async def call_back(self) -> None:
        """Unlock the message and call the application's callback with the outcome."""
        message, outcome, listener = self.message, self.outcome, self.listener
        self.unlock()
        try:
            if isinstance(outcome, Exception):
                result = listener.on_exception(message, _as_jms(outcome))
            else:
                result = listener.on_completion(message)
            if result is not None:
                await result
        except Exception:
            logger.exception("The completion listener failed on %s", message.message_id)

    def unlock(self) -> None:
        """Restore whether the message is writable."""
        self.message.read_only_body, self.message.read_only_properties = self._writable


class SendCompletions:
    """The asynchronous sends of one session. Belongs to its loop."""

    is_queued = False
    takes_turns = False

    def __init__(self, session: ActiveMQSession) -> None:
        self.listener_name: str = f"the completion listener of session {session.session_id}"
        self._connection = session.connection
        self._dispatcher = session.dispatcher
        self.outstanding: deque[_Send] = deque()
        """In the order of the sends; a send stays here until its callback has returned."""
        self._messages: set[int] = set()  # the id() of each message
        self._changed = Waiters()
        self._is_calling = False
        self._failure: JMSException | None = None
        self._rest: BackgroundTask | None = None
        self._sent = 0

    async def send(
        self, command: ActiveMQMessage, message: Message, listener: CompletionListener
    ) -> None:
        """Send `command`; `listener` is called with `message` and the outcome.

        Waits only while the transport is congested; cancelling that wait does not undo the send.

        Raises:
            ConnectionFailedException: the connection has failed before; the listener is not
                called. A failure during the wait is reported to the listener only.
        """
        send = _Send(message, listener, command.producer_id)
        self.outstanding.append(send)
        self._messages.add(id(message))
        transport = self._connection.transport
        try:
            transport.request_soon(command, partial(self._on_response, send))
        except BaseException:
            self.outstanding.remove(send)
            self._messages.discard(id(message))
            send.unlock()
            raise
        if not self._dispatcher.is_busy:
            self._connection.send_now()
        self._sent += 1
        if transport.congested:
            with suppress(JMSException):  # reported to the listener
                await transport.drained()
        elif not self._sent & _YIELD_MASK:
            await checkpoint()

    def check_sendable(self, message: Message) -> None:
        """Refuse a message whose asynchronous send is outstanding.

        Raises:
            IllegalStateException: its send is outstanding.
        """
        if id(message) in self._messages:
            raise IllegalStateException(
                "The message is being sent asynchronously",
                hint="send another object, or wait for its completion listener",
            )

    @property
    def is_busy(self) -> bool:
        """Whether a callback has not been called or has not returned yet."""
        return self._is_calling or bool(self.outstanding)

    async def wait(self, producer_id: ProducerId | None = None) -> None:
        """Wait until all callbacks (of a producer) have returned. Call `check` first."""
        while self._has_outstanding(producer_id):
            is_due = self.outstanding[0].outcome is not None and not self._is_calling
            if is_due and self._dispatcher.is_own_call:
                await self.deliver_one()
                continue
            await self._changed.wait()

    async def finish(self, producer_id: ProducerId | None = None) -> None:
        """Wait for all callbacks (of a producer), but no longer than `close_timeout`.

        The remaining ones are called later, with their outcome or by `dispose`.
        """
        if self._has_outstanding(producer_id):
            with _clock.timeout(self._connection.options.close_timeout):
                await self.wait(producer_id)

    def check(self, call: str) -> None:
        """Refuse a `call` that waits for all callbacks inside a callback.

        Raises:
            IllegalStateException: this is a callback.
        """
        if self._is_calling and self._dispatcher.is_own_call:
            raise IllegalStateException(
                f"{call} cannot be called in a completion listener: it waits for all of them",
                hint="call it in the task that sends",
            )

    async def deliver_one(self) -> bool:
        """Call the callback of the first send, if its outcome is known; return if there are more.

        Called by the listener dispatcher.
        """
        outstanding = self.outstanding
        if self._is_calling or not outstanding or outstanding[0].outcome is None:
            return False
        self._is_calling = True
        self._messages.discard(id(outstanding[0].message))
        try:
            await outstanding[0].call_back()
        finally:
            self._is_calling = False
            outstanding.popleft()
            self._changed.wake()
        return bool(outstanding) and outstanding[0].outcome is not None

    def dispose(self, failure: JMSException | None) -> None:
        """Call the remaining callbacks in the background: the dispatcher calls nothing any more."""
        if not self.outstanding or self._rest is not None:
            return
        error = failure or IllegalStateException("The session was closed before the response came")
        for send in self.outstanding:
            send.outcome = send.outcome or error
        self._rest = spawn(self._call_rest, name=f"pyjms {self.listener_name}")

    async def end(self) -> None:
        """Wait for the background callbacks of `dispose`; return at once inside one of them."""
        if self._rest is not None and not self._is_calling:
            await self._rest.wait()

    async def _call_rest(self) -> None:
        await self._dispatcher.wait_idle()
        while await self.deliver_one():
            pass

    def _on_response(self, send: _Send, outcome: Response | Exception) -> None:
        if send.outcome is not None:
            return  # the session was disposed
        send.outcome = outcome
        if self.outstanding[0] is send:
            self._dispatcher.wake(self)
            self._changed.wake()

    def _has_outstanding(self, producer_id: ProducerId | None) -> bool:
        if producer_id is None:
            return bool(self.outstanding)
        return any(send.producer_id == producer_id for send in self.outstanding)


def _as_jms(error: Exception) -> JMSException:
    if isinstance(error, JMSException):
        return error
    wrapped = JMSException(f"The message was not sent: {error!r}")
    wrapped.linked_exception = wrapped.__cause__ = error
    return wrapped


class _CallbackListener:
    """An AsyncCallback as a completion listener."""

    def __init__(self, callback: AsyncCallback) -> None:
        self._callback = callback

    def on_completion(self, _: Message) -> Awaitable[None] | None:
        """Call `on_success`."""
        return self._callback.on_success()

    def on_exception(self, _: Message, error: JMSException) -> Awaitable[None] | None:
        """Call `on_exception`."""
        return self._callback.on_exception(error)


def completion_listener_of(
    listener: CompletionListener | None, callback: AsyncCallback | None
) -> CompletionListener:
    """Return the completion listener of a send; a callback is wrapped in one.

    Raises:
        TypeError: both are given, or the given object lacks one of the two methods.
    """
    if listener is not None and callback is not None:
        raise TypeError("Give a completion_listener or a callback, not both")
    given, first = (listener, "on_completion") if callback is None else (callback, "on_success")
    for name in (first, "on_exception"):
        if not callable(getattr(given, name, None)):
            raise TypeError(
                f"A {type(given).__name__} has no {name}(): a completion listener has "
                "on_completion(message) and on_exception(message, error), an AsyncCallback "
                "on_success() and on_exception(error)"
            )
    if callback is not None:
        return _CallbackListener(callback)
    assert listener is not None
    return listener
