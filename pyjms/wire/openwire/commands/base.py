"""The base of all data structures on the wire: a type code and a layout.

A class names its type code, `TYPE`, and lists its fields in `LAYOUT` in wire order; the marshallers
iterate over it. `__slots__`, `TYPE`, `LAYOUT` and the constructor are generated from
config/codegen/commands.yaml. Constructors take a class's fields in wire order, then `command_id`
and `response_required`. Fields are plain attributes in snake_case.

Identifiers compare and hash by value. Every other structure is mutable and compares by
identity, so that it can be a dict key or a member of a set; `contents` returns a representation
that compares by value.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from pyjms.wire.openwire.commands import kinds

__all__ = [
    "BaseCommand",
    "Command",
    "DataStructure",
    "Field",
    "Identifier",
    "StackTraceElement",
    "Throwable",
    "ValueIdentifier",
    "contents",
]


class Field(NamedTuple):
    """A field: its attribute, its kind on the wire, and the first protocol version that has it.

    `of` names the class of the values of a nested, cached or array field; "any" is any class.
    """

    name: str
    kind: int
    since: int
    of: str = ""


class DataStructure:
    """Base of everything with a type code. Compares by identity, unless it is an identifier."""

    __slots__ = ()
    TYPE: ClassVar[int] = 0
    LAYOUT: ClassVar[tuple[Field, ...]] = ()
    MARSHALL_AWARE: ClassVar[bool] = False
    OLDER_LAYOUTS: ClassVar[dict[int, tuple[Field, ...]]] = {}

    def __repr__(self) -> str:
        fields = (
            f"{f.name}={getattr(self, f.name)!r}"
            for f in self.LAYOUT
            if f.name not in ("content", "marshalled_properties", "password")
        )
        return f"{type(self).__name__}({', '.join(fields)})"


class Identifier(DataStructure):
    """An immutable id, which compares and hashes by value."""

    __slots__ = ()


class ValueIdentifier(Identifier):
    """An id whose `identity` is its type code and the values of its fields."""

    __slots__ = ("_hash", "identity")
    _hash: int
    identity: tuple[object, ...]

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, ValueIdentifier) and self.identity == other.identity
        )

    def __hash__(self) -> int:
        return self._hash


class Command(DataStructure):
    """A data structure that is sent in its own frame."""

    __slots__ = ("command_id", "response_required")
    command_id: int
    response_required: bool


class BaseCommand(Command):
    """A command with an id, which may require a response."""

    __slots__ = ()
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("command_id", kinds.INT, 1),
        Field("response_required", kinds.BOOLEAN, 1),
    )

    def __init__(self, command_id: int = 0, response_required: bool = False) -> None:
        self.command_id = command_id
        self.response_required = response_required


def contents(value: object) -> object:
    """Return the contents of `value` in a form that compares by value: its type and all fields.

    Nested structures and lists are converted recursively. Identifiers and other values, which
    already compare by value, are returned unchanged. For tests and diagnostics only, as it is slow.
    """
    if isinstance(value, list):
        return [contents(item) for item in value]
    if not isinstance(value, DataStructure) or isinstance(value, Identifier):
        return value
    return (type(value).__name__, {f.name: contents(getattr(value, f.name)) for f in value.LAYOUT})


class StackTraceElement(NamedTuple):
    """One line of a Java stack trace."""

    declaring_class: str | None
    method: str | None
    file: str | None
    line: int


class Throwable(NamedTuple):
    """An exception as sent on the wire: Java class name, message, stack trace and cause."""

    class_name: str | None
    message: str | None
    stack_trace: tuple[StackTraceElement, ...] = ()
    cause: Throwable | None = None
