"""The message producer: sets a message's headers, encodes it as a command and sends the command.

Only a persistent message outside a transaction waits for the broker's response, unless the
connection factory's options say otherwise. All others are queued for writing; `send` then waits
only while the transport is congested or the producer window is full, and lets other tasks run
after every 256 KiB. (JMS 1.1, section 4.6; activemq-edges N2 to N5)
"""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING

from anyio.lowlevel import checkpoint

from pyjms.client.completions import completion_listener_of
from pyjms.client.destination_options import (
    PRODUCER_OPTIONS,
    check_destination,
    set_destination_options,
)
from pyjms.client.messages import delay_delivery, to_command
from pyjms.client.transformers import transform_sent
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
from pyjms.transport.options import camel_case
from pyjms.wire.openwire.commands import MessageId, ProducerId, ProducerInfo, message_size

if TYPE_CHECKING:
    from pyjms.client.connection import ActiveMQConnection
    from pyjms.client.session import ActiveMQSession

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
        self._send_timeout = value or None

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
        target = self._target(destination)
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
        if time_to_live is not None:
            check_seconds("time_to_live", time_to_live)
        delay = self._delay if delivery_delay is None else _milliseconds(delivery_delay)
        persistent = mode == _PERSISTENT
        mode = _PERSISTENT if persistent else _NON_PERSISTENT
        priority = self._priority if priority is None else priority
        lifetime = self._time_to_live if time_to_live is None else time_to_live
        self._stamp(message, target, mode, priority, lifetime, delay)
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
            or (persistent and not options.use_async_send and not session.transacted)
        ):
            await connection.transport.request(command, self._send_timeout)
        else:
            size = message_size(command)
            connection.oneway(command)
            if not session.dispatcher.is_busy:  # otherwise it is sent with the acknowledgement
                connection.send_now()
            if window is not None:
                window.increase(size)
            self._unyielded += size
            if connection.transport.congested:
                self._unyielded = 0
                try:
                    await connection.transport.drained()
                except BaseException:  # a send that raises must not be executed later
                    if connection.transport.withdraw(command) and window is not None:
                        window.decrease(size)
                    raise
            elif self._unyielded > _YIELD_BYTES:
                self._unyielded = 0
                await checkpoint()
        if self.stats is not None:
            self.stats.on_message()

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
            self.stats.closed()

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
        priority: int,
        time_to_live: float,
        delay: int,
    ) -> None:
        message.destination = target
        message.delivery_mode = mode
        message.priority = priority if 0 <= priority <= 9 else min(max(priority, 0), 9)
        message.redelivered = False
        message.delivery_count = 1
        message.expiration = 0
        if self.disable_message_timestamp:
            message.timestamp = 0
            message.delivery_time = _clock.time_ms() + delay if delay else 0
            return
        now = message.timestamp = _clock.time_ms()
        message.delivery_time = now + delay
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


def _not_negative(name: str, value: float) -> float:
    check_seconds(name, value, least=None)
    if value < 0:
        raise IllegalStateException(f"cannot set a negative {camel_case(name)}: {value}")
    return value


def _milliseconds(delivery_delay: float) -> int:
    check_seconds("delivery_delay", delivery_delay)
    return round(delivery_delay * 1000)


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
    """A limit on the bytes sent asynchronously and not acknowledged by a ProducerAck.

    (activemq-edges N4)
    """

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
