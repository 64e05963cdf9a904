"""Names of destinations: trimmed, qualified, never empty."""

from __future__ import annotations

import pytest

from pyjms.errors import InvalidDestinationException
from pyjms.jms.destination import (
    Queue,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
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
def test_a_qualified_name_fixes_the_kind_a_bare_one_is_the_callers(prefix, kind) -> None:
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
