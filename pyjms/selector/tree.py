"""The tree of a selector: built by the builder, read by the compiler.

Every node has its depth, so that the builder can reject a tree that is too deep before anything
walks it recursively.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar
from typing import Literal as OneOf

Comparison = OneOf["=", "<>", "<", "<=", ">", ">="]
Operator = OneOf["+", "-", "*", "/", "%"]

_Sign = TypeVar("_Sign")


@dataclass(frozen=True)
class _Node:
    depth: int = field(default=1, kw_only=True)


@dataclass(frozen=True)
class Literal(_Node):
    """A number, a string, TRUE, FALSE or NULL (None)."""

    value: object


@dataclass(frozen=True)
class Property(_Node):
    """A header or property by its name."""

    name: str


@dataclass(frozen=True)
class _OfOne(_Node):
    operand: Node


@dataclass(frozen=True)
class _OfSeveral(_Node):
    operands: tuple[Node, ...]


@dataclass(frozen=True)
class _OfTwo(_Node, Generic[_Sign]):
    operator: _Sign
    left: Node
    right: Node


class Truth(_OfOne):
    """A value used as a condition: TRUE only if it is the boolean true."""


class Not(_OfOne):
    """NOT of a condition."""


class AllOf(_OfSeveral):
    """Conditions joined by AND; also BETWEEN, as two comparisons."""


class AnyOf(_OfSeveral):
    """Conditions joined by OR."""


class Compare(_OfTwo[Comparison]):
    """A comparison of two values."""


class IsNull(_OfOne):
    """Whether a value is NULL."""


@dataclass(frozen=True)
class Like(_OfOne):
    """Whether a text matches a pattern of `_` and `%`."""

    pattern: str
    escape: str


@dataclass(frozen=True)
class In(_Node):
    """Whether a string property is one of several strings."""

    name: str
    values: frozenset[str]


class Negate(_OfOne):
    """A minus before a value."""


class Arithmetic(_OfTwo[Operator]):
    """A calculation with two values."""


@dataclass(frozen=True)
class Call(_Node):
    """A call of one of ActiveMQ's functions."""

    name: str
    arguments: tuple[Node, ...]
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
