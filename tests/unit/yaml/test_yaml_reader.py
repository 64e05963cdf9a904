"""Strict YAML: types, places, errors."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis.strategies import text

from pyjms.configuration.document import Document, Origin
from pyjms.configuration.yaml_reader import MAX_VALUES, read_yaml
from pyjms.configuration.yaml_writer import write_yaml
from pyjms.errors import ConfigurationException
from tests.kit.documents import parsed, raised


def refused(text: str) -> ConfigurationException:
    with pytest.raises(ConfigurationException) as caught:
        parsed(text, "app.yaml")
    return caught.value


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("False", False), ("null", None), ("~", None), ("", None), ("12", 12),
     ("-3", -3), ("0", 0), ("0x1F", 31), ("0o17", 15), ("1.5", 1.5), (".5", 0.5), ("1e3", 1000.0),
     ("-1.5E-2", -0.015), (".inf", math.inf), ("-.inf", -math.inf), ("'no'", "no"), ('"012"', "012"),
     ("2024-01-01", "2024-01-01"), ("orders.new", "orders.new"), ("30s", "30s"), ("y", "y"),
     ("3-10", "3-10"), ("a:b", "a:b"), ("!!str abc", "abc"), ("! 12", 12), ("|\n  x\n", "x\n"),
     ("[1, a]", [1, "a"]), ("{b: 1}", {"b": 1}), ("tcp://h:61616?a=b", "tcp://h:61616?a=b")],
)  # fmt: skip
def test_scalars(text: str, value: object) -> None:
    read = parsed(f"key: {text}", "app.yaml").values["key"]
    assert read == value
    assert type(read) is type(value)


@given(text())
@example("1e3")
@example("0o17")
@example("012")
@example("no")
@example("=")
@example("a: b #c")
@example("\x85")
def test_written_texts_are_read_as_the_same_texts(value: str) -> None:
    written = {"key": value, "list": [value]}
    assert parsed(write_yaml(written), "app.yaml").values == written


def test_not_a_number() -> None:
    assert math.isnan(parsed("key: .nan", "app.yaml").values["key"])


@pytest.mark.parametrize(
    ("text", "readings"),
    [("no", "a boolean"), ("Yes", "a boolean"), ("ON", "a boolean"), ("off", "a boolean"),
     ("012", "another number"), ("0b11", "another number"), ("1_000", "a number"),
     ("12:30:00", "a number of seconds")],
)  # fmt: skip
def test_what_two_yamls_read_differently_is_refused(text: str, readings: str) -> None:
    error = refused(f"a: 1\nkey: {text}")
    assert (error.source, error.line) == ("app.yaml", 2)
    assert f"app.yaml:2: {text} is {readings} to YAML 1.1" in str(error)
    assert f"'{text}' in quotes" in str(error)


def test_keys_are_always_text() -> None:
    assert parsed("1: a\nno: b\ntrue: c\n012: d", "x").values == {
        "1": "a",
        "no": "b",
        "true": "c",
        "012": "d",
    }


def test_every_value_knows_its_place() -> None:
    document = parsed("a:\n  b: 1\n\n  c:\n    - x\n    - d: 2\n", "app.yaml")
    assert document.values == {"a": {"b": 1, "c": ["x", {"d": 2}]}}
    assert document.origin(("a", "b")) == Origin("app.yaml", 2)
    assert document.origin(("a", "c", 1, "d")) == Origin("app.yaml", 6)
    assert document.origin(("a", "missing", "too")) == Origin("app.yaml", 1)
    assert str(document.origin(("a", "c"))) == "app.yaml:4"


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [("a: 1\nb: 2\na: 3", 3, "'a' is repeated; it is first set in line 1"),
     ("a:\n\tb: 1", 2, "cannot start any token"), ("a: [1", 1, "expected"),
     ("- a", 1, "must have keys"), ("text", 1, "must have keys"), ("a: !py x", 1, "tag '!py'"),
     ("a: &x {b: 1}\nc:\n  <<: *x", 3, "merge keys"), ("? [a]\n: b", 1, "must be a string"),
     ("a: &x [*x]", 1, "an alias refers to the value that contains it"), ("a: 1\n---\nb: 2", 2, "another document"),
     ("a: *x", 1, "undefined alias"), ("a: b: c", 1, "mapping values"),
     ("a: 1\nb: [-" + "9" * 5000 + "]", 2, "a number of 5001 characters is too long"),
     ("a: !!int 5", 1, "tag 'tag:yaml.org,2002:int'")],
)  # fmt: skip
def test_errors_name_file_and_line(text: str, line: int, reason: str) -> None:
    error = refused(text)
    assert (error.source, error.line) == ("app.yaml", line)
    assert f"app.yaml:{line}: " in str(error)
    assert reason in str(error)


def test_aliases_repeat_values() -> None:
    assert parsed("a: &x {b: 1}\nc: *x", "x").values == {"a": {"b": 1}, "c": {"b": 1}}


def test_aliases_cannot_explode() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert f"more than {MAX_VALUES} values" in str(refused("\n".join(lines)))


def test_deep_nesting_is_an_error() -> None:
    assert "app.yaml" in str(refused("a: " + "[" * 5000 + "]" * 5000))


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "~"])
def test_nothing_is_an_empty_document(text: str) -> None:
    assert parsed(text, "x") == Document()


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "no.yaml"
    with (
        pytest.raises(ConfigurationException, match="cannot be read") as caught,
        raised() as problems,
    ):
        read_yaml(missing, problems)
    assert caught.value.source == str(missing)
    missing.write_bytes(b"a: \xff")
    with pytest.raises(ConfigurationException, match="cannot be read"), raised() as problems:
        read_yaml(missing, problems)


def test_all_problems_of_a_file_are_reported_at_once() -> None:
    text = "a: no\nb: {c: 012, d: !tag x}\na: 1\n<<: {}\n? [x]\n: 1\ne: 1_000\n"
    with pytest.raises(ConfigurationException) as raised:
        parsed(text, "app.yaml")
    assert [(each.source, each.line) for each in raised.value.problems] == [
        ("app.yaml", line) for line in (1, 2, 2, 3, 4, 5, 7)
    ]
    assert (raised.value.source, raised.value.line) == ("app.yaml", 1)
    assert str(raised.value).splitlines() == [str(each) for each in raised.value.problems]
