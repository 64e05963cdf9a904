"""JSON bodies are indented, and nothing else of them is changed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms_broker.console.model.messages import indent_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_objects_and_arrays_have_a_line_for_each_member() -> None:
    text = '{"id":7,"items":[1,{"a":{}}],"none":[ ],"price":1.10,"id":8e2}'
    assert indent_json(text) == (
        '{\n  "id": 7,\n  "items": [\n    1,\n    {\n      "a": {}\n    }\n  ],\n'
        '  "none": [],\n  "price": 1.10,\n  "id": 8e2\n}'
    )


@given(VALUES.map(lambda value: [value]), st.sampled_from([None, 0, 3]))
def test_the_value_and_its_characters_stay(value: list[object], indent: int | None) -> None:
    written = json.dumps(value, indent=indent)
    shown = indent_json(written)
    assert shown is not None
    assert json.loads(shown) == value
    assert "".join(shown.split()) == "".join(written.split())
    assert indent_json(shown) == shown


@pytest.mark.parametrize(
    "text",
    ["", "order 5", "5", '"text"', "{a: 1}", '{"a": 1', "[1,]", "[1] x", "<a/>", '{"a" "b"}'],
)
def test_other_texts_are_not_json(text: str) -> None:
    assert indent_json(text) is None


@pytest.mark.parametrize("text", ["[" * 50_000 + "]" * 50_000, "[" * 800 + "]" * 800])
def test_deep_nesting_stays_as_it_is(text: str) -> None:
    shown = indent_json(text)
    assert shown is None or len(shown) < 2_000_000


def test_text_that_would_become_too_long_stays_as_it_is() -> None:
    group = "[" * 400 + "1" + "]" * 400
    assert indent_json("[" + ",".join([group] * 40) + "]") is None
