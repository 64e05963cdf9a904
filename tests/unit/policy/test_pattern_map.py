"""Values by pattern: which a name finds, and with how many comparisons."""

from __future__ import annotations

import pytest

from pyjms.jms.destination import Destination, Queue, Topic
from pyjms_broker.policy.wildcard import PatternMap, matches

PATTERNS = (
    "a", "a.b", "a.b.c", ">", "*", "*.b", "a.*", "a.>", "a.b.>", "a.>.>", "*.>", "a.*.c", "a.>.c",
    "b.>", "1.2.3.4.5.6.7.8.9", "1.2.3.4.5.6.7.8.9.>", "1.2.3.4.5.6.7.8.*", "1.*.3.4.5.6.7.8.9",
)  # fmt: skip
NAMES = ("a", "b", "a.b", "a.b.c", "a.x.c", "b.a", "a.>.c", "c", "1.2.3.4.5.6.7.8.9", "1.2.3.4")


def pattern_map(*patterns: Destination) -> PatternMap[str]:
    made: PatternMap[str] = PatternMap()
    for pattern in patterns:
        made[pattern] = str(pattern)
    return made


@pytest.mark.fact("activemq-broker D5")
@pytest.mark.parametrize("name", NAMES)
def test_a_name_finds_the_patterns_that_match_it(name: str) -> None:
    patterns = [kind(text) for kind in (Queue, Topic) for text in PATTERNS]
    found = dict(pattern_map(*patterns).matching(Queue(name)))
    assert found.keys() == {each for each in patterns if matches(each, Queue(name))}
    assert all(value == str(pattern) for pattern, value in found.items())


def test_only_patterns_with_the_same_beginning_are_compared(matched: list[Destination]) -> None:
    found = pattern_map(*(Queue(f"shop{number}.orders.>") for number in range(100)))
    assert [pattern for pattern, _ in found.matching(Queue("shop7.orders.eu"))] == [
        Queue("shop7.orders.>")
    ]
    assert matched == [Queue("shop7.orders.>")]


def test_a_removed_pattern_is_not_found() -> None:
    found = pattern_map(Queue("a.*"), Queue("a.>"))
    assert found.pop(Queue("a.*")) == "queue://a.*"
    assert found.pop(Queue("a.*")) is None
    assert found.pop(Queue("b.*")) is None
    assert found.get(Queue("a.*")) is None
    assert (len(found), list(found)) == (1, [Queue("a.>")])
    found[Queue("a.>")] = "other"
    assert list(found.matching(Queue("a.b"))) == [(Queue("a.>"), "other")]
    found.pop(Queue("a.>"))
    assert not list(found.matching(Queue("a.b")))
