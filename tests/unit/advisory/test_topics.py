"""The names of advisory topics, and who listens to them."""

from __future__ import annotations

import pytest

from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.wire.openwire.commands import ConsumerId, ConsumerInfo
from pyjms_broker.advisory import topics
from pyjms_broker.advisory.audience import Audience


@pytest.mark.parametrize(
    ("destination", "kind", "lasting"),
    [
        (Queue("a.b"), "Queue", "Queue"),
        (Topic("a.b"), "Topic", "Topic"),
        (TemporaryQueue("a.b"), "TempQueue", "Queue"),
        (TemporaryTopic("a.b"), "TempTopic", "Topic"),
    ],
)
def test_names_say_what_they_are_about(destination: Destination, kind: str, lasting: str) -> None:
    a = "ActiveMQ.Advisory."
    assert topics.destination_topic(destination) == Topic(a + kind)
    assert topics.consumer_topic(destination) == Topic(f"{a}Consumer.{lasting}.a.b")
    assert topics.producer_topic(destination) == Topic(f"{a}Producer.{lasting}.a.b")
    assert topics.expired_topic(destination) == Topic(f"{a}Expired.{lasting}.a.b")
    assert topics.about("SlowConsumer", destination) == Topic(f"{a}SlowConsumer.{kind}.a.b")
    everything = topics.topics_about(destination)
    assert topics.consumer_topic(destination) in everything
    assert topics.about("MessageDLQd", destination) in everything
    assert len(everything) == len(set(everything))


def test_a_comma_in_a_name_does_not_make_a_composite_topic() -> None:
    name = topics.consumer_topic(Queue("a,b")).physical_name
    assert name == "ActiveMQ.Advisory.Consumer.Queue.a&sbquo;b"
    assert topics.producer_topic(None) == Topic("ActiveMQ.Advisory.Producer.Anonymous")


def test_advisory_topics_are_told_by_their_prefix() -> None:
    assert topics.is_advisory_topic(Topic("ActiveMQ.Advisory.Connection"))
    assert topics.is_advisory_topic(Topic("x,ActiveMQ.Advisory.TempQueue"))
    assert not topics.is_advisory_topic(Topic("x,y"))
    assert not topics.is_advisory_topic(Queue("ActiveMQ.Advisory.Connection"))
    assert not topics.is_advisory_topic(Topic(">"))
    assert not topics.is_advisory_topic(None)


def info(number: int, destination: Destination | None) -> ConsumerInfo:
    return ConsumerInfo(ConsumerId("c", 1, number), destination=destination)


def test_the_audience_is_who_may_get_advisories_and_nobody_else() -> None:
    audience = Audience()
    connection, queue = Topic(topics.CONNECTION), Topic("ActiveMQ.Advisory.Queue")
    audience.add(info(1, Topic("plain")))
    audience.add(info(2, Queue(">")))
    audience.add(info(3, None))
    audience.add(ConsumerInfo(None, destination=Topic(">")))
    assert not audience.hears(connection)
    audience.add(info(4, Topic("x,ActiveMQ.Advisory.Connection")))
    assert audience.hears(connection)
    assert not audience.hears(queue)
    audience.add(info(5, Topic(">")))
    assert audience.hears(queue)
    audience.remove(ConsumerId("c", 1, 5))
    audience.remove(ConsumerId("c", 1, 1))
    audience.remove(None)
    assert audience.hears(connection)
    assert not audience.hears(queue)


def test_the_audience_keeps_a_bounded_number_of_answers() -> None:
    audience = Audience()
    audience.add(info(1, Topic("ActiveMQ.Advisory.Consumer.>")))
    for n in range(2500):
        assert audience.hears(topics.consumer_topic(Queue(f"q{n}")))
    assert len(audience._cache) <= 1000
