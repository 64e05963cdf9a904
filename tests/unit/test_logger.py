"""Texts of errors in log lines."""

from __future__ import annotations

import logging

import pytest
from pydantic import BaseModel, ValidationError

from pyjms.runtime.logging import get_logger, one_line, shorten


class Card(BaseModel):
    number: int
    limits: list[int]


def test_a_validation_error_is_one_line_without_the_rejected_values() -> None:
    with pytest.raises(ValidationError) as caught:
        Card.model_validate({"number": "4111-secret", "limits": ["a, input_type=b]", "x\ny"]})
    text = one_line(str(caught.value))
    assert "\n" not in text
    assert "secret" not in text
    assert "input_" not in text
    assert "visit" not in text
    assert text.startswith("3 validation errors for Card number Input should be a valid integer")
    assert text.count("[type=int_parsing]") == 3


def test_a_rejected_value_that_was_cut_is_left_out_too() -> None:
    with pytest.raises(ValidationError) as caught:
        Card.model_validate({"number": "4111-secret", "limits": []})
    text = str(caught.value)
    for longest in range(text.index("secret"), text.index("]") + 1):
        assert "4111" not in one_line(shorten(text, longest))


def test_other_texts_keep_their_words() -> None:
    assert one_line("a\n\tb  c") == "a b c"


def test_a_repr_with_a_line_break_cannot_forge_a_line() -> None:
    class Forger:
        def __str__(self) -> str:
            return "harmless"

        def __repr__(self) -> str:
            return "a\nERROR forged"

    record = logging.LogRecord("n", logging.INFO, "f", 1, "%r", (Forger(),), None)
    get_logger("pyjms.test_repr").filter(record)

    assert "\n" not in record.getMessage()


def test_half_of_a_surrogate_pair_is_escaped() -> None:
    record = logging.LogRecord("n", logging.INFO, "f", 1, "user %s", ("a\ud800",), None)
    get_logger("pyjms.test_surrogate").filter(record)

    assert record.getMessage() == "user a\\ud800"
