"""Message groups."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.jms.destination import Queue
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.policy.entry import PolicyEntry
from pyjms_broker.region.message_groups import (
    BucketMessageGroupMap,
    CachedMessageGroupMap,
    SimpleMessageGroupMap,
    message_group_map,
)
from tests.kit.brokers.region import Broker, Client
from tests.kit.values import present

Q = Queue("Q")


def first_flags(client: Client, consumer: Subscription) -> Any:
    return [
        present(d.message).jms_xgroup_first_for_consumer for d in client.dispatches_of(consumer)
    ]


@pytest.mark.fact("activemq-broker Q23")
def test_a_group_stays_with_its_owner_even_if_it_is_full(client: Client) -> None:
    first = client.consume(Q, prefetch=2)
    second = client.consume(Q)
    for text in ("1", "2", "3"):
        client.send(Q, text, group="A")
    client.send(Q, "other")
    assert client.received(first) == ["1", "2"]
    assert client.received(second) == ["other"]
    client.ack(first, 0)
    assert client.received(first) == ["1", "2", "3"]


@pytest.mark.parametrize("strict", [False, True])
def test_a_consumer_that_joins_gets_the_next_group(make_broker: type[Broker], strict: bool) -> None:
    client = make_broker(PolicyEntry(strict_order_dispatch=strict)).client()
    first = client.consume(Q)
    for group in ("A", "B"):
        client.send(Q, group, group=group)
    second = client.consume(Q)
    client.send(Q, "C", group="C")
    assert client.received(first) == ["A", "B"]
    assert client.received(second) == ["C"]


@pytest.mark.fact("activemq-broker Q24")
def test_the_first_message_is_marked_after_each_assignment(client: Client) -> None:
    first = client.consume(Q)
    client.send(Q, "1", group="A")
    client.send(Q, "2", group="A")
    assert first_flags(client, first) == [True, False]
    client.close(first)
    second = client.consume(Q)
    client.send(Q, "3", group="A")
    assert client.received(second) == ["1", "2", "3"]
    assert first_flags(client, second) == [True, False, False]


@pytest.mark.fact("activemq-broker Q25")
def test_sequence_one_reassigns_and_a_negative_one_closes_the_group(client: Client) -> None:
    first, second = client.consume(Q), client.consume(Q)
    client.send(Q, "1", group="A", group_sequence=1)
    client.send(Q, "x")
    client.send(Q, "2", group="A", group_sequence=2)
    assert client.received(first) == ["1", "2"]
    client.send(Q, "3", group="A", group_sequence=1)  # stolen by whose turn it is: fewer groups
    client.send(Q, "4", group="A", group_sequence=5)
    assert client.received(second) == ["x", "3", "4"]
    client.send(Q, "5", group="A", group_sequence=-1)
    assert client.received(second) == ["x", "3", "4", "5"]
    client.send(Q, "6", group="A", group_sequence=6)  # free: whose turn it is
    assert client.received(first) == ["1", "2", "6"]
    client.send(Q, "7", group="N", group_sequence=-1)  # unowned: makes an owner and leaves it
    client.send(Q, "8", group="N", group_sequence=2)
    assert client.received(second) == ["x", "3", "4", "5", "7", "8"]


@pytest.mark.fact("activemq-broker Q26")
def test_groups_of_a_removed_owner_are_free_and_new_consumers_get_none(client: Client) -> None:
    first = client.consume(Q)
    client.send(Q, "1", group="A")
    second = client.consume(Q)
    client.send(Q, "2", group="A")
    assert client.received(first) == ["1", "2"]
    client.send(Q, "3", group="B")  # second has fewer groups
    assert client.received(second) == ["3"]
    client.close(first, -1)
    assert client.received(second) == ["3", "1", "2"]
    client.send(Q, "4", group="A")
    assert client.received(second) == ["3", "1", "2", "4"]


@pytest.mark.fact("activemq-broker Q27", "activemq-broker 2.1/messageGroupMapFactoryType")
def test_the_kinds_of_maps(make_broker: type[Broker]) -> None:
    cached = message_group_map("cached")
    assert isinstance(cached, CachedMessageGroupMap)
    assert cached.cache_size == 1024
    bucket = message_group_map("bucket")
    assert isinstance(bucket, BucketMessageGroupMap)
    assert (bucket.bucket_count, bucket.cache_size) == (1024, 64)
    small = message_group_map("bucket?bucketCount=16&cacheSize=2")
    assert isinstance(small, BucketMessageGroupMap)
    assert (small.bucket_count, small.cache_size) == (16, 2)
    assert isinstance(message_group_map("simple"), SimpleMessageGroupMap)
    default = message_group_map(PolicyEntry().message_group_map_factory_type)
    assert isinstance(default, CachedMessageGroupMap)
    assert default.cache_size == 1024

    client = make_broker(PolicyEntry(message_group_map_factory_type="cached?cacheSize=1")).client()
    first, second = client.consume(Q), client.consume(Q)
    client.send(Q, "1", group="A")
    client.send(Q, "2", group="B")  # A loses its owner
    client.send(Q, "3", group="A")
    assert client.received(first) == ["1", "3"] or client.received(second) == ["2", "3"]
    assert first_flags(client, first) + first_flags(client, second) == [True] * 3

    client = make_broker(
        PolicyEntry(message_group_map_factory_type="bucket?bucketCount=1")
    ).client()
    first, second = client.consume(Q), client.consume(Q)
    client.send(Q, "1", group="A")
    client.send(Q, "2", group="B")  # the same bucket: the same owner
    assert client.received(first) == ["1", "2"]
    client.send(Q, "3", group="B", group_sequence=-1)  # closes A too
    client.send(Q, "4", group="A")
    assert client.received(second) == ["4"]

    client = make_broker(PolicyEntry(message_group_map_factory_type="simple")).client()
    first, second = client.consume(Q), client.consume(Q)
    for number in range(3000):
        client.send(Q, "x", group=f"G{number}")
    assert len(client.received(first)) <= 1500
    client.send(Q, "again", group="G0")
    assert "again" not in client.received(second)


@pytest.mark.parametrize("kind", ["cached", "simple", "bucket?cacheSize=2"])
def test_owners_are_listed(client: Client, kind: str) -> None:
    owner, other = client.consume(Q), client.consume(Q)
    groups = message_group_map(kind)
    for name in ("a", "b"):
        assert groups.put(name, owner) is None
    assert groups.put("c", other) is None
    shown = {"a": owner, "b": owner, "c": other}
    if kind.startswith("bucket"):
        del shown["a"]
    assert groups.owners() == shown
    assert groups.remove_owner(owner) == 2
    assert groups.owners() == {"c": other}
    assert groups.remove("c") is other
    assert groups.remove("c") is None


@pytest.mark.parametrize("text", ["cache", "cached?size=1", "bucket?bucketCount=x", "simple?a=1"])
def test_an_invalid_group_map_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="message_group_map_factory_type"):
        message_group_map(text)


@pytest.mark.fact("activemq-broker Q28")
def test_browsers_own_no_group(client: Client) -> None:
    browser = client.consume(Q, browser=True)
    consumer = client.consume(Q, priority=-3)
    client.send(Q, "1", group="A")
    client.send(Q, "2", group="A")
    assert client.received(browser) == [None]
    assert client.received(consumer) == ["1", "2"]


@pytest.mark.parametrize("kind", ["cached", "simple", "bucket"])
def test_half_of_a_surrogate_pair_is_a_group_as_any_other(
    make_broker: type[Broker], kind: str
) -> None:
    client = make_broker(PolicyEntry(message_group_map_factory_type=kind)).client()
    consumer = client.consume(Q)
    client.send(Q, "1", group="\ud800")
    client.send(Q, "2", group="A")
    client.send(Q, "3", group="\ud800")
    assert client.received(consumer) == ["1", "2", "3"]
