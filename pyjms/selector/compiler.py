"""Compiles the tree of a selector to nested functions.

Each node becomes a function of the lookup that returns the node's value. Literals, operators and
patterns are bound at compile time, so evaluating a node is one call without a look at its type.
The comparisons that consumers write most, `name = 'text'` and `name > 5`, have short cuts: one
lookup, one type check, one comparison. AND and OR stop at the first operand that decides.

Three-valued logic: TRUE, FALSE and UNKNOWN are True, False and None, and NULL is None as well.
Why functions: walking the tree would decide on the type of each node for each message, and
generated Python source would mean to compile text that clients send.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from pyjms.selector import tree
from pyjms.selector.functions import FUNCTIONS
from pyjms.selector.like import compile_like
from pyjms.selector.types import ACCEPTED, calculate, compare, convert, kind_of, negate

__all__ = ["Evaluate", "Lookup", "compile_tree"]

Lookup: TypeAlias = Callable[[str], object]
Evaluate: TypeAlias = Callable[[Lookup], object]

_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compile_tree(node: tree.Node, *, convert_strings: bool = False) -> Evaluate:
    """Return the function that evaluates `node` for a message's lookup.

    With `convert_strings`, strings compare with numbers and booleans (ActiveMQ's prefix
    `convert_string_expressions:`).
    """
    return _Compiler(convert_strings=convert_strings).compile(node)


class _Compiler:
    def __init__(self, *, convert_strings: bool) -> None:
        self._convert_strings = convert_strings

    def compile(self, node: tree.Node) -> Evaluate:
        match node:
            case tree.Literal(value):
                return lambda _lookup: value
            case tree.Property(name):
                return lambda lookup: lookup(name)
            case tree.Truth(operand):
                return _truth(self.compile(operand))
            case tree.Not(operand):
                return _negation(self.compile(operand))
            case tree.AllOf(operands):
                return _junction(
                    tuple(self.compile(operand) for operand in operands), decisive=False
                )
            case tree.AnyOf(operands):
                return _junction(
                    tuple(self.compile(operand) for operand in operands), decisive=True
                )
            case tree.Compare():
                return self._comparison(node)
            case tree.IsNull(operand):
                test = self.compile(operand)
                return lambda lookup: test(lookup) is None
            case tree.Like(operand, pattern, escape):
                return _like(self.compile(operand), compile_like(pattern, escape).fullmatch)
            case tree.In(name, values):
                return _in_list(name, values)
            case tree.Negate(operand):
                value_of = self.compile(operand)
                return lambda lookup: negate(value_of(lookup))
            case tree.Arithmetic(symbol, left, right):
                left_of, right_of = self.compile(left), self.compile(right)
                return lambda lookup: calculate(symbol, left_of(lookup), right_of(lookup))
            case tree.Call(name, arguments):
                function = FUNCTIONS[name].call
                parts = tuple(self.compile(argument) for argument in arguments)
                return lambda lookup: function(*[part(lookup) for part in parts])

    def _comparison(self, node: tree.Compare) -> Evaluate:
        if not self._convert_strings and isinstance(node.left, tree.Property):
            right = node.right
            if isinstance(right, tree.Literal) and type(right.value) in (int, str):
                return _shortcut(node.left.name, node.operator, right.value)
        left_of, right_of = self.compile(node.left), self.compile(node.right)
        test = _converting(node.operator) if self._convert_strings else _test(node.operator)
        return lambda lookup: test(left_of(lookup), right_of(lookup))


def _truth(value_of: Evaluate) -> Evaluate:
    def truth(lookup: Lookup) -> bool | None:
        value = value_of(lookup)
        return None if value is None else value is True

    return truth


def _negation(test: Evaluate) -> Evaluate:
    def negation(lookup: Lookup) -> bool | None:
        value = test(lookup)
        return None if value is None else not value

    return negation


def _junction(tests: tuple[Evaluate, ...], *, decisive: bool) -> Evaluate:
    """AND is False once a test is, OR is True once a test is; else unknown (None) wins."""

    def junction(lookup: Lookup) -> bool | None:
        result: bool | None = not decisive
        for test in tests:
            value = test(lookup)
            if value is decisive:
                return decisive
            if value is None:
                result = None
        return result

    return junction


def _like(value_of: Evaluate, match: Callable[[str], object]) -> Evaluate:
    def like(lookup: Lookup) -> bool | None:
        value = value_of(lookup)
        if value is None:
            return None
        return kind_of(value) == "string" and match(str(value)) is not None

    return like


def _in_list(name: str, values: frozenset[str]) -> Evaluate:
    def in_list(lookup: Lookup) -> bool | None:
        value = lookup(name)
        return value in values if kind_of(value) == "string" else None

    return in_list


def _test(symbol: str) -> Callable[[object, object], bool | None]:
    """Return the comparison `symbol` with ActiveMQ's rules for NULL. (jms-api 8.7)"""
    if symbol == "=":
        return _equal
    if symbol == "<>":
        return _not_equal
    accepted = ACCEPTED[symbol]

    def ordered(left: object, right: object) -> bool | None:
        if left is None or right is None:
            return None
        return compare(left, right) in accepted

    return ordered


def _equal(left: object, right: object) -> bool | None:
    if left is None:
        return True if right is None else None
    return right is not None and compare(left, right) == 0


def _not_equal(left: object, right: object) -> bool | None:
    equal = _equal(left, right)
    return None if equal is None else not equal


def _converting(symbol: str) -> Callable[[object, object], bool | None]:
    test = _test(symbol)
    return lambda left, right: test(*convert(left, right))


def _shortcut(name: str, symbol: str, literal: object) -> Evaluate:
    """Compare a property of the literal's own type, the usual case, without conversions."""
    kind = type(literal)
    quick = _OPERATORS[symbol]
    thorough = _test(symbol)

    def comparison(lookup: Lookup) -> bool | None:
        value = lookup(name)
        if type(value) is kind:
            return quick(value, literal)
        return thorough(value, literal)

    return comparison
