"""Views: the attributes and operations of the broker's objects.

A kind of view consists of two tables, attributes (`attributes`) and operations, with ActiveMQ's
names and Java's types. A view applies the tables of its kind to one object. Nothing is copied: an
attribute is read from the object on access.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from pyjms_broker.api.completion import Completion, wait_for
from pyjms_broker.management import view_attributes
from pyjms_broker.management.errors import (
    AttributeNotFoundException,
    InvalidArgumentException,
    OperationNotFoundException,
)
from pyjms_broker.management.object_name import ObjectName
from pyjms_broker.security.audit import audit_action

if TYPE_CHECKING:
    from pyjms_broker.management.host import ManagementContext


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
    view_attributes.STRING: _text,
    view_attributes.BOOLEAN: _boolean,
    view_attributes.BYTE: _integer(8),
    view_attributes.INT: _integer(32),
    view_attributes.LONG: _integer(64),
    view_attributes.FLOAT: _number,
    view_attributes.DOUBLE: _number,
    view_attributes.MAP: _map,
}


T = TypeVar("T")


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


_JAVA: Final = {
    "String": view_attributes.STRING,
    "Map": view_attributes.MAP,
    "List": "java.util.List",
    "ObjectName": view_attributes.OBJECT_NAME,
    "ObjectName[]": view_attributes.OBJECT_NAMES,
    "TabularData": view_attributes.ROWS,
    "CompositeData": "javax.management.openmbean.CompositeData",
    "CompositeData[]": "[Ljavax.management.openmbean.CompositeData;",
}


class Action(NamedTuple):
    """What an operation does: it is called with the object and the arguments."""

    description: str
    call: Callable[..., object]


Operations: TypeAlias = Mapping[str, Action]
"""By signature, `boolean move(String id, String? selector)`; `?` is for what may be null."""


def _parse_operation(signature: str, action: Action) -> Operation[Any]:
    java_type, _, rest = signature.partition(" ")
    name, _, listed = rest.removesuffix(")").partition("(")
    parameters = tuple(_parameter(each) for each in listed.split(", ") if each)
    return Operation(name, _JAVA.get(java_type, java_type), *action, parameters)


def _parameter(text: str) -> Parameter:
    java_type, _, name = text.partition(" ")
    bare = java_type.removesuffix("?")
    return Parameter(name, _JAVA.get(bare, bare), is_optional=bare != java_type)


Readers: TypeAlias = Mapping[str, Callable[[T], object]]
"""Functions that return attributes, by name."""
Writers: TypeAlias = Mapping[str, Callable[[T, Any], None]]
"""Functions that set attributes, by name."""


@dataclass(frozen=True, slots=True)
class ViewKind(Generic[T]):
    """A kind of view: the Java class that ActiveMQ registers, its attributes and operations."""

    java_class: str
    description: str
    attributes: view_attributes.Table
    readers: Readers[T]
    writers: Writers[T]
    operations: Mapping[str, Sequence[Operation[T]]]


def view_kind(
    java_class: str,
    description: str,
    attributes: view_attributes.Table,
    readers: Readers[T],
    operations: Operations = MappingProxyType({}),
    writers: Writers[T] = MappingProxyType({}),
) -> ViewKind[T]:
    """Return a kind of view.

    Args:
        java_class: without a package, it is in that of ActiveMQ's views.
        description: what such a view shows.
        attributes: the attributes.
        readers: the functions for the attributes that have no path.
        operations: the operations, which may be overloaded.
        writers: the functions for the attributes that can be set.
    """
    if "." not in java_class:
        java_class = f"org.apache.activemq.broker.jmx.{java_class}"
    by_name: dict[str, list[Operation[T]]] = {}
    for operation in itertools.starmap(_parse_operation, operations.items()):
        by_name.setdefault(operation.name, []).append(operation)
    found = {name: readers.get(name) or _reader(each) for name, each in attributes.items()}
    return ViewKind(java_class, description, attributes, found, writers, by_name)


def _reader(attribute: view_attributes.Attribute) -> Callable[[Any], object]:
    if attribute.always is not None:
        return lambda _: attribute.always
    assert attribute.path, "an attribute without a path has a function"
    return attrgetter(f"it.{attribute.path}")


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
        return self._reader(attribute)(self.target)

    __getitem__ = get

    def get_all(self) -> dict[str, object]:
        """Return the values of all attributes by name."""
        target = self.target
        return {name: read(target) for name, read in self.kind.readers.items()}

    def set(self, attribute: str, value: object) -> object:
        """Set an attribute and return its previous value.

        Raises:
            AttributeNotFoundException: there is no attribute of that name, or it is read-only.
            InvalidArgumentException: the value has the wrong type.
        """
        read, write = self._reader(attribute), self.kind.writers.get(attribute)
        if write is None:
            raise AttributeNotFoundException(
                f"Attribute {attribute} of {self.name} cannot be written",
                hint=f"writable are: {', '.join(self.kind.writers) or 'none'}",
            )
        with audit_action(f"set {attribute} of {self.name}"):
            former = read(self.target)
            java_type = self.kind.attributes[attribute].type
            write(self.target, convert(value, java_type, f"Attribute {attribute}"))
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

    def _reader(self, name: str) -> Callable[[T], object]:
        found = self.kind.readers.get(name)
        if found is None:
            raise AttributeNotFoundException(
                f"{self.name} has no attribute {name[:100]!r}",
                hint=f"attributes are: {', '.join(self.kind.attributes)}",
            )
        return found

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


Entry: TypeAlias = tuple[ObjectName, ViewKind[Any], object]
"""The name of a view, its kind and its object."""
Part: TypeAlias = tuple[frozenset[str], Callable[["ManagementContext"], Iterator[Entry]]]
"""A part of the tree of views: the keys of its names, and the function that iterates over it."""
ROOT: Final = frozenset({"type", "brokerName"})


def part(entries: Callable[[ManagementContext], Iterator[Entry]], *keys: str) -> Part:
    """Return a part of the tree, whose names have these keys in addition to the broker's."""
    return ROOT | set(keys), entries
