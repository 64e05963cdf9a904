"""ActiveMQ's functions, and the patterns that cannot run away."""

from __future__ import annotations

import pytest

from pyjms.selector import SelectorLimitException, SelectorLimits, compile_selector
from pyjms.selector.budget import Budget
from pyjms.selector.operations import MAX_TEXT
from pyjms.selector.regex import compile_pattern

TRUE, FALSE, UNKNOWN = True, False, None


def evaluate(text: str, **properties: object) -> bool | None:
    return compile_selector(text).evaluate(properties.get)


def unlimited() -> Budget:
    return Budget(lambda _name: None, SelectorLimits())


def test_a_runaway_pattern_ends() -> None:
    evil = "a" * 500 + "!"
    assert evaluate("REGEX('^(a+)+$', s)", s=evil) is FALSE
    assert evaluate("REGEX('(a|a)*(a|a)*(a|a)*b', s)", s=evil) is FALSE
    for function in ("REGEX('{}', s)", "REPLACE(s, '{}', 'x') = 'x'", "SPLIT(s, '{}') IS NULL"):
        with pytest.raises(SelectorLimitException, match="steps"):
            evaluate(function.format("(a|aa|aaa|aaaa)*b"), s=evil * 40)


def test_the_limit_is_on_the_steps_of_the_whole_selector() -> None:
    properties = {"s": "a" * 100}
    limits = SelectorLimits(steps=900)
    once = "REGEX('a*b', s)"
    assert compile_selector(once, limits).evaluate(properties.get) is FALSE
    with pytest.raises(SelectorLimitException, match="900 steps"):
        compile_selector(f"{once} OR {once}", limits).evaluate(properties.get)


def test_each_message_has_the_whole_budget() -> None:
    selector = compile_selector("REGEX('a*b', s)", SelectorLimits(steps=900))
    assert [selector.evaluate({"s": "a" * 100}.get) for _ in range(5)] == [FALSE] * 5


def test_replace_bounds_its_result() -> None:
    text = (
        "REPLACE(REPLACE(REPLACE(s, 'a', '$0$0$0$0$0$0$0$0'), 'a', '$0$0$0$0$0$0$0$0'), 'a', 'bb')"
    )
    selector = compile_selector(f"{text} IS NULL", SelectorLimits(steps=10**7))
    assert selector.evaluate({"s": "a" * 100}.get) is FALSE
    assert selector.evaluate({"s": "a" * (MAX_TEXT // 100)}.get) is TRUE


def test_patterns_may_come_from_the_message() -> None:
    assert evaluate("REGEX(p, s)", p="^r.d$", s="red") is TRUE
    assert evaluate("REGEX(p, s)", p="(", s="red") is UNKNOWN
    assert evaluate("REGEX(p, s)", p=1, s="red") is UNKNOWN
    assert evaluate("REGEX(p, s)", p=None, s="red") is UNKNOWN


def test_convert_string_expressions_reads_the_others_type() -> None:
    prefix = "convert_string_expressions:"
    assert evaluate(f"{prefix}n > 3", n="5") is TRUE
    assert evaluate(f"{prefix}n > 3", n="five") is FALSE
    assert evaluate(f"{prefix}n > 3.0", n="5.5") is TRUE
    assert evaluate(f"{prefix}n > 3", n="5.5") is FALSE
    assert evaluate(f"{prefix}n = v", n="5", v=b"5") is FALSE
    assert evaluate(f"{prefix}a = b", a="5", b="5") is TRUE


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [("r.d", "a red b", "red"), ("^a|b$", "cb", "b"), ("(?i)RED", "a Red", "Red"),
     ("(?s)a.b", "a\nb", "a\nb"), ("a.b", "a\nb", None), (r"\d{2,3}", "1 1234", "123"),
     (r"\d{2}", "1234", "12"), (r"\d{2,}?", "1234", "12"), (r"a+?", "aaa", "a"),
     (r"\bred\b", "bred red", "red"), (r"\Bed", "ed red", "ed"), (r"[^a-c\d]+", "ab1xyz2", "xyz"),
     (r"[]a]+", "x]a]", "]a]"), (r"[a-]+", "b-a-", "-a-"), (r"[\]\\]+", "x]\\", "]\\"),
     (r"\x41\u0042\t", "AB\t", "AB\t"), (r"\.\*", "a.*", ".*"), (r"(?:ab){2}", "ababab", "abab"),
     (r"\Aa\z", "a", "a"), (r"a\Z", "a\n", "a"), (r"a\z", "a\n", None), ("", "x", ""),
     (r"(?i)[a-c]+", "xABC", "ABC"), (r"\W\S\D", "a-bc", "-bc"), (r"colou?r", "color", "color"),
     (r"(a*)*b", "aab", "aab"), (r"(|a)+b", "aab", "aab"), (r"x{0}y", "xy", "y")],
)  # fmt: skip
def test_patterns(pattern: str, text: str, found: str | None) -> None:
    match = compile_pattern(pattern).search(text, unlimited())
    assert (match.group(0) if match else None) == found


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [("(a", "lacks its '\\)'"), ("a)", "without"), ("*a", "nothing to repeat"), ("[a", "lacks"),
     ("a{2,1}", "wrong order"), ("a{x}", "a repetition is"), ("a{2", "a repetition is"), ("\\", "backslash"),
     ("\\1", "back references"), ("(?=a)", "only"), ("(?<n>a)", "only"), ("a*+", "possessive"),
     ("[b-a]", "wrong order"), ("[a[b]]", "sets inside"), ("[a&&b]", "sets inside"),
     ("\\p", "not supported"), ("\\xZZ", "hexadecimal"), ("(?:" * 40 + ")" * 40, "too deeply"),
     ("()" * 30, "too many groups"), ("((a{50}){50}){50}", "too large"), ("a" * 2100, "too large"),
     ("a|" * 1000, "too large"), ("(?", "only"), ("[a-", "lacks"), ("[a-\\", "lacks")],
)  # fmt: skip
def test_bad_patterns_say_why(pattern: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        compile_pattern(pattern)


def test_groups() -> None:
    match = compile_pattern("(a)(b)?").search("xac", unlimited())
    assert match is not None
    assert [match.group(n) for n in (0, 1, 2)] == ["a", "a", ""]
    with pytest.raises(ValueError, match="no group 3"):
        match.group(3)


@pytest.mark.fact("activemq-broker Q11")
def test_strings_are_numbers_only_where_the_prefix_says_so() -> None:
    # as STOMP sends properties
    assert evaluate("weight > 3", weight="5") is not TRUE
    assert evaluate("convert_string_expressions:weight > 3", weight="5") is TRUE
    assert evaluate("convert_string_expressions:weight > 3", weight="heavy") is not TRUE
