"""Compiles the tree of a selector to nested functions.

Each node becomes a function that takes the lookup and returns the node's value. Literals, operators
and patterns are bound at compile time, so evaluating a node is one call, without dispatch on its
type. The most common comparisons, `name = 'text'` and `name > 5`, have fast paths: one lookup, one
type check, one comparison. AND and OR stop at the first operand that decides the result.

Nodes whose cost depends on the data are charged to a `Budget`, which replaces the lookup in
evaluations that need one. LIKE becomes a regular expression in which the piece after each `%` is
matched only at the nearest possible position, in an atomic group. That is sufficient, since only
the last piece is anchored, and there is no backtracking into an earlier `%`. So its time is
proportional to the length of the text times that of the pattern, which is charged.

Three-valued logic: TRUE, FALSE and UNKNOWN are True, False and None, and NULL is None as well.
Functions are used because an interpreter of the tree would dispatch on the type of each node for
each message, and generated Python source would mean compiling text from clients.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from pyjms.selector import parser as tree
from pyjms.selector.budget import (
    DEFAULT_LIMITS,
    FREE_LENGTH,
    Budget,
    BudgetNeeded,
    Lookup,
    SelectorLimitException,
    SelectorLimits,
    budget_of,
)
from pyjms.selector.operations import (
    ACCEPTED,
    FUNCTIONS,
    calculate,
    compare,
    convert,
    kind_of,
    negate,
)
from pyjms.selector.parser import CONVERT_STRINGS_PREFIX, SelectorSyntaxError, invalid, parse
from pyjms.selector.regex import Pattern, compile_pattern

PRODUCT_PER_STEP: Final = 200
"""The number of pairs (character of the text, character of the pattern) per step."""


def compile_like(pattern: str, escape: str = "") -> re.Pattern[str]:
    """Return the regular expression that fully matches the texts that are LIKE `pattern`.

    `escape` makes a following `_`, `%` or `escape` an ordinary character; before any other
    character, it is itself an ordinary character, as in ActiveMQ.
    """
    first, *rest = _parts(pattern, escape)
    if not rest:
        return re.compile(first, re.DOTALL)
    *middle, last = rest
    between = "".join(f"(?>.*?{part})" for part in middle if part)
    return re.compile(f"{first}{between}.*{last}", re.DOTALL)


def _parts(pattern: str, escape: str) -> list[str]:
    """Return the regular expressions of the pieces between the `%` characters."""
    parts = [""]
    position = 0
    while position < len(pattern):
        character = pattern[position]
        follower = pattern[position + 1 : position + 2]
        if character == escape and follower and follower in f"_%{escape}":
            parts[-1] += re.escape(follower)
            position += 1
        elif character == "%":
            parts.append("")
        else:
            parts[-1] += "." if character == "_" else re.escape(character)
        position += 1
    return parts


Evaluate: TypeAlias = Callable[[Lookup], object]

_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SIZED: Final = (str, bytes, list, dict)
_MAX_INSTRUCTIONS: Final = 10_000
"""The maximum total size of the patterns of a selector."""
_LOOKUPS_PER_STEP: Final = 10
"""The number of names that can be looked up and compared in the time of a step."""
_MANY_LOOKUPS: Final = 100
"""If a selector reads more names than this, each is looked up only once per message, as some
lookups are expensive."""


def compile_text(text: str, limits: SelectorLimits = DEFAULT_LIMITS) -> Evaluate:
    """Return the function that evaluates the selector `text` for a message's lookup.

    With ActiveMQ's prefix `convert_string_expressions:`, strings are converted for comparisons with
    numbers and booleans. The function raises SelectorLimitException if an evaluation exceeds the
    `limits`.
    """
    node = parse(text, limits)
    compiler = _Compiler(convert_strings=text.startswith(CONVERT_STRINGS_PREFIX))
    try:
        evaluate = compiler.compile(node)
    except SelectorSyntaxError as error:
        raise invalid(text, error) from None
    if compiler.lookups > _MANY_LOOKUPS:
        evaluate = _remembering(evaluate)
    lookups = compiler.lookups // _LOOKUPS_PER_STEP
    spending = _spending(evaluate, limits, lookups)
    if compiler.calls:
        return spending
    evaluate = _count(evaluate, limits, lookups)
    return _without_budget(evaluate, spending) if compiler.may_spend else evaluate


def _without_budget(evaluate: Evaluate, spending: Evaluate) -> Evaluate:
    """Evaluate without a budget, which is faster, and repeat with a budget if one is needed."""

    def evaluate_or_repeat(lookup: Lookup) -> object:
        try:
            return evaluate(lookup)
        except BudgetNeeded:
            return spending(lookup)

    return evaluate_or_repeat


def _spending(evaluate: Evaluate, limits: SelectorLimits, lookups: int) -> Evaluate:
    """Evaluate with a budget, and count its cost plus `lookups` steps."""
    meter = limits.meter
    if meter is None:
        return lambda lookup: evaluate(Budget(lookup, limits))

    def spending(lookup: Lookup) -> object:
        allowed = meter.limits_left(limits)
        budget = Budget(lookup, allowed)
        try:
            return evaluate(budget)
        except SelectorLimitException:
            if allowed is limits:
                raise
            meter.fail()
        finally:
            meter.add(budget.spent + lookups)

    return spending


def _count(evaluate: Evaluate, limits: SelectorLimits, steps: int) -> Evaluate:
    """Count an evaluation with a constant cost."""
    meter = limits.meter
    if meter is None or not steps:
        return evaluate

    def count_and_evaluate(lookup: Lookup) -> object:
        if steps > meter.limits_left(limits).steps < limits.steps:
            meter.fail()
        meter.add(steps)
        return evaluate(lookup)

    return count_and_evaluate


def _remembering(evaluate: Evaluate) -> Evaluate:
    """Make an evaluation look up each name only once."""

    def remembering(lookup: Lookup) -> object:
        values = _Values(lookup)
        if isinstance(lookup, Budget):
            lookup.lookup, values.lookup = values.__getitem__, lookup.lookup
            return evaluate(lookup)
        return evaluate(values.__getitem__)

    return remembering


class _Values(dict[str, object]):
    """Caches the values of a message that were looked up."""

    def __init__(self, lookup: Lookup) -> None:
        super().__init__()
        self.lookup = lookup

    def __missing__(self, name: str) -> object:
        value = self[name] = self.lookup(name)
        return value


class _Compiler:
    def __init__(self, *, convert_strings: bool) -> None:
        self._convert_strings = convert_strings
        self._instructions = 0
        self.lookups = 0
        self.calls = False
        """Whether a function is called, which always needs a budget."""
        self.may_spend = False
        """Whether a node needs a budget for some messages."""

    def compile(self, node: tree.Node) -> Evaluate:
        match node:
            case tree.Literal(value):
                return lambda _lookup: value
            case tree.Property(name):
                self.lookups += 1
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
                self.may_spend = True
                return _like(self.compile(operand), pattern, escape)
            case tree.In(name, values):
                self.lookups += 1
                return _in_list(name, values)
            case tree.Negate(operand):
                value_of = self.compile(operand)
                return lambda lookup: negate(value_of(lookup))
            case tree.Arithmetic(symbol, left, right):
                left_of, right_of = self.compile(left), self.compile(right)
                if symbol == "+":
                    self.may_spend = True
                    return _sum(left_of, right_of)
                return lambda lookup: calculate(symbol, left_of(lookup), right_of(lookup))
            case tree.Call():
                return self._call(node)

    def _call(self, node: tree.Call) -> Evaluate:
        self.calls = True
        function = FUNCTIONS[node.name]
        call = function.call
        parts = [self.compile(argument) for argument in node.arguments]
        if function.pattern is not None:
            pattern = node.arguments[function.pattern]
            if isinstance(pattern, tree.Literal) and isinstance(pattern.value, str):
                compiled = self._pattern(node, pattern.value)
                parts[function.pattern] = lambda _lookup: compiled
        return lambda lookup: call(budget_of(lookup), *[part(lookup) for part in parts])

    def _pattern(self, node: tree.Call, text: str) -> Pattern:
        try:
            compiled = compile_pattern(text)
            self._instructions += compiled.size
            if self._instructions > _MAX_INSTRUCTIONS:
                raise ValueError("the patterns of the selector are too large together")
        except ValueError as error:
            usage = f"write {FUNCTIONS[node.name].usage}"
            problem = f"{node.name} has a bad pattern: {error}"
            raise SelectorSyntaxError(problem, node.position, usage) from None
        return compiled

    def _comparison(self, node: tree.Compare) -> Evaluate:
        if not self._convert_strings and isinstance(node.left, tree.Property):
            right = node.right
            if isinstance(right, tree.Literal) and type(right.value) in (int, str):
                self.lookups += 1
                return _shortcut(node.left.name, node.operator, right.value)
        left_of, right_of = self.compile(node.left), self.compile(node.right)
        test = _converting(node.operator) if self._convert_strings else _test(node.operator)
        if self._convert_strings or not (
            isinstance(node.left, tree.Literal) or isinstance(node.right, tree.Literal)
        ):
            self.may_spend = True
            return _thorough(test, left_of, right_of)
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
    """AND is False if any test is, OR is True if any test is; otherwise any None makes it None."""

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


def _thorough(
    test: Callable[[object, object], bool | None], left_of: Evaluate, right_of: Evaluate
) -> Evaluate:
    """Compare two values, both of which may be long."""

    def comparison(lookup: Lookup) -> bool | None:
        left, right = left_of(lookup), right_of(lookup)
        for value in (left, right):
            if isinstance(value, _SIZED) and not _is_short(value):
                budget_of(lookup).weigh(value)
        return test(left, right)

    return comparison


def _is_short(value: object) -> bool:
    return isinstance(value, (str, bytes)) and len(value) <= FREE_LENGTH


def _sum(left_of: Evaluate, right_of: Evaluate) -> Evaluate:
    """Add numbers, or concatenate texts."""

    def add(lookup: Lookup) -> object:
        result = calculate("+", left_of(lookup), right_of(lookup))
        if isinstance(result, str) and len(result) > FREE_LENGTH:
            budget_of(lookup).read(len(result))
        return result

    return add


def _like(value_of: Evaluate, pattern: str, escape: str) -> Evaluate:
    match = compile_like(pattern, escape).fullmatch
    length = len(pattern)

    def like(lookup: Lookup) -> bool | None:
        value = value_of(lookup)
        if value is None:
            return None
        if kind_of(value) != "string":
            return False
        text = str(value)
        if len(text) > FREE_LENGTH:
            budget = budget_of(lookup)
            budget.spend(1 + len(text) * length // PRODUCT_PER_STEP)
            budget.read(len(text))
        return match(text) is not None

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

    def order(left: object, right: object) -> bool | None:
        if left is None or right is None:
            return None
        return compare(left, right) in accepted

    return order


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
    """Compare a property of the same type as the literal, the usual case, without conversions."""
    kind = type(literal)
    quick = _OPERATORS[symbol]
    thorough = _test(symbol)

    def comparison(lookup: Lookup) -> bool | None:
        value = lookup(name)
        if type(value) is kind:
            return quick(value, literal)
        return thorough(value, literal)

    return comparison
