"""Profiles, environment, placeholders."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyjms.configuration.document import Document, Origin, merge
from pyjms.configuration.layers import chosen_profiles, overlay_environment, read_layers
from pyjms.configuration.placeholders import Placeholders, expand
from pyjms.errors import ConfigurationException
from tests.kit.documents import parsed, raised


def test_merge_joins_mappings_and_replaces_the_rest() -> None:
    base = parsed("a: {b: 1, c: [1, 2]}\nd: {e: 1}\nf: 1", "base")
    over = parsed("\n\na: {c: [3], g: 2}\nd: 5\nf: {h: 1}", "over")
    merged = merge(base, over)
    assert merged.values == {"a": {"b": 1, "c": [3], "g": 2}, "d": 5, "f": {"h": 1}}
    assert merged.origin(("a", "b")) == Origin("base", 1)
    assert merged.origin(("a", "c", 0)) == Origin("over", 3)
    assert merged.origin(("d", "e")) == Origin("over", 4)
    assert merged.origin(()) == Origin("base", 1)
    assert base.values == {"a": {"b": 1, "c": [1, 2]}, "d": {"e": 1}, "f": 1}


def test_the_last_profile_is_on_top(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text("a: 1\nb: 1\nc: 1")
    (tmp_path / "app-x.yaml").write_text("b: 2\nc: 2")
    (tmp_path / "app-y.yaml").write_text("c: 3")
    with raised() as problems:
        document = read_layers(tmp_path / "app.yaml", ["x", "y"], problems)
    assert document.values == {"a": 1, "b": 2, "c": 3}
    assert document.origin(("c",)) == Origin(str(tmp_path / "app-y.yaml"), 1)


def test_a_profile_without_a_file(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text("a: 1")
    with (
        pytest.raises(ConfigurationException, match=r"Profile 'x' has no file .*app-x\.yaml"),
        raised() as problems,
    ):
        read_layers(tmp_path / "app.yaml", ["x"], problems)
    with raised() as problems:
        document = read_layers(tmp_path / "app.yaml", ["x"], problems, all_profiles=False)
    assert document.values == {"a": 1}


def test_profiles_are_chosen_by_argument_or_environment() -> None:
    environ = {"PYJMS_PROFILES": " test, local ,"}
    assert chosen_profiles(None, environ) == ["test", "local"]
    assert chosen_profiles(["prod"], environ) == ["prod"]
    assert chosen_profiles([], environ) == []
    assert chosen_profiles(None, {}) == []


def test_the_environment_lies_over_the_files() -> None:
    document = parsed("a: {b: 1, c: 2}\nids: {order-Status.x: {n: 1}}", "app.yaml")
    environ = {
        "P_A__B": "5",
        "P_A__NEW__KEY": "6",
        "P_IDS__ORDER_STATUS_X__N": "7",
        "P_PLAIN": "no path",
        "OTHER_A__B": "8",
        "P_SKIP__A__B": "9",
    }
    laid = overlay_environment(document, environ, "P_", exclude="P_SKIP__")
    assert laid.values == {
        "a": {"b": "5", "c": 2, "new": {"key": "6"}},
        "ids": {"order-Status.x": {"n": "7"}},
    }
    assert str(laid.origin(("a", "b"))) == "environment variable P_A__B"
    assert str(laid.origin(("a", "new"))) == "environment variable P_A__NEW__KEY"
    assert laid.origin(("a", "c")) == Origin("app.yaml", 1)
    assert document.values["a"]["b"] == 1


def test_the_environment_replaces_a_value_by_a_section() -> None:
    laid = overlay_environment(parsed("a: 1", "x"), {"P_A__B": "2"}, "P_")
    assert laid.values == {"a": {"b": "2"}}


VALUES = {
    "app": {"region": "EU", "size": 5, "on": True, "none": None, "nested": {"x": "${region}!"}},
    "jms": {"client_id": "c-${HOME}", "list": [1]},
    "loop": "${pool}",
    "pool": "${loop}",
    "text": "a",
}


@pytest.mark.parametrize(
    ("text", "result"),
    [("plain", "plain"), ("${HOME}", "/root"), ("${app.region}", "EU"), ("${region}", "EU"),
     ("${size}", "5"), ("${app.on}", "true"), ("[${none}]", "[]"), ("${nested.x}", "EU!"),
     ("${jms.client_id}", "c-/root"), ("${a}", "from environment"), ("x-${NO:def}-y", "x-def-y"),
     ("${NO:}", ""), ("${NO:a:b}", "a:b"), ("${NO:${region}}", "EU"), ("${NO:${NO2:z}}", "z"),
     ("${app.${WHICH}}", "EU"), ("${NO:tcp://h:1}", "tcp://h:1"), (r"\${HOME}", "${HOME}"),
     (r"a\${b}${HOME}", "a${b}/root"), ("${RAW}", "${HOME}"), ("$HOME {x}", "$HOME {x}"),
     ("${ app.region }", "EU")],
)  # fmt: skip
def test_placeholders(text: str, result: str) -> None:
    environ = {"HOME": "/root", "WHICH": "region", "a": "from environment", "RAW": "${HOME}"}
    assert Placeholders(VALUES, environ).resolve(text) == result


def test_a_placeholder_alone_keeps_the_type() -> None:
    placeholders = Placeholders(VALUES, {})
    assert placeholders.value("${size}") == 5
    assert placeholders.value("${app.on}") is True
    assert placeholders.value("${none}") is None
    assert placeholders.value("${size}${size}") == "55"


@pytest.mark.parametrize(
    ("text", "reason"),
    [("${NO}", r"\$\{NO\} is unknown"), ("${loop}", "refers to itself: loop -> pool -> loop"),
     ("${NO", "lacks a closing }"), ("${jms}", "unknown"), ("${jms.list}", "unknown"),
     ("${big}", "characters")],
)  # fmt: skip
def test_bad_placeholders(text: str, reason: str) -> None:
    values = {**VALUES, "big": "${long}" * 20, "long": "x" * 10_000}
    with pytest.raises(ConfigurationException, match=reason):
        Placeholders(values, {}).resolve(text)


def test_expand_names_the_place() -> None:
    document = parsed("a: 1\nb:\n  - ok\n  - c: ${NO}", "app.yaml")
    with pytest.raises(ConfigurationException) as caught, raised() as problems:
        expand(document, {}, problems)
    assert str(caught.value).startswith("app.yaml:4: b[1].c: ${NO} is unknown (set the environment")
    assert (caught.value.source, caught.value.line) == ("app.yaml", 4)


def test_expand_reaches_everything() -> None:
    document = parsed("n: 5\na: ['${n}', 1]\nb: {c: '${n}s'}", "app.yaml")
    with raised() as problems:
        expanded = expand(document, {}, problems)
        assert expand(Document(), {}, problems) == Document({})
    assert expanded.values == {"n": 5, "a": [5, 1], "b": {"c": "5s"}}
