"""What a remote broker may have a bridge remember."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from pyjms.jms.destination import Queue, Topic
from pyjms.wire.openwire.commands import BrokerId, ConsumerId, ConsumerInfo
from pyjms_broker.connector.base import MAXIMUM_PER_CONNECTION
from pyjms_broker.network.attributes import NetworkConnectorAttributes
from pyjms_broker.network.demand import MAXIMUM_CONSUMERS, BridgeSubscriptions, DemandTable


class Local:
    """The own broker, which accepts everything."""

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        self.asked = 0

    def next_consumer_id(self) -> ConsumerId:
        return ConsumerId("local", 1, next(self.numbers))

    def try_request(self, _command: object, _refused: object = None) -> None:
        self.asked += 1


def consumer(number: int, **fields: object) -> ConsumerInfo:
    info = ConsumerInfo(ConsumerId("remote", 1, number), destination=Queue("q"))
    for name, value in fields.items():
        setattr(info, name, value)
    return info


@pytest.fixture
def local() -> Local:
    return Local()


@pytest.fixture
def subscriptions(local: Local) -> BridgeSubscriptions:
    host = SimpleNamespace(
        broker_name="here",
        broker_id=BrokerId("here"),
        networks=SimpleNamespace(demand=DemandTable()),
    )
    attributes, remote_id = NetworkConnectorAttributes(), BrokerId("there")
    return BridgeSubscriptions(host, attributes, remote_id, local, Local())  # type: ignore[arg-type]


def test_consumers_of_one_destination_are_limited(
    local: Local, subscriptions: BridgeSubscriptions, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(MAXIMUM_CONSUMERS + 10):
        subscriptions.consumer_added(consumer(number))
    (demand,) = subscriptions.all()
    assert len(demand.consumers) == MAXIMUM_CONSUMERS
    assert local.asked == 1
    assert caplog.text.count("its limit") == 1
    subscriptions.consumer_removed(ConsumerId("remote", 1, 5))
    subscriptions.consumer_added(consumer(-1))
    assert len(demand.consumers) == MAXIMUM_CONSUMERS


def test_durable_subscriptions_are_limited(subscriptions: BridgeSubscriptions) -> None:
    topic = Topic("t")
    for number in range(MAXIMUM_CONSUMERS + 10):
        info = consumer(number, destination=topic, client_id="c", subscription_name=f"s{number}")
        subscriptions.consumer_added(info)
    (demand,) = subscriptions.all()
    assert len(demand.durables) == MAXIMUM_CONSUMERS


def test_subscriptions_are_limited(
    local: Local, subscriptions: BridgeSubscriptions, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(MAXIMUM_PER_CONNECTION + 10):
        subscriptions.consumer_added(consumer(number, destination=Queue(f"q{number}")))
    assert local.asked == len(subscriptions.all()) == MAXIMUM_PER_CONNECTION
    assert caplog.text.count("its limit") == 1


def test_patterns_are_limited(subscriptions: BridgeSubscriptions) -> None:
    for number in range(1010):
        subscriptions.consumer_added(consumer(number, destination=Queue(f"q{number}.>")))
    assert len(subscriptions.all()) == 1000
    subscriptions.consumer_added(consumer(-1, destination=Queue("q5.a")))
    assert len(subscriptions.all()) == 1000  # served by the pattern's
    subscriptions.consumer_added(consumer(-2, destination=Queue("other")))
    assert len(subscriptions.all()) == 1001


def test_what_has_ended_is_forgotten(subscriptions: BridgeSubscriptions) -> None:
    for name in ("a.>", "a.b", "a,b"):
        subscriptions.consumer_added(consumer(1, destination=Queue(name)))
        assert len(subscriptions.all()) == 1
        subscriptions.consumer_removed(ConsumerId("remote", 1, 1))
        assert subscriptions.all() == []
