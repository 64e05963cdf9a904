"""Compiled selectors against a slow reading of their own tree, and patterns against `re`."""

from __future__ import annotations

import math
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pyjms.errors import InvalidSelectorException
from pyjms.jms.types import Byte, Char, Float, Long
from pyjms.selector import Selector, SelectorLimits
from pyjms.selector.budget import Budget
from pyjms.selector.regex import compile_pattern
from tests.kit.properties import examples

NAMES = ("a", "b", "c", "d")

# An expression is a tuple: its kind, then its parts. `show` writes it, `slow` reads it.

numbers = st.one_of(st.integers(0, 20), st.sampled_from([0.5, 1.5, 2.0, 10.0, 2**31 - 1, 2**40]))
texts = st.text("ab%_'", max_size=3)
names = st.sampled_from(NAMES)
properties = names.map(lambda name: ("name", name))
values = st.recursive(
    st.one_of(properties, numbers.map(lambda n: ("literal", n))),
    lambda inner: st.one_of(
        st.tuples(st.just("minus"), inner),
        st.tuples(st.just("calculate"), st.sampled_from("+-*/%"), inner, inner),
    ),
    max_leaves=4,
)
orders = st.sampled_from([">", ">=", "<", "<="])
simple = st.one_of(
    properties,
    st.sampled_from([("literal", True), ("literal", False), ("literal", None)]),
    st.tuples(st.just("compare"), st.sampled_from(["=", "<>"]), values, values),
    st.tuples(st.just("compare"), st.sampled_from(["=", "<>"]), properties,
              texts.map(lambda text: ("literal", text))),
    st.tuples(st.just("compare"), orders, values, values),
    st.tuples(st.just("between"), st.booleans(), values, values, values),
    st.tuples(st.just("like"), st.booleans(), properties, texts),
    st.tuples(st.just("in"), st.booleans(), names, st.lists(texts, min_size=1, max_size=3)),
    st.tuples(st.just("is null"), st.booleans(), values),
)  # fmt: skip
conditions = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.just("and"), inner, inner),
        st.tuples(st.just("or"), inner, inner),
    ),
    max_leaves=6,
)
messages = st.dictionaries(
    names,
    st.one_of(
        st.integers(-20, 20),
        st.integers(-20, 20).map(Long),
        st.integers(-20, 20).map(Byte),
        st.sampled_from([2**31 - 1, -(2**31), Long(2**63 - 1), 0.5, -1.5, Float(0.5), math.inf]),
        st.booleans(),
        texts,
        st.sampled_from([Char("a"), None]),
    ),
)


def literal(value: object) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return (
        {True: "TRUE", False: "FALSE", None: "NULL"}[value]
        if value is None or isinstance(value, bool)
        else str(value)
    )


def show(node: Any) -> str:
    negation = "NOT " if len(node) > 1 and node[1] is True else ""
    match node:
        case ("literal", value):
            return literal(value)
        case ("name", name):
            return str(name)
        case ("minus", operand):
            return f"(- {show(operand)})"
        case ("calculate" | "compare", operator, left, right):
            return f"({show(left)} {operator} {show(right)})"
        case ("between", _, operand, low, high):
            return f"({show(operand)} {negation}BETWEEN {show(low)} AND {show(high)})"
        case ("like", _, operand, pattern):
            return f"({show(operand)} {negation}LIKE {literal(pattern)})"
        case ("in", _, name, items):
            return f"({name} {negation}IN ({', '.join(map(literal, items))}))"
        case ("is null", _, operand):
            return f"({show(operand)} IS {negation}NULL)"
        case ("not", operand):
            return f"(NOT {show(operand)})"
        case (word, left, right):
            return f"({show(left)} {word} {show(right)})"
    raise AssertionError(node)


def is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_string(value: object) -> bool:
    return isinstance(value, str) and not isinstance(value, Char)


def slow(node: Any, message: dict[str, object]) -> object:
    match node:
        case ("literal", constant):
            return constant
        case ("name", name):
            return message.get(name)
        case ("minus", operand):
            value: Any = slow(operand, message)
            return (
                calculated("-", type(value)(0) if not isinstance(value, float) else -0.0, value)
                if is_number(value)
                else None
            )
        case ("calculate", operator, left, right):
            return calculated(operator, slow(left, message), slow(right, message))
        case ("compare", operator, left, right):
            return compared(operator, slow(left, message), slow(right, message))
        case ("between", negated, operand, low, high):
            value = slow(operand, message)
            parts = [compared(">=", value, slow(low, message)),
                     compared("<=", value, slow(high, message))]  # fmt: skip
            result = False if False in parts else None if None in parts else True
            return negate(result) if negated else result
        case ("like", negated, operand, pattern):
            value = slow(operand, message)
            result = None if value is None else is_string(value) and like(str(value), pattern)
            return negate(result) if negated else result
        case ("in", negated, name, items):
            value = message.get(name)
            result = str(value) in items if is_string(value) else None
            return negate(result) if negated else result
        case ("is null", negated, operand):
            return (slow(operand, message) is None) is not negated
        case ("not", operand):
            return negate(condition(operand, message))
        case (word, left, right):
            parts = [condition(left, message), condition(right, message)]
            decisive = word == "or"
            return decisive if decisive in parts else None if None in parts else not decisive
    raise AssertionError(node)


def condition(node: Any, message: dict[str, object]) -> object:
    value = slow(node, message)
    return (None if value is None else value is True) if node[0] == "name" else value


def negate(value: object) -> object:
    return None if value is None else not value


def like(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(like(text[start:], pattern[1:]) for start in range(len(text) + 1))
    return bool(text) and pattern[0] in {"_", text[0]} and like(text[1:], pattern[1:])


def compared(operator: str, left: Any, right: Any) -> object:
    if operator == "<>":
        return negate(compared("=", left, right))
    if left is None or right is None:
        if operator == "=":
            return None if left is None and right is not None else left is right
        return None
    kinds = [
        k
        for k in (
            is_number,
            is_string,
            lambda v: isinstance(v, bool),
            lambda v: isinstance(v, Char),
        )
        if k(left) and k(right)
    ]
    if not kinds:
        return False
    if is_number(left) and (isinstance(left, float) or isinstance(right, float)):
        left, right = (
            (math.inf, 1) if math.isnan(left) else (float(left), 0),
            (math.inf, 1) if math.isnan(right) else (float(right), 0),
        )
    return {
        "=": left == right,
        ">": left > right,
        "<": left < right,
        ">=": left >= right,
        "<=": left <= right,
    }[operator]


def calculated(operator: str, left: Any, right: Any) -> object:
    if left is None or right is None:
        return None
    if operator == "+" and is_string(left):
        if isinstance(right, bool):
            return left + str(right).lower()
        return left + (str(right) if not isinstance(right, float) else java(right))
    if not is_number(left) or not is_number(right):
        return None
    if operator == "/":
        left, right = float(left), float(right)
        if right == 0:
            return (
                math.nan
                if left == 0 or math.isnan(left)
                else math.copysign(1, left) * math.copysign(1, right) * math.inf
            )
        return left / right
    if operator == "%" and right == 0:
        return math.nan
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
        if operator == "%":
            return math.nan if math.isinf(left) else math.fmod(left, right)
        return {"+": left + right, "-": left - right, "*": left * right}[operator]
    long = any(isinstance(v, Long) or not -(2**31) <= v < 2**31 for v in (left, right))
    exact = {"+": left + right, "-": left - right, "*": left * right}.get(operator)
    if exact is None:
        exact = int(math.copysign(abs(left) % abs(right), left))
    bits = 64 if long else 32
    low = exact & (2**bits - 1)
    result = low - 2**bits if low >> (bits - 1) else low
    return Long(result) if long else result


def java(value: float) -> str:
    from pyjms.jms.conversions import float_text

    return float_text(value, single=isinstance(value, Float))


def compiled(text: str) -> tuple[Selector | None, InvalidSelectorException | None]:
    try:
        return Selector(text), None
    except InvalidSelectorException as error:
        return None, error


@examples(150)
@given(conditions, messages)
def test_compiled_equals_slow(node: Any, message: dict[str, object]) -> None:
    text = show(node)
    selector, problem = compiled(text)
    if selector is None:
        # Only what the checks on literals refuse: the generator does not know them.
        assert problem is not None
        assert "only numbers" in problem.reason
        return
    expected = condition(node, message)
    assert selector.evaluate(message.get) is expected
    assert selector.matches(message.get) is (expected is True)


@examples(100)
@given(st.text(st.sampled_from("ab()='<>+-*/%.,019eExXL \n_$\"!\\LIKENOTADR"), max_size=40))
def test_any_text_is_a_selector_or_the_documented_error(text: str) -> None:
    selector, problem = compiled(text)
    if selector is not None:
        assert selector.matches({"a": 1, "b": "x"}.get) in {True, False}
    else:
        assert problem is not None
        assert problem.position is not None
        assert 0 <= problem.position <= len(text)
        assert problem.hint


patterns = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\w", r"\b", "^", "$"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda both: f"(?:{both[0]}|{both[1]})"),
        inner.map(lambda one: f"({one})"),
    ),
    max_leaves=6,
)
repeats = st.tuples(
    st.lists(st.tuples(st.sampled_from(["a", "b", "[ab]", "(?:ab)", "(?:a|b)", "."]),
                       st.sampled_from(["", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,2}?"])),
             max_size=5).map(lambda parts: "".join(atom + repeat for atom, repeat in parts)),
    patterns,
).map("".join)  # fmt: skip


def unlimited() -> Budget:
    properties: dict[str, object] = {}
    return Budget(properties.get, SelectorLimits(steps=10**7))


@examples(150)
@given(repeats, st.text("ab\n c", max_size=12))
def test_patterns_find_what_re_finds(pattern: str, text: str) -> None:
    found = compile_pattern(pattern).search(text, unlimited())
    expected = re.search(pattern, text, re.ASCII)
    assert (found and (found.start, found.end)) == (expected and expected.span())
    matches = compile_pattern(pattern).find_all(text, unlimited())
    everything = [(match.start, match.end) for match in matches]
    assert everything[:1] == [m.span() for m in re.finditer(pattern, text, re.ASCII)][:1]


@examples(75)
@given(st.text("ab()[]{}*+?|\\^$.,-012dwxu&:is<=!", max_size=20), st.text("ab1 ", max_size=10))
def test_any_pattern_compiles_or_raises_value_error(pattern: str, text: str) -> None:
    try:
        machine = compile_pattern(pattern)
    except ValueError:
        return
    assert len(list(machine.find_all(text, unlimited()))) <= len(text) + 1
