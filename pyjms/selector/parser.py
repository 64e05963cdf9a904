"""Parses selector text to a tree: lark's grammar, ActiveMQ's checks, and helpful errors.

The parser is LALR, so the recursion depth does not depend on the length of the text. lark is
imported when the first selector is parsed, because most programs have no selectors. It calls one
method of `Builder` per rule of grammar.lark, with the rule's children: tokens (strings with a
position) and nodes. Terminals whose names begin with `_` are omitted. The checks are those of
ActiveMQ: literals that cannot be compared are errors, while properties of the wrong type are merely
not equal.

Comments are `--` to the end of the line, and `/* */`. As in ActiveMQ, a line comment is one only if
its line ends, and a block comment only if it is closed; otherwise the characters are operators. A
lexer that tries both at each `-` and `/` would read the rest of the text each time, so comments are
removed before parsing, in one pass.

Every node of the tree has its depth, so that a tree that is too deep is rejected before anything
walks it recursively.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from importlib import resources
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast
from typing import Literal as OneOf

from pyjms.errors import InvalidSelectorException
from pyjms.selector.budget import DEFAULT_LIMITS, SelectorLimits
from pyjms.selector.operations import FUNCTIONS, Operator, check_call

if TYPE_CHECKING:
    from lark import Lark

Comparison = OneOf["=", "<>", "<", "<=", ">", ">="]

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


MAX_DEPTH: Final = DEFAULT_LIMITS.depth
"""The highest limit of the nesting of parentheses, signs, NOT, calls and sums."""

_LONG: Final = 2**63
_LONG_DIGITS: Final = 19
"""The number of decimal digits of the largest long; Python limits the digits of an int."""
_CONDITIONS: Final = (Truth, Not, AllOf, AnyOf, Compare, IsNull, Like, In)


class SelectorSyntaxError(ValueError):
    """A problem with its position and a hint; `parse` converts it to InvalidSelectorException."""

    def __init__(self, reason: str, position: int, hint: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position
        self.hint = hint


class Builder:
    """Builds the tree bottom-up, with one call per rule of the grammar."""

    # lark calls these methods by the rules' names.

    def start(self, children: list[Any]) -> Node:
        return _condition(children[0], 0)

    def any_of(self, children: list[Any]) -> Node:
        return _join(AnyOf, children)

    def all_of(self, children: list[Any]) -> Node:
        return _join(AllOf, children)

    def negation(self, children: list[Any]) -> Node:
        at = children[0].start_pos
        operand = _condition(children[1], at)
        return Not(operand, depth=_depth(at, operand))

    def equality(self, children: list[Any]) -> Node:
        left, operator, right = children
        at = operator.start_pos
        for side in (left, right):
            if isinstance(side, Literal) and side.value is None:
                hint = "write IS NULL or IS NOT NULL"
                raise SelectorSyntaxError("NULL cannot be compared", at, hint)
        if (
            isinstance(left, Literal)
            and isinstance(right, Literal)
            and isinstance(left.value, bool) > isinstance(right.value, bool)
        ):
            hint = "write the condition alone"
            raise SelectorSyntaxError("TRUE and FALSE compare with booleans only", at, hint)
        return Compare(operator.value, left, right, depth=_depth(at, left, right))

    def order(self, children: list[Any]) -> Node:
        left, operator, right = children
        return _order(operator.value, left, right, operator.start_pos)

    def between(self, children: list[Any]) -> Node:
        operand, negated, keyword, low, _and, high = children
        at = keyword.start_pos
        bounds = (_order(">=", operand, low, at), _order("<=", operand, high, at))
        return _negate_if(negated, AllOf(bounds, depth=_depth(at, *bounds)), at)

    def is_null(self, children: list[Any]) -> Node:
        operand, *negated, keyword = children
        at = keyword.start_pos
        return _negate_if(
            negated[0] if negated else None, IsNull(operand, depth=_depth(at, operand)), at
        )

    def like(self, children: list[Any]) -> Node:
        operand, negated, keyword, pattern, escape = children
        at = keyword.start_pos
        character = "" if escape is None else _unquote(escape)
        if escape is not None and len(character) != 1:
            hint = "write for instance ESCAPE '!'"
            raise SelectorSyntaxError("ESCAPE takes a single character", escape.start_pos, hint)
        test = Like(operand, _unquote(pattern), character, depth=_depth(at, operand))
        return _negate_if(negated, test, at)

    def in_list(self, children: list[Any]) -> Node:
        operand, negated, keyword, *values = children
        at = keyword.start_pos
        if not isinstance(operand, Property):
            hint = "write name IN ('a', 'b')"
            raise SelectorSyntaxError("the left side of IN must be a name", at, hint)
        return _negate_if(negated, In(operand.name, frozenset(map(_unquote, values))), at)

    def arithmetic(self, children: list[Any]) -> Node:
        left, operator, right = children
        depth = _depth(operator.start_pos, left, right)
        return Arithmetic(operator.value, left, right, depth=depth)

    def sign(self, children: list[Any]) -> Node:
        sign, operand = children
        if sign == "+":
            return cast("Node", operand)
        if isinstance(operand, Literal) and _is_number(operand.value):
            return Literal(-operand.value)  # type: ignore[operator]
        return Negate(operand, depth=_depth(sign.start_pos, operand))

    def xml(self, children: list[Any]) -> Node:
        keyword = children[0]
        raise SelectorSyntaxError(
            f"{keyword.upper()} is not supported",
            keyword.start_pos,
            "selectors see headers and properties; set a property, and select by it",
        )

    def variable(self, children: list[Any]) -> Node:
        return Property(str(children[0]))

    def call(self, children: list[Any]) -> Node:
        token, *arguments = children
        name, at = str(token), token.start_pos
        if name not in FUNCTIONS:
            hint = f"the functions are {', '.join(FUNCTIONS)}"
            raise SelectorSyntaxError(f"there is no function {name}", at, hint)
        usage = f"write {FUNCTIONS[name].usage}"
        if any(isinstance(argument, _CONDITIONS) for argument in arguments):
            raise SelectorSyntaxError(f"{name} takes values, not conditions", at, usage)
        if problem := check_call(name, arguments):
            raise SelectorSyntaxError(problem, at, usage)
        return Call(name, tuple(arguments), at, depth=_depth(at, *arguments))

    def string(self, children: list[Any]) -> Node:
        return Literal(_unquote(children[0]))

    def approximate(self, children: list[Any]) -> Node:
        return Literal(float(children[0]))

    def exact(self, children: list[Any]) -> Node:
        token = children[0]
        digits = token.rstrip("lL")
        base = {"HEX": 16, "OCTAL": 8}.get(token.type, 10)
        if (base == 10 and len(digits) > _LONG_DIGITS) or (value := int(digits, base)) > _LONG:
            # the largest number itself is valid after a minus
            hint = "write it with a point or an exponent: 1e30"
            raise SelectorSyntaxError("the number is larger than a long", token.start_pos, hint)
        return Literal(value)

    def constant(self, children: list[Any]) -> Node:
        return Literal({"TRUE": True, "FALSE": False, "NULL": None}[children[0].type])


def _join(kind: type[AllOf | AnyOf], children: list[Any]) -> Node:
    keywords = children[1::2]
    positions = [keywords[0].start_pos, *(keyword.start_pos for keyword in keywords)]
    operands = tuple(map(_condition, children[::2], positions))
    return kind(operands, depth=_depth(positions[0], *operands))


def _negate_if(keyword: object, test: Node, at: int) -> Node:
    return test if keyword is None else Not(test, depth=_depth(at, test))


def _order(operator: Any, left: Node, right: Node, at: int) -> Node:
    for side in (left, right):
        if not _has_order(side):
            hint = "strings and booleans can be compared with = and <> only"
            raise SelectorSyntaxError(f"only numbers can be compared with {operator}", at, hint)
    return Compare(operator, left, right, depth=_depth(at, left, right))


def _has_order(node: Node) -> bool:
    if isinstance(node, Literal):
        return _is_number(node.value)
    return not isinstance(node, (*_CONDITIONS, Call))


def _condition(node: Node, at: int) -> Node:
    if isinstance(node, Property):
        return Truth(node, depth=_depth(at, node))
    if isinstance(node, _CONDITIONS):
        return node
    if isinstance(node, Literal) and (node.value is None or isinstance(node.value, bool)):
        return node
    if isinstance(node, Call) and FUNCTIONS[node.name].is_condition:
        return node
    hint = "compare it with something, as in name = 'text'"
    raise SelectorSyntaxError("a condition is expected here, not a value", at, hint)


def _depth(at: int, *operands: Node) -> int:
    depth = 1 + max(operand.depth for operand in operands)
    if depth > MAX_DEPTH:
        raise _too_deep(at, MAX_DEPTH)
    return depth


def _too_deep(at: int, limit: int) -> SelectorSyntaxError:
    hint = "join conditions without parentheses; the broker's attribute maximum_selector_depth"
    return SelectorSyntaxError(f"it nests deeper than {limit} levels", at, f"{hint} is the limit")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _unquote(token: str) -> str:
    return token[1:-1].replace("''", "'")


_BEGINNING = re.compile(r"'|--|/\*")
_LINE_END = re.compile(r"[\r\n]")


def blank_comments(text: str) -> str:
    """Return the text with its comments replaced by blanks, so that positions stay the same."""
    last_line_end = max(text.rfind("\n"), text.rfind("\r"))
    last_block_end = text.rfind("*/")
    pieces: list[str] = []
    copied = position = 0
    while beginning := _BEGINNING.search(text, position):
        start = beginning.start()
        position = beginning.end()
        match beginning[0]:
            case "'":
                end = text.find("'", position)
                if end < 0:
                    break
                position = end + 1
                continue
            case "--" if start < last_line_end:
                line_end = _LINE_END.search(text, position)
                assert line_end is not None
                end = line_end.end()
            case "/*" if position <= last_block_end:
                end = text.index("*/", position) + 2
            case _:
                position = start + 1
                continue
        pieces += text[copied:start], " " * (end - start)
        copied = position = end
    return "".join((*pieces, text[copied:]))


CONVERT_STRINGS_PREFIX: Final = "convert_string_expressions:"
"""ActiveMQ's prefix of selectors that compare strings with numbers, as STOMP needs."""

MAX_LENGTH: Final = 65_536
"""The maximum length of a selector, in characters."""

_QUOTED: Final = 200

_CHARACTER_HINTS: Final = {
    '"': "strings are in single quotes: 'red'",
    "'": "a string has no closing quote; a quote inside a string is written twice",
    "!": "not equal is <>",
    "&": "join conditions with AND",
    "|": "join conditions with OR",
    ";": "a selector is one condition, without ';'",
    ".": "names have letters, digits, _ and $ only",
}
_TOKEN_HINTS: Final = {
    "": "something is missing at the end: a value, a condition or ')'",
    "=": "equality is a single =, at least is >=, at most is <=",
    "*": "a value is expected here, or a comment lacks its end */",
    ")": "there is a ) without a (, or nothing before it",
}
_RESERVED: Final = frozenset(
    {"NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"}
)
_EXPECTED_HINTS: Final = (
    ("STRING", "a string in single quotes is expected; IN lists and LIKE take nothing else"),
    ("LIKE", "an operator, AND or OR is missing before it"),
)


_PART: Final = re.compile(
    r"""\bin\s*\(\s*'[^']*'(?:\s*,\s*'[^']*')*  # a list
    | '[^']*'
    | \d[\d.]*e[+-]\d+
    | (?<![\w$.])(?!(?:and|or)\b)[\w$.]+
    | <[>=]?|>=?|[=+*/%-]""",
    re.IGNORECASE | re.VERBOSE,
)


def _check_size(text: str, limits: SelectorLimits) -> None:
    too_many = next(islice(_PART.finditer(text), limits.nodes, None), None)
    if too_many is not None:
        reason = f"it has more than {limits.nodes} names, literals and operators"
        hint = "replace the conditions by one property, or use IN lists; the broker's attribute "
        raise _invalid(text, reason, too_many.start(), f"{hint}maximum_selector_nodes is the limit")


def parse(text: str, limits: SelectorLimits = DEFAULT_LIMITS) -> Node:
    """Return the tree of the selector `text`, without its prefix."""
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken  # noqa: PLC0415 - see above

    if len(text) > MAX_LENGTH:
        raise InvalidSelectorException(
            f"Invalid selector: it has {len(text)} characters, {MAX_LENGTH} are allowed",
            position=MAX_LENGTH,
            hint="split it over several consumers, or replace the listed values by one property",
        )
    _check_size(text, limits)
    condition = text.removeprefix(CONVERT_STRINGS_PREFIX)
    try:
        # the prefix is replaced by blanks, so that positions stay correct
        node: Node = _lark().parse(blank_comments(condition).rjust(len(text)))  # type: ignore[assignment]
        if node.depth > limits.depth:
            raise _too_deep(0, limits.depth)
    except UnexpectedCharacters as error:
        position = error.pos_in_stream or 0
        found = text[position]
        hint = _CHARACTER_HINTS.get(found, "this character has no meaning in a selector")
        raise _invalid(text, f"unexpected {found!r}", position, hint) from None
    except UnexpectedToken as error:
        found = str(error.token)
        position = len(text) if not found else error.token.start_pos or 0
        reason = f"unexpected {found!r}" if found else "it ends too early"
        raise _invalid(text, reason, position, _token_hint(found, error.expected)) from None
    except SelectorSyntaxError as error:
        raise invalid(text, error) from None
    return node


def invalid(text: str, error: SelectorSyntaxError) -> InvalidSelectorException:
    """Return the exception that describes the problem of the selector `text`."""
    return _invalid(text, error.reason, error.position, error.hint)


def _token_hint(found: str, expected: set[str]) -> str:
    if found in _TOKEN_HINTS:
        return _TOKEN_HINTS[found]
    if found.upper() in _RESERVED and "IDENTIFIER" in expected:
        return f"a value is expected here; {found.upper()} is a reserved word, not a name"
    for terminal, hint in _EXPECTED_HINTS:
        if terminal in expected and (terminal != "STRING" or "IDENTIFIER" not in expected):
            return hint
    return "a value is expected here: a name, a number, a string or '('"


def _invalid(text: str, reason: str, position: int, hint: str) -> InvalidSelectorException:
    quoted = text if len(text) <= _QUOTED else f"{text[:_QUOTED]}..."
    return InvalidSelectorException(
        f"Invalid selector {quoted!r}: {reason} at position {position}",
        position=position,
        hint=hint,
    )


@functools.cache
def _lark() -> Lark:
    from lark import Lark  # noqa: PLC0415 - see above

    grammar = resources.files("pyjms.selector").joinpath("grammar.lark").read_text("utf-8")
    return Lark(
        grammar, parser="lalr", lexer="basic", transformer=Builder(), maybe_placeholders=True
    )
