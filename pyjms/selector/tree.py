"""The tree of a selector: built by the builder, read by the compiler.

Every node has its depth, so that the builder can reject a tree that is too deep before anything
walks it recursively.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar
from typing import Literal as OneOf

__all__ = [
    "AllOf",
    "AnyOf",
    "Arithmetic",
    "Call",
    "Compare",
    "In",
    "IsNull",
    "Like",
    "Literal",
    "Negate",
    "Node",
    "Not",
    "Property",
    "Truth",
]

Comparison = OneOf["=", "<>", "<", "<=", ">", ">="]
Operator = OneOf["+", "-", "*", "/", "%"]

_Sign = TypeVar("_Sign")


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a string, TRUE, FALSE or NULL (None)."""

    value: object
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Property:
    """A header or property by its name."""

    name: str
    depth: int = 1


@dataclass(frozen=True, slots=True)
class _OfOne:
    operand: Node
    depth: int


@dataclass(frozen=True, slots=True)
class _OfSeveral:
    operands: tuple[Node, ...]
    depth: int


@dataclass(frozen=True, slots=True)
class _OfTwo(Generic[_Sign]):
    operator: _Sign
    left: Node
    right: Node
    depth: int


class Truth(_OfOne):
    """A value used as a condition: TRUE only if it is the boolean true."""

    __slots__ = ()


class Not(_OfOne):
    """NOT of a condition."""

    __slots__ = ()


class AllOf(_OfSeveral):
    """Conditions joined by AND; also BETWEEN, as two comparisons."""

    __slots__ = ()


class AnyOf(_OfSeveral):
    """Conditions joined by OR."""

    __slots__ = ()


class Compare(_OfTwo[Comparison]):
    """A comparison of two values."""

    __slots__ = ()


class IsNull(_OfOne):
    """Whether a value is NULL."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Like:
    """Whether a text matches a pattern of `_` and `%`."""

    operand: Node
    pattern: str
    escape: str
    depth: int


@dataclass(frozen=True, slots=True)
class In:
    """Whether a string property is one of several strings."""

    name: str
    values: frozenset[str]
    depth: int = 1


class Negate(_OfOne):
    """A minus before a value."""

    __slots__ = ()


class Arithmetic(_OfTwo[Operator]):
    """A calculation with two values."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Call:
    """A call of one of ActiveMQ's functions."""

    name: str
    arguments: tuple[Node, ...]
    depth: int
    position: int = 0
    """Where it is in the text, for errors."""


Node = (
    Literal
    | Property
    | Truth
    | Not
    | AllOf
    | AnyOf
    | Compare
    | IsNull
    | Like
    | In
    | Negate
    | Arithmetic
    | Call
)
