"""Selectors that would take seconds or gigabytes: each ends by its budget or is refused."""

from __future__ import annotations

import pytest

from pyjms.errors import InvalidSelectorException
from pyjms.selector import Selector, SelectorLimitException, SelectorLimits, compile_selector
from pyjms.selector.parser import blank_comments

LONG = "a" * 4_000_000


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("REPLACE(s, '(a|aa|aaa)*b', 'x') = 'y'", ("a" * 3000 + "b ") * 30, "steps"),
        ("REPLACE(s, 'a.*b|a', 'x') = 'y'", "a" * 5000, "steps"),
        ("INLIST(SPLIT(s, 'a.*b|a'), 'y')", "a" * 5000, "steps"),
        (" OR ".join(f"REGEX('(a|aa)*b{n}', s)" for n in range(40)), "a" * 300, "steps"),
        (" OR ".join(f"REGEX(s + '{n}', 'x')" for n in range(100)), "a" * 1900, "steps"),
        (" OR ".join(["INLIST(SPLIT(s, ','), 'x')"] * 200), "b," * 1000, "steps"),
        ("s LIKE '%" + "a" * 500 + "b%c'", LONG, "steps"),
        (" OR ".join(["s LIKE '%" + "_a" * 100 + "b%c'"] * 50), "a" * 10_000, "steps"),
        ("s" + "+s" * 95 + " = 'x'", LONG, "characters"),
        (" OR ".join(["s + s = 'x'"] * 200), "a" * 50_000, "characters"),
        (" AND ".join(["s = t"] * 200), "a" * 50_000, "characters"),
        (" OR ".join(["s <> t"] * 200), b"a" * 50_000, "characters"),
        ("convert_string_expressions:" + " OR ".join(["s = 1"] * 200), "9" * 50_000, "characters"),
    ],
)
def test_a_costly_evaluation_exceeds_the_budget(text: str, value: object, unit: str) -> None:
    properties = {"s": value, "t": value}
    with pytest.raises(SelectorLimitException, match=unit) as caught:
        compile_selector(text).matches(properties.get)
    assert f"maximum_selector_{unit}" in caught.value.hint


def test_lists_of_long_values_count() -> None:
    selector = compile_selector("INLIST(l, s)")
    assert selector.matches({"l": ["a", "b"], "s": "b"}.get)
    with pytest.raises(SelectorLimitException):
        selector.matches({"l": ["a" * 100_000] * 10_000, "s": "b" * 100_000}.get)
    with pytest.raises(SelectorLimitException):
        selector.matches({"l": ["a"] * 1_000_000, "s": 1}.get)


def test_lists_are_not_strings() -> None:
    value = {"l": ["a"], "m": ["a"]}.get
    assert compile_selector("REGEX('a', l)").evaluate(value) is None
    assert compile_selector("('x' + l) IS NULL").evaluate(value) is True


def test_the_items_of_lists_count_in_comparisons() -> None:
    equal = compile_selector("l = m")
    assert equal.matches({"l": [["a"]], "m": [["a"]]}.get)
    assert compile_selector("INLIST(MAKELIST(l), m)").matches({"l": ["a"], "m": ["a"]}.get)
    values = [["a"] * 100 for _ in range(1_000)]
    with pytest.raises(SelectorLimitException):
        equal.matches({"l": values, "m": values}.get)
    with pytest.raises(SelectorLimitException):
        compile_selector("INLIST(l, m)").matches({"l": values, "m": values[0]}.get)


def test_a_plain_comparison_has_no_limit() -> None:
    limits = SelectorLimits(steps=0, characters=0)
    selector = compile_selector("s = 'x' OR s IN ('a', 'b') OR n > 3", limits)
    assert selector.matches({"s": LONG, "n": 4}.get)


def test_many_names_are_looked_up_once_each() -> None:
    names: list[str] = []

    def lookup(name: str) -> object:
        names.append(name)
        return "x" if name == "t" else None

    plain = " OR ".join(["s = 'x'", "u IN ('x')"] * 500)
    assert not compile_selector(plain).matches(lookup)
    assert names == ["s", "u"]
    assert compile_selector(f"{plain} OR t LIKE 'x'").matches(lookup)
    assert names == ["s", "u", "s", "u", "t"]


def test_the_replacement_of_each_match_counts() -> None:
    text = "REPLACE(s, '(?s)(.*)', '" + "$1" * 30_000 + "') IS NULL"
    assert compile_selector(text).matches({"s": "a" * 1_000}.get)


@pytest.mark.parametrize("digits", [20, 5_000, 60_000])
def test_numbers_with_many_digits_are_refused(digits: int) -> None:
    with pytest.raises(InvalidSelectorException, match="larger than a long"):
        compile_selector("n = " + "9" * digits)


@pytest.mark.fact("jms-api 8.10")
@pytest.mark.parametrize(
    ("text", "limits", "attribute"),
    [
        (" OR ".join(["a + a = 1"] * 2_001), SelectorLimits(), "maximum_selector_nodes"),
        ("a = 1 OR b = 2", SelectorLimits(nodes=5), "maximum_selector_nodes"),
        ("((a + 1) * 2 + 3) * 4 = 5", SelectorLimits(depth=4), "maximum_selector_depth"),
        ("a = " + "1 + " * 100 + "1", SelectorLimits(), "maximum_selector_depth"),
    ],
)
def test_a_selector_of_too_many_parts_is_refused(
    text: str, limits: SelectorLimits, attribute: str
) -> None:
    with pytest.raises(InvalidSelectorException) as caught:
        compile_selector(text, limits)
    assert attribute in caught.value.hint


@pytest.mark.fact("jms-api 8.10")
@pytest.mark.parametrize(
    "text",
    [
        " or ".join(["a + a = 1"] * 1_999),
        "a in (" + ", ".join(f"'{n}'" for n in range(5_000)) + ")",
        "a = '" + "x + y = " * 5_000 + "'",
    ],
    ids=["conditions", "list", "literal"],
)
def test_long_lists_and_literals_are_few_parts(text: str) -> None:
    assert not compile_selector(text).matches({"a": 1}.get)


def test_the_patterns_of_a_selector_are_limited_together() -> None:
    text = " OR ".join(f"REGEX('a{{0,400}}{n}', s)" for n in range(20))
    with pytest.raises(InvalidSelectorException, match="too large together"):
        compile_selector(text)


def test_the_ranges_of_a_set_are_merged() -> None:
    selector = compile_selector("REGEX('^[b-dx-zc-ea-a]+$', s)")
    assert [selector.matches({"s": s}.get) for s in ("abcdexyz", "f", "w", "a1")] == [
        True, False, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "blanked"),
    [
        ("a = 1 -- b\n", "a = 1" + " " * 6),
        ("a = 1 -- b", "a = 1 -- b"),
        ("a --\r = 1--\n--x", "a     = 1   --x"),
        ("a /* -- */ = 1", "a          = 1"),
        ("a /* * / **/ = '/* -- */'\n", "a            = '/* -- */'\n"),
        ("a = 'it''s --\n' -- b\n", "a = 'it''s --\n'      "),
        ("a = 'x --\n", "a = 'x --\n"),
        ("a /*/ = 1", "a /*/ = 1"),
        ("a ---b\n= 1", "a      = 1"),
    ],
)
def test_comments_become_blanks(text: str, blanked: str) -> None:
    assert blank_comments(text) == blanked


def test_line_comments_are_searched_once() -> None:
    condition = "a = 1" + " -1--1" * 90 + "-- end\n"
    assert compile_selector(condition).matches({"a": 1}.get) is False
    text = "n = 1" + "--" * 30_000
    with pytest.raises(InvalidSelectorException):
        compile_selector(text)


def test_a_long_selector_is_not_kept() -> None:
    short, long = "a = 1", " OR ".join(["a = 1"] * 1_000)
    assert compile_selector(short) is compile_selector(short)
    assert compile_selector(long) is not compile_selector(long)
    assert isinstance(compile_selector(long), Selector)
