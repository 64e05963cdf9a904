"""The message producer: sets a message's headers, encodes it as a command and sends that.

Only a persistent message outside a transaction waits for the broker's response, unless the
connection factory's options say otherwise. All others are queued for writing; `send` then waits
only while the transport is congested or the producer window is full, and lets other tasks run
after every 256 KiB. (JMS 1.1, section 4.6; activemq-edges N2 to N5)
"""

from __future__ import annotations

import anyio
from anyio.lowlevel import checkpoint

from pyjms import _clock
from pyjms._clock import check_seconds
from pyjms.client.interfaces import ClientConnection, ClientSession
from pyjms.client.messages import to_command
from pyjms.client.options.destination_options import (
    PRODUCER_OPTIONS,
    check_destination,
    set_destination_options,
)
from pyjms.enums import DeliveryMode
from pyjms.errors import (
    IllegalStateException,
    JMSException,
    UnsupportedOperationException,
)
from pyjms.jms import api
from pyjms.jms.destination import Destination
from pyjms.jms.message import DEFAULT_PRIORITY, Message
from pyjms.jms.producer_consumer import destination_first
from pyjms.wire.openwire.commands import MessageId, ProducerId, ProducerInfo
from pyjms.wire.openwire.message_size import message_size

__all__ = [
    "ActiveMQMessageProducer",
    "ProducerWindow",
]

_YIELD_BYTES = 256 * 1024  # of asynchronous sending between two checkpoints

_FIRST_VERSION_WITH_PRODUCER_ACK = 3

_PERSISTENT = DeliveryMode.PERSISTENT
_NON_PERSISTENT = DeliveryMode.NON_PERSISTENT


class ActiveMQMessageProducer(api.MessageProducer):
    """Sends messages to one destination, or to one given with each send. Created by a session."""

    def __init__(
        self, session: ClientSession, producer_id: ProducerId, destination: Destination | None
    ) -> None:
        options = session.connection.options
        self.session = session
        self.producer_id = producer_id
        self.info = ProducerInfo(producer_id, destination, window_size=options.producer_window_size)
        if destination is not None:
            set_destination_options(destination, "producer", PRODUCER_OPTIONS, self.info)
        self.window = _window(session.connection, self.info)
        self.next_message_id: MessageId | None = None
        """The id of the next message, instead of this producer's next number.

        For callers that repeat a send and want the broker to detect the duplicate.
        """
        self.disable_message_id = False
        self.disable_message_timestamp = options.disable_time_stamps_by_default
        self._delivery_mode = _PERSISTENT
        self._priority = DEFAULT_PRIORITY
        self._time_to_live = 0.0
        self._destination = destination
        self._sequence = 0
        self._unyielded = 0
        self._is_closed = False
        self._failure: JMSException | None = None

    @property
    def destination(self) -> Destination | None:
        self._check_open()
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
        self._check_open()
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
        self._check_open()
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
        self._check_open()
        check_seconds("time_to_live", value, least=None)
        if value < 0:
            raise IllegalStateException(f"cannot set a negative timeToLive: {value}")
        self._time_to_live = value

    async def send(
        self,
        message: Message | Destination,
        to_send: Message | None = None,
        *,
        destination: Destination | None = None,
        delivery_mode: DeliveryMode | None = None,
        priority: int | None = None,
        time_to_live: float | None = None,
    ) -> None:
        if self._is_closed:
            self._check_open()
        if to_send is not None or not isinstance(message, Message):
            message, destination = destination_first(message, to_send, destination)
        target = self._target(destination)
        window = self.window
        if window is not None:
            await window.wait_for_space()
            self._check_open()
        session = self.session
        mode = self._delivery_mode if delivery_mode is None else delivery_mode
        if not isinstance(mode, int):  # "persistent" must not mean the contrary
            raise _unknown_mode(mode)
        if time_to_live is not None:
            check_seconds("time_to_live", time_to_live)
        persistent = mode == _PERSISTENT
        self._stamp(
            message,
            target,
            _PERSISTENT if persistent else _NON_PERSISTENT,
            self._priority if priority is None else priority,
            self._time_to_live if time_to_live is None else time_to_live,
        )
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
        if not options.copy_message_on_send:
            message.read_only_body = message.read_only_properties = True
        if (
            options.send_timeout is not None
            or options.always_sync_send
            or (persistent and not options.use_async_send and not session.transacted)
        ):
            await connection.transport.request(command, options.send_timeout)
            return
        size = message_size(command)
        connection.oneway(command)
        if not session.dispatcher.is_busy:  # else it leaves with the acknowledgement
            connection.send_now()
        if window is not None:
            window.increase(size)
        self._unyielded += size
        if connection.transport.congested:
            self._unyielded = 0
            try:
                await connection.transport.drained()
            except BaseException:  # a send that raises must not be carried out later
                if connection.transport.withdraw(command) and window is not None:
                    window.decrease(size)
                raise
        elif self._unyielded > _YIELD_BYTES:
            self._unyielded = 0
            await checkpoint()

    async def close(self) -> None:
        if self._is_closed:
            return
        self.dispose()
        self.session.producer_closed(self.producer_id)

    def dispose(self, failure: JMSException | None = None) -> None:
        """Close it without the broker; sends that wait for the window are refused."""
        self._is_closed = True
        self._failure = failure
        if self.window is not None:
            self.window.size = 0
            self.window.open()

    def mark_failed(self, failure: JMSException) -> None:
        """Have every further call raise the connection's failure."""
        self._is_closed = True
        self._failure = failure

    def on_producer_ack(self, size: int) -> None:
        """Note that the broker has space for `size` bytes again."""
        if self.window is not None:
            self.window.decrease(size)

    def interrupted(self) -> None:
        """Expect no further acknowledgement of what the lost broker was sent."""
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
                    f"This producer can only send messages to: {own.physical_name}"
                )
        if target.is_temporary:
            self.session.connection.check_sendable(target)
        return target

    def _stamp(
        self,
        message: Message,
        target: Destination,
        mode: DeliveryMode,
        priority: int,
        time_to_live: float,
    ) -> None:
        message.destination = target
        message.delivery_mode = mode
        message.priority = priority if 0 <= priority <= 9 else min(max(priority, 0), 9)
        message.redelivered = False
        message.delivery_count = 1
        message.expiration = 0
        if self.disable_message_timestamp:
            message.timestamp = 0
            return
        now = message.timestamp = _clock.time_ms()
        if time_to_live > 0:
            message.expiration = now + round(time_to_live * 1000)

    def _check_open(self) -> None:
        if self._failure is not None:
            raise self.session.connection.failed_error()
        if self._is_closed:
            raise IllegalStateException("The producer is closed")


def _unknown_mode(value: object) -> IllegalStateException:
    return IllegalStateException(
        f"Unknown delivery mode: {value!r}",
        hint="use DeliveryMode.PERSISTENT or DeliveryMode.NON_PERSISTENT",
    )


def _window(connection: ClientConnection, info: ProducerInfo) -> ProducerWindow | None:
    """Return the producer's window; None if it has none, or the broker cannot acknowledge."""
    if info.window_size <= 0:
        return None
    version = connection.transport.wire_version
    if version < _FIRST_VERSION_WITH_PRODUCER_ACK:
        connection.warn_once(
            f"The producer window of {info.window_size} bytes is off: OpenWire {version} has no "
            f"ProducerAck; wireFormat.version {_FIRST_VERSION_WITH_PRODUCER_ACK} or later has"
        )
        info.window_size = 0
        return None
    return ProducerWindow(info.window_size)


class ProducerWindow:
    """Bytes sent asynchronously and not acknowledged by a ProducerAck. (activemq-edges N4)"""

    def __init__(self, size: int) -> None:
        self.size = size
        self.usage = 0
        self._space: anyio.Event | None = None

    async def wait_for_space(self) -> None:
        """Wait while the window is full. Cancellable: then nothing is sent."""
        while self.usage >= self.size > 0:
            if self._space is None:
                self._space = anyio.Event()
            await self._space.wait()

    def increase(self, size: int) -> None:
        """Count `size` bytes as sent."""
        self.usage += size

    def decrease(self, size: int) -> None:
        """Count `size` bytes as acknowledged."""
        self.usage = max(0, self.usage - size)
        if self.usage < self.size:
            self.open()

    def open(self) -> None:
        """Wake all waiting sends."""
        space, self._space = self._space, None
        if space is not None:
            space.set()
