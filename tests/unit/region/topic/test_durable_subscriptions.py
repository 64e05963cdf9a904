"""Durable topic subscriptions."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.errors import InvalidDestinationException, JMSException
from pyjms.jms.destination import Queue, TemporaryTopic, Topic
from pyjms.wire.openwire.commands import AckType, RemoveSubscriptionInfo
from tests.kit.brokers.region import Broker, Client, ManualClock
from tests.kit.values import present

T = Topic("T")


def subscribe(client: Client, destination: Topic = T, name: str = "s", **options: Any) -> Any:
    return client.consume(destination, subscription_name=name, **options)


@pytest.mark.fact("activemq-broker T16")
def test_the_identity_is_client_id_and_name(broker: Broker) -> None:
    me, you = broker.client("me"), broker.client("you")
    mine = subscribe(me)
    yours = subscribe(you)
    more = subscribe(me, name="t")
    assert len({mine, yours, more}) == 3
    me.close(mine)
    assert subscribe(me) is mine
    nameless = broker.client("x")
    nameless.name = ""
    nameless.context.client_id = None
    with pytest.raises(JMSException, match="client id"):
        subscribe(nameless)
    for wrong in (TemporaryTopic("x:1"), Topic("ActiveMQ.Advisory.Connection")):
        broker.region.add_destination(me.context, wrong, True)
        with pytest.raises(JMSException, match="durable subscription"):
            subscribe(me, wrong, name="u")


@pytest.mark.fact(
    "activemq-broker T17",
    "openwire-encoding 14/unsubscribe while active / subscribe twice",
)
def test_in_use(broker: Broker) -> None:
    subscribe(broker.client("me"))
    other = broker.client("me")
    other._consumers = 5
    with pytest.raises(
        JMSException, match=r"^Durable consumer is in use for client: me and subscriptionName: s$"
    ):
        subscribe(other)


def test_messages_for_an_inactive_subscription_are_kept(broker: Broker) -> None:
    client = broker.client("me")
    client.send(T, "before", persistent=True)
    consumer = subscribe(client)
    client.send(T, "1", persistent=True)
    client.ack(consumer, 0)
    client.close(consumer)
    client.send(T, "2", persistent=True)
    client.send(T, "3", persistent=False)
    again = subscribe(client)
    assert client.received(again) == ["2", "3"]
    store = broker.region.store.topic_message_store(T)
    assert store.subscription_message_count(again.key) == 1
    client.ack(again, 0)
    assert store.message_count == 0
    client.ack(again, 1)
    assert broker.region.system_usage.memory.used == 0


@pytest.mark.fact("activemq-broker T18")
@pytest.mark.parametrize(
    "change", [{"selector": "JMSType <> 'x'"}, {"no_local": True}, {"destination": Topic("other")}]
)
def test_a_changed_subscription_loses_its_backlog(broker: Broker, change: Any) -> None:
    client, sender = broker.client("me"), broker.client()
    client.close(subscribe(client))
    sender.send(T, "lost", persistent=True)
    again = subscribe(client, **change)
    assert client.received(again) == []
    sender.send(again.requested, "new", persistent=True)
    assert client.received(again) == ["new"]
    assert sum(t.statistics.consumers for t in broker.region.destinations().values()) == 1


def test_messages_that_do_not_match_are_acknowledged(broker: Broker) -> None:
    client = broker.client("me")
    client.close(subscribe(client, selector="JMSType = 'a'"))
    client.send(T, "b", persistent=True)
    client.send(T, "a", persistent=True)
    store = broker.region.store.topic_message_store(T)
    assert store.message_count == 1
    assert client.received(subscribe(client, selector="JMSType = 'a'")) == ["a"]


@pytest.mark.fact("activemq-broker T20")
@pytest.mark.parametrize(("last", "counts"), [(-2, [1, 1, 1]), (-1, [0, 0, 0]), (1, [1, 1, 0])])
def test_closing_returns_messages_with_their_counts(broker: Broker, last: int, counts: Any) -> None:
    client = broker.client("me")
    consumer = subscribe(client)
    for text in ("1", "2", "3"):
        client.send(T, text, persistent=True)
    number = (
        last
        if last < 0
        else present(present(client.dispatches[last].message).message_id).broker_sequence_id
    )
    client.close(consumer, number)
    client.send(T, "4", persistent=True)
    client.dispatches.clear()
    again = subscribe(client)
    assert again is consumer
    assert client.received(again) == ["1", "2", "3", "4"]
    assert [d.redelivery_counter for d in client.dispatches] == [*counts, 0]


@pytest.mark.fact(
    "activemq-broker T21",
    "openwire-encoding 14/unknown durable subscription",
    "openwire-encoding 14/unsubscribe while active / subscribe twice",
)
def test_unsubscribe(broker: Broker) -> None:
    client = broker.client("me")
    with pytest.raises(
        InvalidDestinationException,
        match=r"^No durable subscription exists for clientID: me and subscriptionName: s$",
    ):
        client.unsubscribe("s")
    consumer = subscribe(client)
    with pytest.raises(JMSException, match=r"^Durable consumer is in use$"):
        client.unsubscribe("s")
    client.send(T, "1", persistent=True)
    client.close(consumer)
    client.unsubscribe("s")
    store = broker.region.store.topic_message_store(T)
    assert (store.message_count, store.subscriptions()) == (0, [])
    assert broker.topic(T).memory.used == 0
    assert client.received(subscribe(client)) == []


def test_a_wildcard_subscription_joins_later_topics(broker: Broker) -> None:
    client = broker.client("me")
    consumer = subscribe(client, Topic("W.>"))
    client.send(Topic("W.1"), "a", persistent=True)
    client.close(consumer)
    client.send(Topic("W.2"), "b", persistent=True)
    client.dispatches.clear()
    assert client.received(subscribe(client, Topic("W.>"))) == ["a", "b"]


def test_transactions_and_poison(broker: Broker) -> None:
    client = broker.client("me")
    consumer = subscribe(client)
    for text in ("1", "2", "3"):
        client.send(T, text, persistent=True)
    tx = client.begin()
    client.ack(consumer, 0, tx=tx)
    tx.rollback()
    tx = client.begin()
    client.ack(consumer, 0, tx=tx)
    client.close(consumer, -1)
    tx.commit(one_phase=True)
    client.dispatches.clear()
    again = subscribe(client)
    assert client.received(again) == ["2", "3"]
    client.ack(again, 0, kind=AckType.POISON)
    assert broker.texts(Queue("ActiveMQ.DLQ")) == ["2"]


async def test_stored_messages_expire_for_inactive_subscriptions_only(
    clock: ManualClock, broker: Broker
) -> None:
    client = broker.client("me")
    active = subscribe(client, name="active", prefetch=1)
    client.close(subscribe(client, name="offline"))
    client.send(T, "first", persistent=True)
    client.send(T, "expires", persistent=True, expiration=clock.time_ms() + 1000)
    await clock.advance(2)
    broker.topic(T).expire_messages()
    offline = {
        s.key.subscription_name: s for s in broker.region.subscriptions.durable_subscriptions()
    }
    assert offline["offline"].pending_count == 1
    assert active.pending_count == 1


@pytest.mark.fact("activemq-broker D9")
def test_removing_the_topic_removes_the_backlog(broker: Broker) -> None:
    client = broker.client("me")
    consumer = subscribe(client)
    client.close(consumer)
    client.send(T, "lost", persistent=True)
    with pytest.raises(JMSException, match="still has an active subscription"):
        broker.region.remove_destination(client.context, T, 0)
    broker.region.remove_destination(client.context, T, 1)
    assert consumer.pending_count == 0
    client.send(T, "new", persistent=True)
    assert client.received(subscribe(client)) == ["new"]


@pytest.mark.fact("activemq-broker T21")
def test_a_removal_names_the_client_id_and_not_the_connections(broker: Broker) -> None:
    """Whoever may connect may remove what no consumer uses, as in ActiveMQ 5.17."""
    owner, other = broker.client("owner"), broker.client("other")

    def remove(client_id: str | None) -> None:
        info = RemoveSubscriptionInfo(other.context.connection_id, "s", client_id)
        broker.region.remove_subscription(other.context, info)

    subscription = subscribe(owner)
    with pytest.raises(JMSException, match="Durable consumer is in use"):
        remove("owner")
    owner.close(subscription)
    with pytest.raises(InvalidDestinationException, match="clientID: other and subscriptionName"):
        remove("other")
    with pytest.raises(InvalidDestinationException, match="clientID: other and subscriptionName"):
        remove(None)  # ActiveMQ: a NullPointerException
    assert broker.region.store.topic_message_store(T).subscriptions()
    remove("owner")
    assert not broker.region.store.topic_message_store(T).subscriptions()
    other.close(subscribe(other))
    remove(None)
    assert not broker.region.store.topic_message_store(T).subscriptions()
