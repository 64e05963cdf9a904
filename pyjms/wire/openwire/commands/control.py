"""Commands of the conversation itself: negotiation, keep-alive, control, flow, responses."""

from __future__ import annotations

from typing import ClassVar

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import kinds
from pyjms.wire.openwire.commands.base import BaseCommand, Command, DataStructure, Field, Throwable
from pyjms.wire.openwire.commands.ids import ConnectionId, ConsumerId, ProducerId

__all__ = [
    "ConnectionControl",
    "ConnectionError",
    "ConsumerControl",
    "ControlCommand",
    "DataArrayResponse",
    "DataResponse",
    "ExceptionResponse",
    "FlushCommand",
    "IntegerResponse",
    "KeepAliveInfo",
    "LastPartialCommand",
    "PartialCommand",
    "ProducerAck",
    "ReplayCommand",
    "Response",
    "ShutdownInfo",
    "WireFormatInfo",
]


class WireFormatInfo(Command):
    """The first command of each side: version and offered settings."""

    # generated: WireFormatInfo
    # fmt: off
    __slots__ = ("magic", "marshalled_properties", "version")
    TYPE: ClassVar[int] = 1
    MARSHALL_AWARE: ClassVar[bool] = True
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("magic", kinds.MAGIC, 1), Field("version", kinds.INT, 1),
        Field("marshalled_properties", kinds.BYTES, 1),
    )

    def __init__(
        self, magic: bytes = b"ActiveMQ", version: int = 0,
        marshalled_properties: bytes | None = None,
    ) -> None:
        self.magic = magic
        self.version = version
        self.marshalled_properties = marshalled_properties
    # fmt: on
    # end generated


class KeepAliveInfo(BaseCommand):
    """Shows that the sender is alive."""

    # generated: KeepAliveInfo
    # fmt: off
    __slots__ = ()
    TYPE: ClassVar[int] = 10
    # fmt: on
    # end generated


class ShutdownInfo(BaseCommand):
    """The sender is about to close."""

    # generated: ShutdownInfo
    # fmt: off
    __slots__ = ()
    TYPE: ClassVar[int] = 11
    # fmt: on
    # end generated


class ControlCommand(BaseCommand):
    """A command given by name; clients do not use it."""

    # generated: ControlCommand
    # fmt: off
    __slots__ = ("command",)
    TYPE: ClassVar[int] = 14
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("command", kinds.STRING, 1),
    )

    def __init__(
        self, command: str | None = None, command_id: int = 0, response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.command = command
    # fmt: on
    # end generated


class FlushCommand(BaseCommand):
    """Asks the peer to flush its buffers; clients do not use it."""

    # generated: FlushCommand
    # fmt: off
    __slots__ = ()
    TYPE: ClassVar[int] = 15
    # fmt: on
    # end generated


class ConnectionError(BaseCommand):  # noqa: A001 - the wire's name
    """An error that is not the response to a command."""

    # generated: ConnectionError
    # fmt: off
    __slots__ = ("connection_id", "exception")
    TYPE: ClassVar[int] = 16
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("exception", kinds.THROWABLE, 1),
        Field("connection_id", kinds.NESTED, 1, "ConnectionId"),
    )

    def __init__(
        self, exception: Throwable | None = None, connection_id: ConnectionId | None = None,
        command_id: int = 0, response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.exception = exception
        self.connection_id = connection_id
    # fmt: on
    # end generated


class ConsumerControl(BaseCommand):
    """Changes an open consumer: its prefetch, or closes it."""

    # generated: ConsumerControl
    # fmt: off
    __slots__ = ("close", "consumer_id", "destination", "flush", "prefetch", "start", "stop")
    TYPE: ClassVar[int] = 17
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("destination", kinds.NESTED, 6, "Destination"),
        Field("close", kinds.BOOLEAN, 1), Field("consumer_id", kinds.NESTED, 1, "ConsumerId"),
        Field("prefetch", kinds.INT, 1), Field("flush", kinds.BOOLEAN, 2),
        Field("start", kinds.BOOLEAN, 2), Field("stop", kinds.BOOLEAN, 2),
    )

    def __init__(
        self, destination: Destination | None = None, close: bool = False,
        consumer_id: ConsumerId | None = None, prefetch: int = 0, flush: bool = False,
        start: bool = False, stop: bool = False, command_id: int = 0,
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
    # fmt: on
    # end generated


class ConnectionControl(BaseCommand):
    """Tells a client of cluster changes, or asks it to close or resume."""

    # generated: ConnectionControl
    # fmt: off
    __slots__ = (
        "close", "connected_brokers", "exit", "fault_tolerant", "rebalance_connection",
        "reconnect_to", "resume", "suspend", "token",
    )
    TYPE: ClassVar[int] = 18
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("close", kinds.BOOLEAN, 1), Field("exit", kinds.BOOLEAN, 1),
        Field("fault_tolerant", kinds.BOOLEAN, 1), Field("resume", kinds.BOOLEAN, 1),
        Field("suspend", kinds.BOOLEAN, 1), Field("connected_brokers", kinds.STRING, 6),
        Field("reconnect_to", kinds.STRING, 6), Field("rebalance_connection", kinds.BOOLEAN, 6),
        Field("token", kinds.BYTES, 8),
    )

    def __init__(
        self, close: bool = False, exit: bool = False,  # noqa: A002 - the wire's name
        fault_tolerant: bool = False, resume: bool = False, suspend: bool = False,
        connected_brokers: str | None = None, reconnect_to: str | None = None,
        rebalance_connection: bool = False, token: bytes | None = None, command_id: int = 0,
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
    # fmt: on
    # end generated


class ProducerAck(BaseCommand):
    """Returns `size` bytes to a producer's window."""

    # generated: ProducerAck
    # fmt: off
    __slots__ = ("producer_id", "size")
    TYPE: ClassVar[int] = 19
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("producer_id", kinds.NESTED, 3, "ProducerId"),
        Field("size", kinds.INT, 3),
    )

    def __init__(
        self, producer_id: ProducerId | None = None, size: int = 0, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.producer_id = producer_id
        self.size = size
    # fmt: on
    # end generated


class PartialCommand(Command):
    """A part of a command, in one datagram."""

    # generated: PartialCommand
    # fmt: off
    __slots__ = ("command_id", "data")
    TYPE: ClassVar[int] = 60
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("command_id", kinds.INT, 1), Field("data", kinds.BYTES, 1),
    )

    def __init__(self, command_id: int = 0, data: bytes | None = None) -> None:
        self.command_id = command_id
        self.data = data
    # fmt: on
    # end generated


class LastPartialCommand(PartialCommand):
    """The last part of a command."""

    # generated: LastPartialCommand
    # fmt: off
    __slots__ = ()
    TYPE: ClassVar[int] = 61
    # fmt: on
    # end generated


class ReplayCommand(BaseCommand):
    """Requests that datagrams are sent again."""

    # generated: ReplayCommand
    # fmt: off
    __slots__ = ("first_nak_number", "last_nak_number")
    TYPE: ClassVar[int] = 65
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("first_nak_number", kinds.INT, 1),
        Field("last_nak_number", kinds.INT, 1),
    )

    def __init__(
        self, first_nak_number: int = 0, last_nak_number: int = 0, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.first_nak_number = first_nak_number
        self.last_nak_number = last_nak_number
    # fmt: on
    # end generated


class Response(BaseCommand):
    """The command succeeded."""

    # generated: Response
    # fmt: off
    __slots__ = ("correlation_id",)
    TYPE: ClassVar[int] = 30
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("correlation_id", kinds.INT, 1),
    )

    def __init__(
        self, correlation_id: int = 0, command_id: int = 0, response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.correlation_id = correlation_id
    # fmt: on
    # end generated


class ExceptionResponse(Response):
    """The command failed."""

    # generated: ExceptionResponse
    # fmt: off
    __slots__ = ("exception",)
    TYPE: ClassVar[int] = 31
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *Response.LAYOUT, Field("exception", kinds.THROWABLE, 1),
    )

    def __init__(
        self, correlation_id: int = 0, exception: Throwable | None = None, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.correlation_id = correlation_id
        self.exception = exception
    # fmt: on
    # end generated


class DataResponse(Response):
    """The command succeeded, with a value."""

    # generated: DataResponse
    # fmt: off
    __slots__ = ("data",)
    TYPE: ClassVar[int] = 32
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *Response.LAYOUT, Field("data", kinds.NESTED, 1, "any"),
    )

    def __init__(
        self, correlation_id: int = 0, data: DataStructure | Destination | None = None,
        command_id: int = 0, response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.correlation_id = correlation_id
        self.data = data
    # fmt: on
    # end generated


class DataArrayResponse(Response):
    """The command succeeded, with several values."""

    # generated: DataArrayResponse
    # fmt: off
    __slots__ = ("data",)
    TYPE: ClassVar[int] = 33
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *Response.LAYOUT, Field("data", kinds.ARRAY, 1, "any"),
    )

    def __init__(
        self, correlation_id: int = 0,
        data: list[DataStructure | Destination | None] | None = None, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.correlation_id = correlation_id
        self.data = data
    # fmt: on
    # end generated


class IntegerResponse(Response):
    """The command succeeded, with a number."""

    # generated: IntegerResponse
    # fmt: off
    __slots__ = ("result",)
    TYPE: ClassVar[int] = 34
    LAYOUT: ClassVar[tuple[Field, ...]] = (*Response.LAYOUT, Field("result", kinds.INT, 1))

    def __init__(
        self, correlation_id: int = 0, result: int = 0, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.correlation_id = correlation_id
        self.result = result
    # fmt: on
    # end generated
