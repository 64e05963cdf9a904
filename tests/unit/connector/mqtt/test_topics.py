"""Names of topics, and packet ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.jms.destination import Queue, Topic
from pyjms.wire.mqtt import Filter
from pyjms.wire.openwire.commands import ConsumerId, ConsumerInfo, MessageId, ProducerId
from pyjms_broker.connector.mqtt.deliveries import Subscription
from pyjms_broker.connector.mqtt.sessions import KeptSessions
from pyjms_broker.connector.mqtt.state import Sent, SessionState
from pyjms_broker.connector.mqtt.topics import STRATEGIES, exchange, unusable

DEFAULT, VIRTUAL = STRATEGIES.values()
CONSUMER = Subscription(
    Filter("k"), [], ConsumerInfo(ConsumerId("ID:c", 1, 1), destination=Topic("k"))
)
STORED, REFUSED = (MessageId(None, ProducerId("ID:p", 1, 1), number) for number in (1, 2))


@pytest.mark.fact("mqtt-connector M50")
@pytest.mark.parametrize(("text", "name"), [("a/b.c", "a.b/c"), ("+/#", "*.>"), ("*>", "+#")])
def test_characters_are_exchanged(text: str, name: str) -> None:
    assert exchange(text) == name
    assert exchange(name) == text


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).map(str.strip))
def test_every_usable_topic_comes_back(text: str) -> None:
    if unusable(text) is None:
        assert DEFAULT.text(DEFAULT.topic(text)) == text


@pytest.mark.fact("mqtt-connector M100", "mqtt-connector M101")
def test_places_of_virtual_topics() -> None:
    assert VIRTUAL.topic("a/b") == Topic("VirtualTopic.a.b")
    assert VIRTUAL.topic("VirtualTopic/a") == Topic("VirtualTopic.a")
    assert VIRTUAL.place("c", "a/#", 1, kept=True).destination == Queue(
        "Consumer.c:AT_LEAST_ONCE.VirtualTopic.a.>"
    )
    for qos, kept in ((0, True), (1, False)):
        assert VIRTUAL.place("c", "a", qos, kept=kept).destination == Topic("VirtualTopic.a")


@pytest.mark.fact("mqtt-connector M82", "mqtt-connector M84")
def test_packet_ids_are_used_once_until_they_are_free() -> None:
    state = SessionState("c")
    for number in range(1, 65536):
        assert state.free_id() == number
        state.add(number, Sent("k", MessageId(f"ID:{number}"), 1, CONSUMER, None))
    assert state.free_id() == 0
    state.remove(77)
    assert state.free_id() == 77
    state.add(77, Sent("k", MessageId("ID:77"), 1, CONSUMER, None))
    assert state.find("k", MessageId("ID:77")) == 0
    state.end_connection([])
    assert state.find("k", MessageId("ID:77")) == 77
    assert state.find("other", MessageId("ID:77")) == 0


@pytest.mark.fact("mqtt-connector M62")
def test_a_message_that_was_refused_at_the_end_may_come_again() -> None:
    state = SessionState()
    state.received = {1: None, 2: STORED, 3: REFUSED}
    state.end_connection([REFUSED])
    assert state.received == {1: None, 2: None}


def test_the_number_of_sessions_of_absent_clients_is_limited() -> None:
    kept = KeptSessions()
    present = kept.keep("present")
    for number in range(10_000):
        kept.keep(f"c{number}")
        kept.expire_later(f"c{number}", 100)
    assert kept.get("c0") is not None
    kept.keep("one more")
    kept.expire_later("one more", 100)
    assert kept.get("c0") is None
    assert kept.get("c1") is not None
    assert kept.get("present") is present
    assert kept.expired_clients() == []


def test_the_memory_of_sessions_of_absent_clients_is_limited() -> None:
    kept = KeptSessions()
    for number in range(100):
        state = kept.keep(f"c{number}")
        state.received = dict.fromkeys(range(10_000))
        kept.expire_later(f"c{number}", 100)
    remembered = [number for number in range(100) if kept.get(f"c{number}") is not None]
    assert 20 < len(remembered) < 60
    assert remembered[-1] == 99
