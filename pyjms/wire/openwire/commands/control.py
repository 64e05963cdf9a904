"""Commands of the conversation itself: negotiation, keep-alive, control, flow."""

from __future__ import annotations

from typing import ClassVar

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands.base import (
    BOOLEAN,
    BYTES,
    INT,
    MAGIC,
    NESTED,
    STRING,
    THROWABLE,
    BaseCommand,
    Command,
    Field,
    Throwable,
)
from pyjms.wire.openwire.commands.ids import (
    ConnectionId,
    ConsumerId,
    ProducerId,
)

__all__ = [
    "ConnectionControl",
    "ConnectionError",
    "ConsumerControl",
    "ControlCommand",
    "FlushCommand",
    "KeepAliveInfo",
    "LastPartialCommand",
    "PartialCommand",
    "ProducerAck",
    "ReplayCommand",
    "ShutdownInfo",
    "WireFormatInfo",
]


class WireFormatInfo(Command):
    """The first command of each side: version and offered settings."""

    # generated: WireFormatInfo
    __slots__ = (
        "magic",
        "marshalled_properties",
        "version",
    )
    TYPE: ClassVar[int] = 1
    MARSHALL_AWARE: ClassVar[bool] = True
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("magic", MAGIC, 1),
        Field("version", INT, 1),
        Field("marshalled_properties", BYTES, 1),
    )

    def __init__(
        self,
        magic: bytes = b"ActiveMQ",
        version: int = 0,
        marshalled_properties: bytes | None = None,
    ) -> None:
        self.magic = magic
        self.version = version
        self.marshalled_properties = marshalled_properties

    # end generated


class KeepAliveInfo(BaseCommand):
    """Shows that the sender is alive."""

    # generated: KeepAliveInfo
    __slots__ = ()
    TYPE: ClassVar[int] = 10
    # end generated


class ShutdownInfo(BaseCommand):
    """The sender is about to close."""

    # generated: ShutdownInfo
    __slots__ = ()
    TYPE: ClassVar[int] = 11
    # end generated


class ControlCommand(BaseCommand):
    """A command given by name; clients do not use it."""

    # generated: ControlCommand
    __slots__ = ("command",)
    TYPE: ClassVar[int] = 14
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT,
        Field("command", STRING, 1),
    )

    def __init__(
        self,
        command: str | None = None,
        command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.command = command

    # end generated


class FlushCommand(BaseCommand):
    """Asks the peer to flush its buffers; clients do not use it."""

    # generated: FlushCommand
    __slots__ = ()
    TYPE: ClassVar[int] = 15
    # end generated


class ConnectionError(BaseCommand):  # noqa: A001 - the wire's name
    """An error that is not the response to a command."""

    # generated: ConnectionError
    __slots__ = (
        "connection_id",
        "exception",
    )
    TYPE: ClassVar[int] = 16
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT,
        Field("exception", THROWABLE, 1),
        Field("connection_id", NESTED, 1, "ConnectionId"),
    )

    def __init__(
        self,
        exception: Throwable | None = None,
        connection_id: ConnectionId | None = None,
        command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.exception = exception
        self.connection_id = connection_id

    # end generated


class ConsumerControl(BaseCommand):
    """Changes an open consumer: its prefetch, or closes it."""

    # generated: ConsumerControl
    __slots__ = (
        "close",
        "consumer_id",
        "destination",
        "flush",
        "prefetch",
        "start",
        "stop",
    )
    TYPE: ClassVar[int] = 17
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT,
        Field("destination", NESTED, 6, "Destination"),
        Field("close", BOOLEAN, 1),
        Field("consumer_id", NESTED, 1, "ConsumerId"),
        Field("prefetch", INT, 1),
        Field("flush", BOOLEAN, 2),
        Field("start", BOOLEAN, 2),
        Field("stop", BOOLEAN, 2),
    )

    def __init__(
        self,
        destination: Destination | None = None,
        close: bool = False,
        consumer_id: ConsumerId | None = None,
        prefetch: int = 0,
        flush: bool = False,
        start: bool = False,
        stop: bool = False,
        command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.destination = destination
        self.close = close
        self.consumer_id = consumer_id
        self.prefetch = prefetch
        self.flush = flush
        self.start = start
        self.stop = stop

    # end generated


class ConnectionControl(BaseCommand):
    """Tells a client of cluster changes, or asks it to close or resume."""

    # generated: ConnectionControl
    __slots__ = (
        "close",
        "connected_brokers",
        "exit",
        "fault_tolerant",
        "rebalance_connection",
        "reconnect_to",
        "resume",
        "suspend",
        "token",
    )
    TYPE: ClassVar[int] = 18
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT,
        Field("close", BOOLEAN, 1),
        Field("exit", BOOLEAN, 1),
        Field("fault_tolerant", BOOLEAN, 1),
        Field("resume", BOOLEAN, 1),
        Field("suspend", BOOLEAN, 1),
        Field("connected_brokers", STRING, 6),
        Field("reconnect_to", STRING, 6),
        Field("rebalance_connection", BOOLEAN, 6),
        Field("token", BYTES, 8),
    )

    def __init__(
        self,
        close: bool = False,
        exit: bool = False,  # noqa: A002 - the wire's name
        fault_tolerant: bool = False,
        resume: bool = False,
        suspend: bool = False,
        connected_brokers: str | None = None,
        reconnect_to: str | None = None,
        rebalance_connection: bool = False,
        token: bytes | None = None,
        command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.close = close
        self.exit = exit
        self.fault_tolerant = fault_tolerant
        self.resume = resume
        self.suspend = suspend
        self.connected_brokers = connected_brokers
        self.reconnect_to = reconnect_to
        self.rebalance_connection = rebalance_connection
        self.token = token

    # end generated


class ProducerAck(BaseCommand):
    """Returns `size` bytes to a producer's window."""

    # generated: ProducerAck
    __slots__ = (
        "producer_id",
        "size",
    )
    TYPE: ClassVar[int] = 19
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT,
        Field("producer_id", NESTED, 3, "ProducerId"),
        Field("size", INT, 3),
    )

    def __init__(
        self,
        producer_id: ProducerId | None = None,
        size: int = 0,
        command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.producer_id = producer_id
        self.size = size

    # end generated


class PartialCommand(Command):
    """A part of a command, in one datagram."""

    # generated: PartialCommand
    __slots__ = (
        "command_id",
        "data",
    )
    TYPE: ClassVar[int] = 60
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("command_id", INT, 1),
        Field("data", BYTES, 1),
    )

    def __init__(
        self,
        command_id: int = 0,
        data: bytes | None = None,
    ) -> None:
        self.command_id = command_id
        self.data = data

    # end generated


class LastPartialCommand(PartialCommand):
    """The last part of a command."""

    # generated: LastPartialCommand
    __slots__ = ()
    TYPE: ClassVar[int] = 61
    # end generated


class ReplayCommand(BaseCommand):
    """Requests that datagrams are sent again."""

    # generated: ReplayCommand
    __slots__ = (
        "first_nak_number",
        "last_nak_number",
    )
    TYPE: ClassVar[int] = 65
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT,
        Field("first_nak_number", INT, 1),
        Field("last_nak_number", INT, 1),
    )

    def __init__(
        self,
        first_nak_number: int = 0,
        last_nak_number: int = 0,
        command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.first_nak_number = first_nak_number
        self.last_nak_number = last_nak_number

    # end generated
