"""What every data structure on the wire has: a type code and a layout.

A class lists its own fields once, in wire order, as `LAYOUT`; the marshallers walk it.
Constructors take a class's own fields in that order; `command_id` and
`response_required` come last. Fields are plain attributes in snake_case.
"""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple

__all__ = [
    "ARRAY",
    "BOOLEAN",
    "BYTE",
    "BYTES",
    "CACHED",
    "INT",
    "LONG",
    "MAGIC",
    "NESTED",
    "SHORT",
    "STRING",
    "THROWABLE",
    "BaseCommand",
    "Command",
    "DataStructure",
    "Field",
    "StackTraceElement",
    "Throwable",
]

BOOLEAN: Final = 0
BYTE: Final = 1
SHORT: Final = 2
INT: Final = 3
LONG: Final = 4
STRING: Final = 5
BYTES: Final = 6
MAGIC: Final = 7
NESTED: Final = 8
CACHED: Final = 9
ARRAY: Final = 10
THROWABLE: Final = 11


class Field(NamedTuple):
    """One field: its attribute, its wire type, the lowest version that has it."""

    name: str
    kind: int
    since: int


class DataStructure:
    """Anything with a type code."""

    __slots__ = ()
    TYPE: ClassVar[int] = 0
    LAYOUT: ClassVar[tuple[Field, ...]] = ()
    MARSHALL_AWARE: ClassVar[bool] = False
    OLDER_LAYOUTS: ClassVar[dict[int, tuple[Field, ...]]] = {}

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, f.name) == getattr(other, f.name) for f in self.LAYOUT)

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        shown = (
            f"{f.name}={getattr(self, f.name)!r}"
            for f in self.LAYOUT
            if f.name not in ("content", "marshalled_properties", "password")
        )
        return f"{type(self).__name__}({', '.join(shown)})"


class Command(DataStructure):
    """A data structure that travels as a frame of its own."""

    __slots__ = ("command_id", "response_required")
    command_id: int
    response_required: bool


class BaseCommand(Command):
    """A command with an id that may ask for a response."""

    __slots__ = ()
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("command_id", INT, 1),
        Field("response_required", BOOLEAN, 1),
    )

    def __init__(self, command_id: int = 0, response_required: bool = False) -> None:
        self.command_id = command_id
        self.response_required = response_required


class StackTraceElement(NamedTuple):
    """One line of a Java stack trace."""

    declaring_class: str | None
    method: str | None
    file: str | None
    line: int


class Throwable(NamedTuple):
    """An exception as it travels: Java class name, message, trace and cause."""

    class_name: str | None
    message: str | None
    stack_trace: tuple[StackTraceElement, ...] = ()
    cause: Throwable | None = None
