"""Names of destinations: trimmed, qualified, never empty."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.errors import InvalidDestinationException
from pyjms.jms.destination import (
    Destination,
    Queue,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
    named_kind,
    parse_destination,
)

KINDS = {
    "queue://": Queue,
    "topic://": Topic,
    "temp-queue://": TemporaryQueue,
    "temp-topic://": TemporaryTopic,
}


@pytest.mark.fact("activemq-broker D2")
@pytest.mark.parametrize(("prefix", "kind"), KINDS.items())
def test_a_qualified_name_decides_the_kind_and_a_bare_one_leaves_it_to_the_caller(
    prefix: str, kind: Any
) -> None:
    for default in KINDS.values():
        found = parse_destination(f"{prefix} orders.new ", default)
        assert type(found) is kind
        assert (found.physical_name, found.qualified_name) == ("orders.new", f"{prefix}orders.new")
    assert type(parse_destination(" orders ", kind)) is kind
    assert parse_destination(" orders ", kind) == kind("orders")


@pytest.mark.fact("activemq-broker D2")
@pytest.mark.parametrize(
    "name", ["", "  ", "\t\n", "?consumer.exclusive=true", "queue://", "topic:// "]
)
def test_an_empty_name_is_an_error(name: str) -> None:
    with pytest.raises(InvalidDestinationException, match="is empty"):
        parse_destination(name)


@pytest.mark.parametrize("kind", [Queue, Topic, TemporaryQueue, TemporaryTopic])
def test_a_prefix_names_the_kind(kind: type[Destination]) -> None:
    assert named_kind(f"{kind.PREFIX}orders") is kind


@pytest.mark.parametrize("name", ["orders", "a.b:c", "orders?x=http://y", "q://x"[2:], ""])
def test_a_bare_name_has_no_kind(name: str) -> None:
    assert named_kind(name) is None


@pytest.mark.parametrize("name", ["topc://news", "Topic://news", " queue://news", "http://x"])
def test_an_unknown_prefix_is_reported(name: str) -> None:
    with pytest.raises(InvalidDestinationException, match="is not a kind of destination") as raised:
        named_kind(name)
    assert "queue://, " in str(raised.value)
