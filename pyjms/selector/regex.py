r"""Regular expressions with a bounded cost, for patterns from untrusted clients.

They are the common subset of Java's and Python's syntax, except constructs that need exponential
time: literals and escapes, `.`, `[...]`, `\d \w \s` and their negations, `^ $ \b \B \A \z \Z`,
groups, `|`, `* + ? {m,n}` with their lazy forms, and `(?i)` and `(?s)` at the beginning. Back
references, look-around and possessive forms are errors.

A pattern is compiled by recursive descent to a program of five instructions, which a backtracking
machine runs that never repeats work. The machine's state is a pair (instruction, position in the
text); at a `Split` it pushes the second choice on a stack and continues with the first, so that
choices are tried in the order that Java and Python prescribe (greedy, lazy, leftmost alternative).
The set of visited states makes it safe: whether a state leads to a match does not depend on how it
was reached, so a state that was tried before has failed, and is not tried again. A search therefore
takes at most instructions x positions steps, whereas a plain backtracking matcher may take
exponentially many; `(a+)+b` is linear here. The set is kept between start positions: a state that
failed from one start position also fails from the next.

The cost of this design: back references and look-around depend on how a state was reached, and are
not supported. The selector's budget limits the time: every state takes a step. Python's `re` is not
an alternative, since its searches cannot be interrupted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyjms.selector.budget import Budget


class Accept(NamedTuple):
    """Consume one character that passes the test."""

    test: Callable[[str], bool]


class Assertion(NamedTuple):
    """Continue if the position in the text passes the test."""

    test: Callable[[str, int], bool]


class Save(NamedTuple):
    """Record the position as the start (even slot) or end (odd slot) of a group."""

    slot: int


class Split(NamedTuple):
    """Continue at `first`, and if that fails at `second`; both are relative."""

    first: int
    second: int


class Jump(NamedTuple):
    """Continue at another instruction; relative."""

    offset: int


Instruction = Accept | Assertion | Save | Split | Jump


@dataclass(frozen=True, slots=True)
class Match:
    """A match of a pattern: its position and groups."""

    text: str
    slots: tuple[int, ...]

    @property
    def start(self) -> int:
        """The position at which the match begins."""
        return self.slots[0]

    @property
    def end(self) -> int:
        """The position at which the match ends."""
        return self.slots[1]

    def group(self, number: int) -> str:
        """Return the text of a group: 0 is the whole match; "" if the group did not participate.

        Raises:
            ValueError: there is no such group.
        """
        if not 0 <= number < len(self.slots) // 2:
            raise ValueError(f"there is no group {number}")
        start, end = self.slots[2 * number : 2 * number + 2]
        return self.text[start:end] if start >= 0 else ""


class Pattern:
    """A compiled pattern; immutable."""

    __slots__ = ("_groups", "_program")

    def __init__(self, program: tuple[Instruction, ...], groups: int) -> None:
        self._program = program
        self._groups = groups

    @property
    def size(self) -> int:
        """The number of instructions."""
        return len(self._program)

    def search(self, text: str, budget: Budget, position: int = 0) -> Match | None:
        """Return the first match at or after `position`, or None."""
        visited: set[tuple[int, int]] = set()
        try:
            return self._search(text, position, visited, budget)
        finally:
            budget.steps -= len(visited)

    def find_all(self, text: str, budget: Budget) -> Iterator[Match]:
        """Yield the matches from left to right; they do not overlap."""
        position = 0
        while position <= len(text):
            found = self.search(text, budget, position)
            if found is None:
                return
            yield found
            position = found.end + (found.end == found.start)

    def _search(
        self, text: str, position: int, visited: set[tuple[int, int]], budget: Budget
    ) -> Match | None:
        # states that failed from one start fail from the next, so `visited` is kept
        for start in range(position, len(text) + 1):
            slots = self._run(text, start, visited, budget)
            if slots is not None:
                return Match(text, slots)
        return None

    def _run(
        self, text: str, start: int, visited: set[tuple[int, int]], budget: Budget
    ) -> tuple[int, ...] | None:
        program, end, limit = self._program, len(self._program), budget.steps
        stack = [(0, start, (-1,) * (2 * self._groups))]
        while stack:
            counter, position, slots = stack.pop()
            while (counter, position) not in visited:
                if counter == end:
                    return slots
                visited.add((counter, position))
                if len(visited) > limit:
                    budget.fail("steps", budget.limits.steps)
                match program[counter]:
                    case Accept(test):
                        if position == len(text) or not test(text[position]):
                            break
                        position += 1
                        counter += 1
                    case Split(first, second):
                        stack.append((counter + second, position, slots))
                        counter += first
                    case Jump(offset):
                        counter += offset
                    case Save(slot):
                        slots = (*slots[:slot], position, *slots[slot + 1 :])
                        counter += 1
                    case Assertion(holds):
                        if not holds(text, position):
                            break
                        counter += 1
        return None


MAX_INSTRUCTIONS: Final = 2_000
"""The maximum length of a program; counted repetitions are expanded."""

_MAX_NESTING: Final = 30
_MAX_GROUPS: Final = 20

_Test = Callable[[str], bool]
_Program = list[Instruction]

_DIGITS = frozenset("0123456789")
_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_") | _DIGITS
_SPACE = frozenset(" \t\n\x0b\f\r")
_CLASSES: Final[dict[str, frozenset[str]]] = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_HEX_DIGITS: Final = {"x": 2, "u": 4}


def _is_word(text: str, position: int) -> bool:
    return 0 <= position < len(text) and text[position] in _WORD


def _at_boundary(text: str, position: int) -> bool:
    return _is_word(text, position - 1) != _is_word(text, position)


def _at_end(text: str, position: int) -> bool:
    rest = text[position : position + 3]
    return rest in {"", "\n", "\r\n", "\r"} and len(rest) <= 2


_ASSERTIONS: Final[dict[str, Callable[[str, int], bool]]] = {
    "^": lambda _text, position: position == 0,
    "$": _at_end,
    "\\A": lambda _text, position: position == 0,
    "\\Z": _at_end,
    "\\z": lambda text, position: position == len(text),
    "\\b": _at_boundary,
    "\\B": lambda text, position: not _at_boundary(text, position),
}


def compile_pattern(text: str) -> Pattern:
    """Return the compiled pattern."""
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._nesting = 0
        self._groups = 1
        self._ignore_case = False
        self._dot_all = False

    def parse(self) -> Pattern:
        self._read_flags()
        program = self._alternatives()
        if self._peek():
            raise self._error("')' without '('")
        return Pattern((Save(0), *program, Save(1)), self._groups)

    def _read_flags(self) -> None:
        if self._text.startswith("(?") and (end := self._text.find(")")) > 2:
            flags = self._text[2:end]
            if set(flags) <= {"i", "s"}:
                self._ignore_case = "i" in flags
                self._dot_all = "s" in flags
                self._position = end + 1

    def _alternatives(self) -> _Program:
        program = self._sequence()
        while self._accept("|"):
            other = self._sequence()
            program = [Split(1, len(program) + 2), *program, Jump(len(other) + 1), *other]
            self._check_size(program)
        return program

    def _sequence(self) -> _Program:
        program: _Program = []
        while (character := self._peek()) and character not in "|)":
            program += self._with_quantifier(self._atom())
            self._check_size(program)
        return program

    def _with_quantifier(self, atom: _Program) -> _Program:
        while (character := self._peek()) and character in "*+?{":
            least, most = self._bounds()
            lazy = self._accept("?")
            if self._peek() == "+":
                raise self._error("possessive repetitions are not supported")
            atom = self._repeat(atom, least, most, lazy=lazy)
        return atom

    def _repeat(self, atom: _Program, least: int, most: int | None, *, lazy: bool) -> _Program:
        if (len(atom) + 2) * max(least, most or 0, 1) > MAX_INSTRUCTIONS:
            raise self._error("the pattern is too large")
        program = atom * least
        if most is None:
            return [*program, _split(1, len(atom) + 2, lazy), *atom, Jump(-len(atom) - 1)]
        for _ in range(most - least):
            program += [_split(1, len(atom) + 1, lazy), *atom]
        return program

    def _bounds(self) -> tuple[int, int | None]:
        character = self._next()
        if character != "{":
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[character]
        end = self._text.find("}", self._position)
        low, comma, high = self._text[self._position : end].partition(",")
        if end < 0 or not _is_number(low) or (high and not _is_number(high)):
            raise self._error("a repetition is {3}, {3,} or {3,5}; write \\{ for the character")
        self._position = end + 1
        least = int(low)
        most = int(high) if high else (None if comma else least)
        if most is not None and most < least:
            raise self._error("the bounds of a repetition are in the wrong order")
        return least, most

    def _atom(self) -> _Program:
        character = self._next()
        if character == "(":
            return self._group()
        if character in "*+?{":
            raise self._error(f"nothing to repeat before {character!r}")
        if character == "[":
            return [Accept(self._set())]
        if character == ".":
            return [Accept(_anything if self._dot_all else _not_line_end)]
        if character == "\\":
            return [self._escape()]
        if character in _ASSERTIONS:
            return [Assertion(_ASSERTIONS[character])]
        return [Accept(self._one_of(frozenset(character)))]

    def _group(self) -> _Program:
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            raise self._error("groups are nested too deeply")
        number = 0
        if self._accept("?"):
            if not self._accept(":"):
                raise self._error("only (?:...) of the (?...) forms is supported here")
        else:
            number = self._groups
            self._groups += 1
            if self._groups > _MAX_GROUPS:
                raise self._error("there are too many groups")
        program = self._alternatives()
        if not self._accept(")"):
            raise self._error("a group lacks its ')'")
        self._nesting -= 1
        return [Save(2 * number), *program, Save(2 * number + 1)] if number else program

    def _escape(self) -> Instruction:
        character = self._next("a backslash at the end")
        if f"\\{character}" in _ASSERTIONS:
            return Assertion(_ASSERTIONS[f"\\{character}"])
        if character.lower() in _CLASSES:
            return Accept(_class_test(character))
        if character in _DIGITS:
            raise self._error("back references are not supported")
        return Accept(self._one_of(frozenset(self._read_escape(character))))

    def _read_escape(self, character: str) -> str:
        if character in _CONTROLS:
            return _CONTROLS[character]
        if length := _HEX_DIGITS.get(character):
            digits = self._text[self._position : self._position + length]
            self._position += length
            try:
                return chr(int(digits, 16))
            except ValueError:
                raise self._error(f"\\{character} needs {length} hexadecimal digits") from None
        if character.isalnum():
            raise self._error(f"\\{character} is not supported")
        return character

    def _set(self) -> _Test:
        negated = self._accept("^")
        singles: set[str] = set()
        classes: dict[str, _Test] = {}
        ranges: list[tuple[str, str]] = []
        first = True
        while first or self._peek() != "]":
            first = False
            character = self._next("a set lacks its ']'")
            if character == "[" or (character == "&" and self._peek() == "&"):
                raise self._error("sets inside sets are not supported; write \\[ for the character")
            if character == "\\" and self._peek().lower() in _CLASSES and self._peek():
                name = self._next()
                classes[name] = _class_test(name)
                continue
            low = self._read_escape(self._next()) if character == "\\" else character
            high = self._range_end()
            if high is None:
                singles.add(low)
            elif high < low:
                raise self._error(f"the range {low}-{high} is in the wrong order")
            else:
                ranges.append((low, high))
        self._next()
        tests = [*classes.values(), self._one_of(frozenset(singles))]
        if ranges:
            tests.append(self._in_either_case(_ranges_test(ranges)))
        return _set_test(tests, negated)

    def _range_end(self) -> str | None:
        if self._peek() != "-" or self._text[self._position + 1 : self._position + 2] in {"]", ""}:
            return None
        self._next()
        character = self._next()
        return (
            self._read_escape(self._next("a set lacks its ']'")) if character == "\\" else character
        )

    def _one_of(self, characters: frozenset[str]) -> _Test:
        if self._ignore_case:
            characters |= {variant for one in characters for variant in (one.lower(), one.upper())}
        return characters.__contains__

    def _in_either_case(self, test: _Test) -> _Test:
        if not self._ignore_case:
            return test
        return lambda character: (
            test(character) or test(character.lower()) or test(character.upper()[:1])
        )

    def _check_size(self, program: _Program) -> None:
        if len(program) > MAX_INSTRUCTIONS:
            raise self._error("the pattern is too large")

    def _peek(self) -> str:
        return self._text[self._position : self._position + 1]

    def _accept(self, character: str) -> bool:
        found = self._peek() == character
        self._position += found
        return found

    def _next(self, missing: str = "the pattern ends too early") -> str:
        character = self._peek()
        if not character:
            raise self._error(missing)
        self._position += 1
        return character

    def _error(self, problem: str) -> ValueError:
        return ValueError(f"{problem} (at {self._position} in the pattern)")


def _split(inside: int, outside: int, lazy: bool) -> Split:
    return Split(outside, inside) if lazy else Split(inside, outside)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4


def _anything(_letter: str) -> bool:
    return True


def _not_line_end(character: str) -> bool:
    return character not in "\n\r\x85\u2028\u2029"


def _class_test(character: str) -> _Test:
    members = _CLASSES[character.lower()]
    if character.islower():
        return members.__contains__
    return lambda found: found not in members


def _ranges_test(ranges: list[tuple[str, str]]) -> _Test:
    """Return the test for any of the ranges, by binary search."""
    lows: list[str] = []
    highs: list[str] = []
    for low, high in sorted(ranges):
        if lows and low <= highs[-1]:
            highs[-1] = max(highs[-1], high)
        else:
            lows.append(low)
            highs.append(high)

    def test(character: str) -> bool:
        index = bisect_right(lows, character)
        return index > 0 and character <= highs[index - 1]

    return test


def _set_test(tests: list[_Test], negated: bool) -> _Test:
    return lambda character: any(test(character) for test in tests) != negated
