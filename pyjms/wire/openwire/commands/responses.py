"""Responses to commands."""

from __future__ import annotations

from typing import ClassVar

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import kinds
from pyjms.wire.openwire.commands.base import BaseCommand, DataStructure, Field, Throwable

__all__ = [
    "DataArrayResponse",
    "DataResponse",
    "ExceptionResponse",
    "IntegerResponse",
    "Response",
]


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
