"""The message producer: sets a message's headers, encodes it as a command and sends the command.

Only a persistent message outside a transaction waits for the broker's response, unless the
connection factory's options say otherwise. All others are queued for writing; `send` then waits
only while the transport is congested or the producer window is full, and lets other tasks run
after every 256 KiB. (JMS 1.1, section 4.6; activemq-edges N2 to N5)

Asynchronous sends. A send with a callback, which tells the application the outcome, requires a
response from the broker and does not wait for it. Responses may arrive in another order than the
sends; the callbacks are called in the order of the sends:

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
from inspect import isawaitable
from operator import index
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from anyio.lowlevel import checkpoint

from pyjms.client.destination_options import (
    PRODUCER_OPTIONS,
    check_destination,
    set_destination_options,
)
from pyjms.client.dispatcher import ListenerTarget
from pyjms.client.messages import delay_delivery, to_command, transform_sent
from pyjms.enums import DeliveryMode
from pyjms.errors import IllegalStateException, JMSException, UnsupportedOperationException
from pyjms.jms import api
from pyjms.jms.api import AsyncCallback, CompletionListener, MessageTransformer, destination_first
from pyjms.jms.blob import BlobMessage
from pyjms.jms.destination import Destination
from pyjms.jms.message import DEFAULT_PRIORITY, Message
from pyjms.management import JMSProducerStats
from pyjms.runtime import clock as _clock
from pyjms.runtime.clock import FOR_EVER, Waiters, check_seconds
from pyjms.runtime.event_loop import BackgroundTask, spawn
from pyjms.runtime.logging import WarnedOnce, get_logger
from pyjms.transport.options import camel_case
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    MessageId,
    ProducerId,
    ProducerInfo,
    Response,
    message_size,
)

if TYPE_CHECKING:
    from pyjms.client.connection import ActiveMQConnection
    from pyjms.client.session import ActiveMQSession

logger: Final = get_logger(__name__)

_warned: Final = WarnedOnce()


def _within_limits(priority: int, target: Destination) -> int:
    """Return the nearest priority, and warn once for each destination."""
    nearest = min(max(priority, 0), 9)
    if _warned.is_due(str(target)):
        logger.warning(
            "Messages to %s are sent with priority %d: there is no priority %d, they are from 0 "
            "(lowest) to 9",
            target,
            nearest,
            priority,
        )
    return nearest


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
            if result is not None and isawaitable(result):
                await result
        except Exception:
            logger.exception("The completion listener failed on %s", message.message_id)

    def unlock(self) -> None:
        """Restore whether the message is writable."""
        self.message.read_only_body, self.message.read_only_properties = self._writable


class SendCompletions(ListenerTarget):
    """The asynchronous sends of one session. Belongs to its loop."""

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
        if self._dispatcher.running is None:
            self._connection.send_now()
        self._sent += 1
        if transport.congested:
            with suppress(JMSException):  # reported to the listener
                await transport.drain()
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


_YIELD_BYTES = 256 * 1024  # of asynchronous sending between two checkpoints

_FIRST_VERSION_WITH_PRODUCER_ACK = 3

_PERSISTENT = DeliveryMode.PERSISTENT
_NON_PERSISTENT = DeliveryMode.NON_PERSISTENT


class ActiveMQMessageProducer(api.MessageProducer):
    """Sends messages to one destination, or to the one given with a send. Created by a session."""

    def __init__(
        self, session: ActiveMQSession, producer_id: ProducerId, destination: Destination | None
    ) -> None:
        options = session.connection.options
        self.session = session
        self.producer_id = producer_id
        self.info: ProducerInfo = ProducerInfo(
            producer_id, destination, window_size=options.producer_window_size
        )
        if destination is not None:
            set_destination_options(destination, "producer", PRODUCER_OPTIONS, self.info)
        self.window: ProducerWindow | None = _window(session.connection, self.info)
        self.next_message_id: MessageId | None = None
        """The id of the next message, instead of this producer's next number.

        For callers that repeat a send and need the broker to detect the duplicate.
        """
        self.disable_message_id = False
        self.disable_message_timestamp: bool = options.disable_time_stamps_by_default
        self.transformer: MessageTransformer | None = session.transformer
        """Replaces the messages that are sent; None: no transformer."""
        self._delivery_mode = _PERSISTENT
        self._priority = DEFAULT_PRIORITY
        self._time_to_live = 0.0
        self._delay = 0  # milliseconds
        self._send_timeout = options.send_timeout
        self._destination = destination
        # a temporary destination may be deleted, which each send checks
        self._usual_target = (
            None if destination is None or destination.is_temporary else destination
        )
        self.stats: JMSProducerStats | None = None
        """The statistics of its sends; None if `stats_enabled` is off."""
        if session.stats is not None:
            name = None if destination is None else destination.physical_name
            self.stats = session.stats.add_producer(str(producer_id), name)
        self._sequence = 0
        self._unyielded = 0
        self._is_closed = False
        self._failure: JMSException | None = None

    @property
    def destination(self) -> Destination | None:
        self.check_open()
        return self._destination

    @property
    def delivery_mode(self) -> DeliveryMode:
        """The default delivery mode of sends.

        Raises:
            IllegalStateException: on setting, the producer is closed or the mode unknown.
        """
        return self._delivery_mode

    @delivery_mode.setter
    def delivery_mode(self, value: DeliveryMode) -> None:
        self.check_open()
        if value not in tuple(DeliveryMode):
            raise _unknown_mode(value)
        self._delivery_mode = DeliveryMode(value)

    @property
    def priority(self) -> int:
        """The default priority of sends, 0 to 9.

        Raises:
            IllegalStateException: on setting, the producer is closed or the value out of range.
        """
        return self._priority

    @priority.setter
    def priority(self, value: int) -> None:
        self.check_open()
        try:
            value = index(value)
        except TypeError:
            raise _not_a_priority(value) from None
        if not 0 <= value <= 9:
            raise IllegalStateException(
                f"default priority must be a value between 0 and 9: {value}"
            )
        self._priority = value

    @property
    def time_to_live(self) -> float:
        """The default time to live of sends in seconds; 0: messages never expire.

        Raises:
            IllegalStateException: on setting, the producer is closed or the value negative.
        """
        return self._time_to_live

    @time_to_live.setter
    def time_to_live(self, value: float) -> None:
        self.check_open()
        self._time_to_live = _not_negative("time_to_live", value)

    @property
    def send_timeout(self) -> float | None:
        """Seconds that a send waits for the broker's response; None: no limit.

        With a limit every send waits for a response. The default is the connection factory's
        (`jms.sendTimeout`); setting 0 means None. A send with a completion listener has no limit.
        ActiveMQ: ActiveMQMessageProducer.setSendTimeout.

        Raises:
            IllegalStateException: on setting, the producer is closed.
            TypeError: on setting, the value is not a number.
            ValueError: on setting, the value is negative or not finite.
        """
        return self._send_timeout

    @send_timeout.setter
    def send_timeout(self, value: float | None) -> None:
        self.check_open()
        if value is not None:
            check_seconds("send_timeout", value, otherwise=FOR_EVER)
        self._send_timeout = float(value) if value else None

    @property
    def delivery_delay(self) -> float:
        """The default delivery delay of sends in seconds; 0: messages are delivered at once.

        Raises:
            IllegalStateException: on setting, the producer is closed or the value negative.
        """
        return self._delay / 1000

    @delivery_delay.setter
    def delivery_delay(self, value: float) -> None:
        self.check_open()
        self._delay = round(_not_negative("delivery_delay", value) * 1000)

    async def send(
        self,
        message: Message | Destination,
        to_send: Message | None = None,
        callback: AsyncCallback | None = None,
        *,
        destination: Destination | None = None,
        delivery_mode: DeliveryMode | None = None,
        priority: int | None = None,
        time_to_live: float | None = None,
        delivery_delay: float | None = None,
        completion_listener: CompletionListener | None = None,
    ) -> None:
        """Send `message`; see `MessageProducer.send`."""
        session = self.session
        if self._is_closed or session.thread != get_ident() or session.ending is not None:
            self._check_usable()
        if to_send is not None or not isinstance(message, Message):
            message, destination = destination_first(message, to_send, destination)
        if callback is not None or completion_listener is not None:
            completion_listener = completion_listener_of(completion_listener, callback)
            session.completions.check_sendable(message)
        target = self._usual_target if destination is None else None
        target = target or self._target(destination)
        if self.transformer is not None:
            message = transform_sent(self.transformer, self, message)
            if completion_listener is not None:
                session.completions.check_sendable(message)
        if isinstance(message, BlobMessage):
            await message.upload()
            self._check_usable()  # again, because the upload may have taken long
        window = self.window
        if window is not None:
            await window.wait_for_space()
            self.check_open()
        mode = self._delivery_mode if delivery_mode is None else delivery_mode
        if not isinstance(mode, int):  # the text "persistent" must not mean NON_PERSISTENT
            raise _unknown_mode(mode)
        if time_to_live is None:
            time_to_live = self._time_to_live
        elif time_to_live:
            check_seconds("time_to_live", time_to_live)
        delay = self._delay if delivery_delay is None else _milliseconds(delivery_delay)
        persistent = mode == _PERSISTENT
        mode = _PERSISTENT if persistent else _NON_PERSISTENT
        priority = self._priority if priority is None else priority
        self._stamp(message, target, mode, priority, time_to_live, delay)
        connection = session.connection
        options = connection.options
        self._sequence += 1
        command = to_command(
            message,
            self.next_message_id or MessageId(None, self.producer_id, self._sequence),
            self.producer_id,
            session.transaction.begin() if session.transacted else None,
            use_compression=options.use_compression,
            nested_map_and_list_enabled=options.nested_map_and_list_enabled,
        )
        self.next_message_id = None
        if delay:
            delay_delivery(command, delay, message.delivery_time)
        if not options.copy_message_on_send:
            message.read_only_body = message.read_only_properties = True
        if completion_listener is not None:
            await session.completions.send(command, message, completion_listener)
        elif (
            self._send_timeout is not None
            or options.always_sync_send
            or (delay and not session.transacted)  # a broker without a scheduler refuses it
            or (persistent and not options.use_async_send and not session.transacted)
        ):
            await connection.transport.request(command, self._send_timeout)
        else:
            size = message_size(command)
            connection.oneway(command)
            if session.dispatcher.running is None:  # otherwise it is sent with the acknowledgement
                connection.send_now()
            if window is not None:
                window.increase(size)
            self._unyielded += size
            if connection.queue.congested:
                self._unyielded = 0
                await self._drain(command, size)
            elif self._unyielded > _YIELD_BYTES:
                self._unyielded = 0
                await checkpoint()
        if self.stats is not None:
            self.stats.on_message()

    async def _drain(self, command: ActiveMQMessage, size: int) -> None:
        """Wait until the transport has written what is queued, `command` as well."""
        transport = self.session.connection.transport
        try:
            await transport.drain()
        except BaseException:  # a send that raises must not be executed later
            if transport.withdraw(command) and self.window is not None:
                self.window.decrease(size)
            raise

    async def close(self) -> None:
        completions = self.session.completions
        completions.check("close()")
        if self._is_closed:
            return
        self._is_closed = True
        await completions.finish(self.producer_id)
        self.dispose()
        self.session.remove_producer(self.producer_id)

    def dispose(self, failure: JMSException | None = None) -> None:
        """Close it without telling the broker; sends that wait for the window fail."""
        self._is_closed = True
        self._failure = failure
        if self.window is not None:
            self.window.size = 0
            self.window.open()
        if self.stats is not None:
            self.stats.close()

    def mark_failed(self, failure: JMSException) -> None:
        """Make every further call raise the connection's failure."""
        self._is_closed = True
        self._failure = failure

    def on_producer_ack(self, size: int) -> None:
        """Reduce the unacknowledged bytes by `size`: the broker has acknowledged them."""
        if self.window is not None:
            self.window.decrease(size)

    def on_interruption(self) -> None:
        """Expect no further acknowledgement of messages that were sent to the lost broker."""
        if self.window is not None:
            self.window.decrease(self.window.usage)

    def _target(self, destination: Destination | None) -> Destination:
        own = self._destination
        if destination is None:
            if own is None:
                raise UnsupportedOperationException(
                    "A destination must be specified.",
                    hint="this producer has none: send(message, destination=...)",
                )
            target = own
        else:
            target = check_destination(destination)
            if own is not None and target != own:
                raise UnsupportedOperationException(
                    f"This producer can only send messages to: {own.physical_name}",
                    hint="to give a destination with each send, create a producer without one",
                )
        if target.is_temporary:
            self.session.connection.temporaries.check_sendable(target)
        return target

    def _stamp(
        self,
        message: Message,
        target: Destination,
        mode: DeliveryMode,
        priority: Any,
        time_to_live: float,
        delay: int,
    ) -> None:
        try:
            priority = index(priority)
        except TypeError:
            raise _not_a_priority(priority) from None
        message.destination = target
        message.delivery_mode = mode
        message.priority = priority if 0 <= priority <= 9 else _within_limits(priority, target)
        message.redelivered = False
        message.delivery_count = 1
        message.expiration = 0
        if self.disable_message_timestamp:
            message.timestamp = 0
            message.own_delivery_time = _clock.time_ms() + delay if delay else 0
            return
        now = message.timestamp = _clock.time_ms()
        message.own_delivery_time = now + delay
        if time_to_live > 0:
            message.expiration = now + round(time_to_live * 1000)

    def _check_usable(self) -> None:
        self.check_open()
        self.session.check_use("send()")

    def check_open(self) -> None:
        """Raise if the producer is closed or its connection has failed."""
        if self._failure is not None:
            raise self.session.connection.failed_error()
        if self._is_closed:
            raise IllegalStateException("The producer is closed")


def _not_a_priority(value: object) -> TypeError:
    return TypeError(f"priority is an int from 0 (lowest) to 9, not {value!r:.50}")


def _not_negative(name: str, value: Any) -> float:
    check_seconds(name, value, least=None)
    if value < 0:
        raise IllegalStateException(f"cannot set a negative {camel_case(name)}: {value}")
    return float(value)


def _milliseconds(delivery_delay: Any) -> int:
    check_seconds("delivery_delay", delivery_delay)
    return round(float(delivery_delay) * 1000)


def _unknown_mode(value: object) -> IllegalStateException:
    return IllegalStateException(
        f"Unknown delivery mode: {value!r}",
        hint="use DeliveryMode.PERSISTENT or DeliveryMode.NON_PERSISTENT",
    )


def _window(connection: ActiveMQConnection, info: ProducerInfo) -> ProducerWindow | None:
    """Return the producer's window; None if it has none, or the broker cannot acknowledge."""
    if info.window_size <= 0:
        return None
    version = connection.transport.wire_version
    if version < _FIRST_VERSION_WITH_PRODUCER_ACK:
        connection.warn_once(
            f"The producer window of {info.window_size} bytes is off: OpenWire {version} has no "
            f"ProducerAck; use wireFormat.version {_FIRST_VERSION_WITH_PRODUCER_ACK} or later"
        )
        info.window_size = 0
        return None
    return ProducerWindow(info.window_size)


class ProducerWindow:
    """A limit on the bytes sent asynchronously and not acknowledged by a ProducerAck."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.usage: int = 0
        self._space = Waiters()

    async def wait_for_space(self) -> None:
        """Wait while the window is full. If it is cancelled, nothing is sent."""
        if self.usage >= self.size > 0:
            await self._space.wait_while(lambda: self.usage >= self.size > 0)

    def increase(self, size: int) -> None:
        """Count `size` bytes as sent."""
        self.usage += size

    def decrease(self, size: int) -> None:
        """Count `size` bytes as acknowledged."""
        self.usage = max(0, self.usage - size)
        if self.usage < self.size:
            self.open()

    def open(self) -> None:
        """Wake all waiting sends: the window no longer applies."""
        self._space.wake()
