"""The selector language, rule by rule."""

from __future__ import annotations

import pytest

from pyjms.errors import InvalidSelectorException
from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms.selector import compile_selector, selector_or_none

TRUE, FALSE, UNKNOWN = True, False, None


def evaluate(text: str, **properties: object) -> bool | None:
    return compile_selector(text).evaluate(properties.get)


def problem(text: str) -> InvalidSelectorException:
    with pytest.raises(InvalidSelectorException) as caught:
        compile_selector(text)
    return caught.value


@pytest.mark.fact("jms-api 8.1")
def test_headers_and_properties_by_their_names() -> None:
    asked: list[str] = []

    def lookup(name: str) -> object:
        asked.append(name)
        return {"JMSDeliveryMode": "NON_PERSISTENT", "JMSPriority": 4, "JMS_vendor": 1}.get(name)

    assert compile_selector("JMSDeliveryMode = 'NON_PERSISTENT'").matches(lookup)
    assert compile_selector("JMSPriority > 3 and JMSMessageID is null").matches(lookup)
    assert compile_selector("JMSTimestamp = 1 Or JMSCorrelationID = 'a' oR JMS_vendor = 1").matches(
        lookup
    )
    assert not compile_selector("JMSType = 'car' OR JMSXGroupID = 'g'").matches(lookup)
    assert asked == [
        "JMSDeliveryMode", "JMSPriority", "JMSMessageID", "JMSTimestamp", "JMSCorrelationID",
        "JMS_vendor", "JMSType", "JMSXGroupID",
    ]  # fmt: skip
    assert evaluate("n = 10", n="10") is FALSE  # properties are not converted
    assert evaluate("Name = 'x'", name="x") is UNKNOWN  # names are case sensitive


@pytest.mark.fact("jms-api 8.2")
@pytest.mark.parametrize(
    ("literal", "value"),
    [("57", 57), ("-957", -957), ("+62", 62), ("7E3", 7e3), ("-57.9E2", -57.9e2), ("7.", 7.0),
     (".9", 0.9), ("9223372036854775807", 2**63 - 1), ("-9223372036854775808", -(2**63)),
     ("TRUE", True), ("false", False), ("'it''s'", "it's"), ("10L", 10), ("0x0A", 10),
     ("012", 10), ("-- one\n 10", 10), ("/* ten */ 10", 10), ("13 % 10", 3),
     ("'a' + 'b'", "ab")],
)  # fmt: skip
def test_literals(literal: str, value: object) -> None:
    assert evaluate(f"p = {literal}", p=value) is TRUE
    assert evaluate(f"p <> {literal}", p=value) is FALSE


@pytest.mark.fact("jms-api 8.3")
@pytest.mark.parametrize(
    ("text", "meaning"),
    [("-i * 2 = -20", "((-i) * 2) = (-20)"), ("1 + 2 * 3 = 7", "(1 + (2 * 3)) = 7"),
     ("10 - 4 - 3 = 3", "((10 - 4) - 3) = 3"), ("16 / 4 / 2 = 2", "((16 / 4) / 2) = 2"),
     ("i + 1 > 10", "(i + 1) > 10"), ("yes OR no AND no", "yes OR (no AND no)"),
     ("NOT no AND yes", "(NOT no) AND yes"), ("NOT i = 99", "(NOT i) = 99"),
     ("i BETWEEN 1 + 1 AND 2 * 9 AND yes", "(i BETWEEN 2 AND 18) AND yes"),
     ("i IS NOT NULL AND s IN ('a') AND s LIKE 'a%'", "TRUE")],
)  # fmt: skip
def test_precedence(text: str, meaning: str) -> None:
    message = {"i": 10, "yes": True, "no": False, "s": "a"}
    assert evaluate(text, **message) is evaluate(meaning, **message)
    assert evaluate("NOT i = 99", i=10) is FALSE
    assert evaluate("NOT (i = 99)", i=10) is TRUE
    assert evaluate("10 - 4 - 3 = 3") is TRUE
    assert evaluate("yes OR no AND no", **message) is TRUE


@pytest.mark.fact("jms-api 8.4")
@pytest.mark.parametrize("operator", [">", ">=", "<", "<="])
def test_strings_and_booleans_have_no_order(operator: str) -> None:
    for literal in ("'a'", "TRUE", "NULL"):
        assert "only numbers" in str(problem(f"colour {operator} {literal}"))
    assert evaluate("colour = 'a' AND yes <> FALSE", colour="a", yes=True) is TRUE
    assert evaluate("colour = 1", colour="1") is FALSE
    assert evaluate("i = '1'", i=1) is FALSE
    for number in (Byte(2), Short(2), 2, Long(2), Float(2), 2.0):
        assert evaluate("n = 2 AND n = 2.0 AND n < 2.5", n=number) is TRUE


@pytest.mark.fact("jms-api 8.5")
def test_between_in_and_like() -> None:
    assert evaluate("n BETWEEN 2 AND 4", n=2) is TRUE
    assert evaluate("n BETWEEN 2 AND 4", n=4.0) is TRUE
    assert evaluate("n NOT BETWEEN 2 AND 4", n=5) is TRUE
    assert evaluate("s IN ('a', 'b')", s="b") is TRUE
    assert evaluate("s NOT IN ('a', 'b')", s="b") is FALSE
    assert evaluate("s IN ('1')", s=1) is UNKNOWN
    for text in ("s IN ()", "s IN (1, 2)", "1 IN ('a')", "s IN ('a',)"):
        problem(text)
    assert evaluate("s LIKE 'a_c%'", s="abcde") is TRUE
    assert evaluate("s LIKE 'A%'", s="abc") is FALSE
    assert evaluate("s LIKE 'a!_%' ESCAPE '!'", s="a_x") is TRUE
    assert evaluate("s LIKE 'a!_%' ESCAPE '!'", s="abx") is FALSE
    assert evaluate("s NOT LIKE '%b%'", s="abc") is FALSE
    assert evaluate("n LIKE '1%'", n=10) is FALSE
    assert evaluate("n IS NULL") is TRUE
    assert evaluate("n IS NOT NULL", n=0) is TRUE
    assert evaluate("n IS NOT NULL") is FALSE


@pytest.mark.fact("jms-api 8.6")
@pytest.mark.parametrize(
    "text",
    ["m = 'x'", "m <> 'x'", "NOT (m = 'x')", "m > 1", "m + 1 = 2", "-m = 1", "m LIKE '%'",
     "m NOT LIKE '%'", "m IN ('a')", "m NOT IN ('a')", "m BETWEEN 1 AND 2", "m", "NOT m"],
)  # fmt: skip
def test_null_is_unknown(text: str) -> None:
    assert evaluate(text) is UNKNOWN
    assert evaluate(text, m=None) is UNKNOWN
    assert compile_selector(text).matches(lambda _name: None) is False
    assert evaluate("flag", flag=True) is TRUE
    assert [evaluate("flag", flag=other) for other in (False, "true", 1, Char("t"))] == [FALSE] * 4


LOGIC = {"T": True, "F": False, "U": None}


@pytest.mark.fact("jms-api 8/T", "jms-api 8/F", "jms-api 8/U")
@pytest.mark.parametrize(
    ("left", "conjunctions", "disjunctions", "negation"),
    [("T", "TFU", "TTT", "F"), ("F", "FFF", "TFU", "T"), ("U", "UFU", "TUU", "U")],
)
def test_three_valued_logic(left: str, conjunctions: str, disjunctions: str, negation: str) -> None:
    for index, right in enumerate("TFU"):
        both = {"a": LOGIC[left], "b": LOGIC[right]}
        assert evaluate("a AND b", **both) is LOGIC[conjunctions[index]]
        assert evaluate("a OR b", **both) is LOGIC[disjunctions[index]]
    assert evaluate("NOT a", a=LOGIC[left]) is LOGIC[negation]


@pytest.mark.fact("jms-api 8.8")
@pytest.mark.parametrize(
    ("text", "position", "hint"),
    [("a == 1", 3, "equality is a single ="), ("a != 1", 2, "not equal is <>"),
     ("a => 1", 3, "a value is expected here"), ('a = "x"', 4, "single quotes"),
     ("a = 'x", 4, "closing quote"), ("(a = 1", 6, "missing at the end"),
     ("a = 1)", 5, "without a ("), ("a = ", 4, "missing at the end"),
     ("a = 1 AND", 9, "missing at the end"), ("a = NULL", 2, "IS NULL"),
     ("", 0, "missing at the end"), ("  ", 2, "missing at the end"),
     ("a = 1; b", 5, "one condition"), ("in = 1", 0, "IN is a reserved word"),
     ("a IN (1)", 6, "single quotes"), ("a b", 2, "missing before it"),
     ("a.b = 1", 1, "letters, digits"), ("a = 1 && b = 2", 6, "AND"),
     ("a = 1 || b = 2", 6, "OR"), ("a = 1 /* x", 7, "lacks its end"),
     ("5", 0, "compare it"), ("a = 1 OR 2", 6, "compare it"), ("a LIKE 'x' ESCAPE 'ab'", 18, "!"),
     ("a = 9223372036854775809", 4, "1e30"), ("LENGTH(a) = 1", 0, "REGEX, REPLACE, SPLIT"),
     ("REGEX(a)", 0, "REGEX('pattern', value)"), ("REGEX('(', a)", 0, "REGEX("),
     ("a = 1 AND XPATH '//b'", 10, "set a property, and select by it"),
     ("convert_string_expressions:a ==", 30, "equality is a single ="),
     ("TRUE = 1", 5, "alone"), ("INLIST(MAKELIST(a = 1), 1)", 7, "MAKELIST(value"),
     ("a = #", 4, "no meaning")],
)  # fmt: skip
def test_errors_say_where_and_what_to_do(text: str, position: int, hint: str) -> None:
    error = problem(text)
    assert error.position == position
    assert hint in error.hint
    assert repr(text) in error.reason
    assert f"position {position}" in error.reason


def test_a_blank_selector_compiles_to_none() -> None:
    assert [selector_or_none(text) for text in (None, "", " \n")] == [None, None, None]
    selector = selector_or_none("a = 1")
    assert selector is not None
    assert selector.text == "a = 1"


@pytest.mark.parametrize(
    "text",
    ["(" * 20_000 + "a = 1" + ")" * 20_000, " OR ".join(["a = 1"] * 3_000),
     "a IN (" + ", ".join(f"'{n}'" for n in range(5_000)) + ")"],
    ids=["brackets", "conditions", "values"],
)  # fmt: skip
def test_long_selectors_work(text: str) -> None:
    assert evaluate(text, a=1) in {TRUE, UNKNOWN}


@pytest.mark.parametrize(
    "text",
    ["NOT " * 5_000 + "a", "a = " + "-" * 5_000 + "b", "a = " + "1 + " * 5_000 + "1",
     "REPLACE(" * 3_000 + "a", "NOT (" * 3_000 + "a" + ")" * 3_000,
     "a" + " = a" * 5_000, "a" + " IS NULL" * 5_000, "a = '" + "x" * 70_000 + "'"],
    ids=["not", "minus", "sum", "calls", "nested not", "equals", "is null", "length"],
)  # fmt: skip
def test_too_large_selectors_are_refused_with_an_explanation(text: str) -> None:
    error = problem(text)
    assert len(str(error)) < 600
    assert error.hint


def test_like_takes_time_in_proportion() -> None:
    text = "a" * 5_000
    pattern = "%a" * 40 + "%b"
    assert evaluate(f"s LIKE '{pattern}'", s=text) is FALSE


def test_numbers_calculate_as_in_java() -> None:
    assert evaluate("n + 1 = -2147483648", n=2**31 - 1) is TRUE
    assert evaluate("n + 1 = 2147483648", n=Long(2**31 - 1)) is TRUE
    assert evaluate("n * n < 0", n=Long(2**62 + 2**61)) is FALSE
    assert evaluate("-n = n", n=Long(-(2**63))) is TRUE
    assert evaluate("n / 4 = 2.5", n=10) is TRUE
    assert evaluate("n / 0 > 1e300 AND -n / 0 < -1e300", n=10) is TRUE
    assert evaluate("n % 3 = -1 AND n % -3 = -1", n=-7) is TRUE
    assert evaluate("x % 0.5 = 0.25", x=0.75) is TRUE
    assert evaluate("x / x = x / x", x=0.0) is TRUE  # NaN equals itself
    assert evaluate("x % 2 = 0 / 0", x=float("inf")) is TRUE
    assert evaluate("x > 0 / 0", x=float("inf")) is FALSE  # and is above everything


def test_values_of_no_jms_type_never_match() -> None:
    assert evaluate("v = 'x'", v=b"x") is FALSE
    assert evaluate("v > 1", v=[1]) is FALSE
    assert evaluate("v < w", v=b"a", w=b"b") is FALSE


def test_exceptions_of_the_lookup_are_passed_on() -> None:
    def lookup(name: str) -> object:
        raise LookupError(name)

    with pytest.raises(LookupError, match="a"):
        compile_selector("a = 1").matches(lookup)


def test_repr_shows_the_text() -> None:
    assert repr(compile_selector("a = 1")) == "Selector('a = 1')"
