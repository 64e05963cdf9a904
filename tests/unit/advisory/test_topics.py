"""The names of advisory topics, and their consumers."""

from __future__ import annotations

import pytest

from pyjms.jms.destination import (
    Destination,
    Queue,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
    advisory_topic,
)
from pyjms.wire.openwire.commands import ConsumerId, ConsumerInfo
from pyjms_broker.filters import advisories as topics
from pyjms_broker.filters.advisories import AdvisoryConsumers
from pyjms_broker.policy.entry import PolicyMap


@pytest.mark.parametrize(
    ("destination", "kind", "lasting"),
    [
        (Queue("a.b"), "Queue", "Queue"),
        (Topic("a.b"), "Topic", "Topic"),
        (TemporaryQueue("a.b"), "TempQueue", "Queue"),
        (TemporaryTopic("a.b"), "TempTopic", "Topic"),
    ],
)
def test_the_names_of_advisory_topics(destination: Destination, kind: str, lasting: str) -> None:
    a = "ActiveMQ.Advisory."
    assert topics.destination_topic(destination) == Topic(a + kind)
    assert topics.consumer_topic(destination) == Topic(f"{a}Consumer.{lasting}.a.b")
    assert topics.producer_topic(destination) == Topic(f"{a}Producer.{lasting}.a.b")
    assert advisory_topic("Expired", destination) == Topic(f"{a}Expired.{lasting}.a.b")
    assert advisory_topic("SlowConsumer", destination) == Topic(f"{a}SlowConsumer.{kind}.a.b")
    everything = topics.topics_about(destination)
    assert topics.consumer_topic(destination) in everything
    assert advisory_topic("MessageDLQd", destination) in everything
    assert len(everything) == len(set(everything))


def test_a_comma_in_a_name_does_not_make_a_composite_topic() -> None:
    name = topics.consumer_topic(Queue("a,b")).physical_name
    assert name == "ActiveMQ.Advisory.Consumer.Queue.a&sbquo;b"
    assert topics.producer_topic(None) == Topic("ActiveMQ.Advisory.Producer.Anonymous")


def test_advisory_topics_are_recognized_by_their_prefix() -> None:
    assert topics.is_advisory_topic(Topic("ActiveMQ.Advisory.Connection"))
    assert topics.is_advisory_topic(Topic("x,ActiveMQ.Advisory.TempQueue"))
    assert not topics.is_advisory_topic(Topic("x,y"))
    assert not topics.is_advisory_topic(Queue("ActiveMQ.Advisory.Connection"))
    assert not topics.is_advisory_topic(Topic(">"))
    assert not topics.is_advisory_topic(None)


def info(number: int, destination: Destination | None) -> ConsumerInfo:
    return ConsumerInfo(ConsumerId("c", 1, number), destination=destination)


def test_only_consumers_of_topics_may_get_advisories() -> None:
    consumers = AdvisoryConsumers(PolicyMap())
    connection, queue = Topic(topics.CONNECTION), Topic("ActiveMQ.Advisory.Queue")
    consumers.add(info(1, Topic("plain")))
    consumers.add(info(2, Queue(">")))
    consumers.add(info(3, None))
    consumers.add(ConsumerInfo(None, destination=Topic(">")))
    assert not consumers.includes(connection)
    consumers.add(info(4, Topic("x,ActiveMQ.Advisory.Connection")))
    assert consumers.includes(connection)
    assert not consumers.includes(queue)
    consumers.add(info(5, Topic(">")))
    assert consumers.includes(queue)
    consumers.remove(ConsumerId("c", 1, 5))
    consumers.remove(ConsumerId("c", 1, 1))
    consumers.remove(None)
    assert consumers.includes(connection)
    assert not consumers.includes(queue)


def test_many_consumers_of_the_same_topics_are_one_comparison(matched: list[Destination]) -> None:
    """All Java clients consume from the same topics: connecting them costs the same for each."""
    consumers = AdvisoryConsumers(PolicyMap())
    for number in range(100):
        consumers.add(info(number, Topic("ActiveMQ.Advisory.TempQueue,ActiveMQ.Advisory.Queue")))
    assert consumers.includes(Topic("ActiveMQ.Advisory.Queue"))
    assert not consumers.includes(topics.consumer_topic(Queue("q")))
    for number in range(99):
        consumers.remove(ConsumerId("c", 1, number))
    assert consumers.includes(Topic("ActiveMQ.Advisory.Queue"))
    assert matched == [Topic("ActiveMQ.Advisory.Queue")]
