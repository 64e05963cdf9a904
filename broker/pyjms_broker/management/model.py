"""Views: the attributes and operations of the broker's objects.

A kind of view consists of two tables, attributes and operations, with ActiveMQ's names and Java's
types. A view applies the tables of its kind to one object. Nothing is copied: an attribute is read
from the object on access.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from pyjms_broker.api.completion import Completion, wait_for
from pyjms_broker.management.errors import (
    AttributeNotFoundException,
    InvalidArgumentException,
    OperationNotFoundException,
)
from pyjms_broker.management.object_name import ObjectName
from pyjms_broker.security.audit import audit_action

STRING: Final = "java.lang.String"
BOOLEAN: Final = "boolean"
BYTE: Final = "byte"
INT: Final = "int"
LONG: Final = "long"
FLOAT: Final = "float"
DOUBLE: Final = "double"
MAP: Final = "java.util.Map"


def convert(value: object, java_type: str, where: str) -> object:
    """Convert a value of a request to the Java type with this name.

    Numbers and booleans may be strings, as in URLs. `where` is the attribute or parameter.

    Raises:
        InvalidArgumentException: it is not a value of that type.
    """
    try:
        return _READERS[java_type](value)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidArgumentException(
            f"{where}: a {type(value).__name__} cannot be read as {java_type}",
            hint=f"give a value of type {java_type}",
        ) from error


def _text(value: object) -> object:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise TypeError


def _boolean(value: object) -> object:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _BOOLEANS:
        return _BOOLEANS[value.lower()]
    raise TypeError


_BOOLEANS: Final = {"true": True, "false": False}


def _integer(bits: int) -> Callable[[object], object]:
    def read(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int | str) or len(str(value)) > 20:
            raise TypeError
        number = int(value)
        if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            raise ValueError
        return number

    return read


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    return float(value)


def _map(value: object) -> object:
    if isinstance(value, str):
        value = json.loads(value)
    if isinstance(value, Mapping):
        return {str(key): each for key, each in value.items()}
    raise TypeError


_READERS: Final[dict[str, Callable[[object], object]]] = {
    STRING: _text,
    BOOLEAN: _boolean,
    BYTE: _integer(8),
    INT: _integer(32),
    LONG: _integer(64),
    FLOAT: _number,
    DOUBLE: _number,
    MAP: _map,
}


T = TypeVar("T")
N = TypeVar("N", bound="Attribute[Any] | Operation[Any]")


@dataclass(frozen=True, slots=True)
class Attribute(Generic[T]):
    """A value of a view; without `set` it is read-only."""

    name: str
    type: str
    description: str
    get: Callable[[T], object]
    set: Callable[[T, Any], None] | None = None


class Parameter(NamedTuple):
    """A parameter of an operation."""

    name: str
    type: str
    is_optional: bool = False
    """Whether it may be null."""


@dataclass(frozen=True, slots=True)
class Operation(Generic[T]):
    """An operation, called with the object and the arguments; it may return an awaitable."""

    name: str
    type: str
    description: str
    call: Callable[..., object]
    parameters: tuple[Parameter, ...] = ()

    @property
    def signature(self) -> str:
        """The name with the parameter types, which distinguishes overloads."""
        return f"{self.name}({','.join(p.type for p in self.parameters)})"


def _table(members: Iterable[N]) -> dict[str, list[N]]:
    named: dict[str, list[N]] = {}
    for member in members:
        named.setdefault(member.name, []).append(member)
    return named


@dataclass(frozen=True, slots=True)
class ViewKind(Generic[T]):
    """A kind of view: the Java class that ActiveMQ registers, and the two tables."""

    java_class: str
    description: str
    attributes: Mapping[str, Sequence[Attribute[T]]]
    operations: Mapping[str, Sequence[Operation[T]]] = field(default_factory=dict)


def view_kind(
    java_class: str,
    description: str,
    attributes: Iterable[Attribute[T]],
    operations: Iterable[Operation[T]] = (),
) -> ViewKind[T]:
    """Return a kind of view; operations may be overloaded.

    A `java_class` without a package is in that of ActiveMQ's views.
    """
    if "." not in java_class:
        java_class = f"org.apache.activemq.broker.jmx.{java_class}"
    return ViewKind(java_class, description, _table(attributes), _table(operations))


class View(Generic[T]):
    """A managed object with its name. Use it on the broker's event loop."""

    __slots__ = ("kind", "name", "target")

    def __init__(self, name: ObjectName, kind: ViewKind[T], target: T) -> None:
        self.name = name
        self.kind = kind
        self.target = target

    def get(self, attribute: str) -> object:
        """Return the value of an attribute.

        Raises:
            AttributeNotFoundException: there is no attribute of that name.
        """
        return self._attribute(attribute).get(self.target)

    def get_all(self) -> dict[str, object]:
        """Return the values of all attributes by name."""
        target = self.target
        return {name: each[0].get(target) for name, each in self.kind.attributes.items()}

    def set(self, attribute: str, value: object) -> object:
        """Set an attribute and return its previous value.

        Raises:
            AttributeNotFoundException: there is no attribute of that name, or it is read-only.
            InvalidArgumentException: the value has the wrong type.
        """
        found = self._attribute(attribute)
        if found.set is None:
            writable = [name for name, each in self.kind.attributes.items() if each[0].set]
            raise AttributeNotFoundException(
                f"Attribute {attribute} of {self.name} cannot be written",
                hint=f"writable are: {', '.join(writable) or 'none'}",
            )
        with audit_action(f"set {found.name} of {self.name}"):
            former = found.get(self.target)
            found.set(self.target, convert(value, found.type, f"Attribute {attribute}"))
        return former

    async def invoke(self, operation: str, *arguments: object) -> object:
        """Invoke an operation and return its result once its changes are stored. Cancellable.

        Args:
            operation: the name, optionally with parameter types, as `browse(java.lang.String)`.
            arguments: one per parameter; strings are converted.

        Raises:
            OperationNotFoundException: there is no such operation with this number of parameters.
            InvalidArgumentException: an argument has the wrong type.
            JMSException: the operation has failed.
        """
        found = self._operation(operation, len(arguments))
        values = [
            _argument(found, parameter, value)
            for value, parameter in zip(arguments, found.parameters, strict=True)
        ]
        with audit_action(f"invoke {found.name} of {self.name}"):
            result = found.call(self.target, *values)
            if isinstance(result, Completion):
                await wait_for(result)
                return None
            return await _wait_for(result) if isawaitable(result) else result

    def _attribute(self, name: str) -> Attribute[T]:
        found = self.kind.attributes.get(name)
        if found is None:
            raise AttributeNotFoundException(
                f"{self.name} has no attribute {name[:100]!r}",
                hint=f"attributes are: {', '.join(self.kind.attributes)}",
            )
        return found[0]

    def _operation(self, operation: str, count: int) -> Operation[T]:
        name, has_types, _ = operation.partition("(")
        known = self.kind.operations.get(name, ())
        fitting = [
            each
            for each in known
            if len(each.parameters) == count
            and (not has_types or each.signature == operation.replace(" ", ""))
        ]
        if not fitting:
            signatures = ", ".join(each.signature for each in known)
            raise OperationNotFoundException(
                f"{self.name} has no operation {operation[:100]!r} with {count} arguments",
                hint=f"there is {signatures}"
                if known
                else f"operations are: {', '.join(self.kind.operations) or 'none'}",
            )
        return fitting[0]

    def __repr__(self) -> str:
        return f"View({self.name.text!r})"


def _argument(operation: Operation[Any], parameter: Parameter, value: object) -> object:
    where = f"Parameter {parameter.name} of {operation.name}"
    if value is None and parameter.is_optional:
        return None
    if value is None:
        raise InvalidArgumentException(
            f"{where} is null", hint=f"give a value of type {parameter.type}"
        )
    return convert(value, parameter.type, where)


async def _wait_for(result: Awaitable[object]) -> object:
    return await result
