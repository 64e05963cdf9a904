"""What the real ActiveMQ 5.17.2 answers, asked of our selectors.

`activemq_5_17_2.jsonl` was measured with its SelectorParser on one message; ERROR is an
exception while evaluating, which makes its broker treat the message as not selected.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyjms.errors import InvalidSelectorException
from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms.selector import Selector, compile_selector
from tests.kit.data import spring_oracle

MEASURED = Path(__file__).with_name("activemq_5_17_2.jsonl")

MESSAGE: dict[str, object] = {
    "colour": "red", "name": "50%_x'y", "i": 10, "l": Long(10), "d": 2.5, "f": Float(2.5),
    "b": Byte(3), "s": Short(5), "yes": True, "no": False, "num": "10", "multi": "a\nb",
    "c": Char("x"), "f01": Float(0.10000000149011612), "big": 2**31 - 1, "lbig": Long(2**63 - 1),
    "empty": "", "tr": "true", "dn": "2.5", "l53": Long(2**53 + 1), "neg": -7, "bang": "5!0",
    "bang2": "5!!0", "nz": -0.0, "numsp": " 10 ", "huge": "3000000000", "plus": "+10",
    "JMSType": "car", "JMSPriority": 7, "JMSDeliveryMode": "NON_PERSISTENT", "JMSTimestamp": 0,
    "JMSXDeliveryCount": 1, "JMSRedelivered": False, "JMSExpiration": 0,
    "JMSDestination": "queue://foo.bar", "JMSReplyTo": "topic://r",
    "JMSActiveMQBrokerInTime": 0, "JMSXGroupSeq": 0, "JMSXGroupFirstForConsumer": False,
}  # fmt: skip

OURS = {
    # XPath over bodies is refused with a sentence.
    "XPATH '//a'": "INVALID", "XQUERY 'a'": "INVALID",
    # A literal beyond a long, which ActiveMQ finds equal to itself only.
    "9223372036854775808 > lbig": "TRUE", "i < 9223372036854775808": "TRUE",
    "d < 9223372036854775808": "TRUE",
    # JMS allows every Java letter in names.
    "ä IS NULL": "TRUE",
    # Minus zero is zero.
    "nz = 0": "TRUE", "nz = 0.0": "TRUE", "nz < 0": "FALSE",
    # ActiveMQ fails on these while evaluating; we have a sensible answer.
    "REGEX('[', colour)": "INVALID",
    "REPLACE(missing, 'r', 'b') IS NULL": "TRUE",
    "INLIST(MAKELIST(missing), missing)": "TRUE",
    "convert_string_expressions:yes = 'true'": "TRUE",
    "convert_string_expressions:yes = 'x'": "FALSE",
    "convert_string_expressions:no = 'x'": "TRUE",
    "convert_string_expressions:TRUE = tr": "TRUE",
    "convert_string_expressions:yes = tr": "TRUE",
    "f = 2.5 AND 2.5 = f": "TRUE",
}  # fmt: skip
"""Where we differ, knowingly."""

ANSWERS = {True: "TRUE", False: "FALSE", None: "UNKNOWN"}


def answer(text: str, message: dict[str, object]) -> str:
    try:
        selector = Selector(text)
    except InvalidSelectorException:
        return "INVALID"
    value = selector.evaluate(message.get)
    assert selector.matches(message.get) is (value is True)
    return ANSWERS[value]


def measured() -> list[tuple[str, str]]:
    lines = MEASURED.read_text(encoding="utf-8").splitlines()
    return [(line["selector"], line["result"]) for line in map(json.loads, lines)]


@pytest.mark.parametrize(("text", "expected"), measured(), ids=repr)
def test_measured_selectors(text: str, expected: str) -> None:
    if expected == "ERROR":  # it does not match there, so it must not match here
        expected = "UNKNOWN"
    assert answer(text, MESSAGE) == OURS.get(text, expected)


@pytest.mark.fact("jms-api 8.7")
def test_spring_oracle_selectors() -> None:
    results = spring_oracle()["jms-selectors"]["results"]
    message = {**MESSAGE, "JMSDeliveryMode": "PERSISTENT"}
    wanted = {
        text: OURS.get(text, "INVALID" if result.startswith("!") else result)
        for text, result in results.items()
    }
    assert len(wanted) == 123
    assert {text: answer(text, message) for text in wanted} == wanted


def test_the_cache_gives_the_same_object() -> None:
    assert compile_selector("colour = 'red'") is compile_selector("colour = 'red'")
