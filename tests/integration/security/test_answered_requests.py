"""Requests that the broker answers itself need rights, however their destination is named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from pyjms.errors import JMSSecurityException
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.wire.openwire.commands import BrokerInfo, BrokerSubscriptionInfo, ConnectionInfo
from pyjms.wire.openwire.primitives import encode_map, encode_text
from pyjms_broker.api.access import RANGES
from pyjms_broker.management.statistics import StatisticsBrokerPlugin
from pyjms_broker.plugins.path_separator import DestinationPathSeparatorPlugin
from pyjms_broker.settings.security import AuthorizationSettings
from tests.kit.brokers.security import SecuredBroker, StartSecured, simple, user
from tests.kit.clients.raw import RawClient

USERS = simple(user("root", "admins"), user("guest", "guests"))


def entry(destination: str, groups: str) -> dict[str, str]:
    return {"destination": destination, "read": groups, "write": groups, "admin": groups}


RIGHTS = AuthorizationSettings.model_validate(
    {
        "entries": [
            *(entry(name, "admins") for name in (">", "topic://>")),
            *(entry(name, "guests") for name in ("pub.>", "topic://pub.>")),
            entry("topic://ActiveMQ.Advisory.>", "*"),
        ]
    }
)
STATISTICS = StatisticsBrokerPlugin()
ORDERS: dict[str, Sequence[Any]] = {
    "statistics first": (STATISTICS, USERS, RIGHTS),
    "statistics between": (USERS, STATISTICS, RIGHTS),
    "statistics last": (USERS, RIGHTS, STATISTICS),
    "rights first": (RIGHTS, USERS, STATISTICS),
}
BROWSE = {"AMQ_SCHEDULER_ACTION": "BROWSE"}
REMOVE = {"AMQ_SCHEDULER_ACTION": "REMOVEALL"}
RESET = {"ActiveMQ.Statistics.Broker.Reset": True}


async def ask(
    client: RawClient, to: Destination, properties: dict[str, Any], reply_to: Destination
) -> None:
    message = client.text(await client.producer(), to, "")
    message.reply_to, message.marshalled_properties = reply_to, encode_map(properties)
    await client.request(message)


async def schedule(client: RawClient) -> None:
    message = client.text(await client.producer(), Queue("orders"), "secret")
    message.marshalled_properties = encode_map({"AMQ_SCHEDULED_DELAY": 600_000})
    await client.request(message)


async def is_refused(attempt: Any) -> bool:
    try:
        await attempt
    except JMSSecurityException:
        return True
    return False


async def test_the_scheduler_answers_users_with_rights_on_its_topic(secured: StartSecured) -> None:
    async with secured(USERS, RIGHTS, scheduler_support=True) as broker:
        root, guest = await broker.client("root"), await broker.client("guest")
        await schedule(root)
        await guest.consumer(Queue("pub.jobs"))
        for to in (
            *(kind("ActiveMQ.Scheduler.Management") for kind in (Topic, TemporaryTopic)),
            *(kind("activemq.scheduler.MANAGEMENT") for kind in (Topic, TemporaryTopic)),
            TemporaryTopic("ActiveMQ.Scheduler.Management,pub.x"),
            Queue("pub.x,temp-topic://ActiveMQ.Scheduler.Management"),
        ):
            for properties in (BROWSE, REMOVE):
                assert await is_refused(ask(guest, to, properties, Queue("pub.jobs"))), to
        await root.consumer(Queue("jobs"))
        await ask(root, Topic("ActiveMQ.Scheduler.Management"), BROWSE, Queue("jobs"))
        assert (await root.message()).content == encode_text("secret")
        await guest.nothing_dispatched()


@pytest.mark.parametrize("order", ORDERS)
async def test_statistics_need_rights_in_any_order_of_plug_ins(
    secured: StartSecured, order: str
) -> None:
    async with secured(*ORDERS[order]) as broker:
        root, guest = await broker.client("root"), await broker.client("guest")
        await root.send(Queue("orders"), "x")
        await guest.consumer(Queue("pub.answers"))
        for kind in (Queue, Topic, TemporaryQueue, TemporaryTopic):
            for name in ("ActiveMQ.Statistics.Broker", "activemq.statistics.destination.orders"):
                assert await is_refused(ask(guest, kind(name), RESET, Queue("pub.answers")))
        await guest.nothing_dispatched()
        await root.consumer(Queue("answers"))
        await ask(root, Queue("ActiveMQ.Statistics.Destination.orders"), {}, Queue("answers"))
        await root.message()


async def test_a_reply_needs_the_right_to_write_where_it_goes(secured: StartSecured) -> None:
    may_ask = AuthorizationSettings.model_validate(
        {"entries": [entry("ActiveMQ.Statistics.>", "guests"), entry("orders", "admins")]}
    )
    for plugins in ((STATISTICS, USERS, may_ask), (USERS, may_ask, STATISTICS)):
        async with secured(*plugins, destinations=[Queue("orders")]) as broker:
            guest = await broker.client("guest")
            to = Queue("ActiveMQ.Statistics.Broker")
            assert await is_refused(ask(guest, to, {}, Queue("orders")))
            assert broker.broker.queue_statistics("orders").messages == 0


@pytest.mark.parametrize("is_first", [True, False])
async def test_rights_are_those_on_the_converted_names(
    secured: StartSecured, *, is_first: bool
) -> None:
    """An entry for names of one element does not match `secret/pay`, which is `secret.pay`."""
    rights = AuthorizationSettings.model_validate(
        {"entries": [entry("*", "guests"), entry("secret.>", "admins")]}
    )
    separator = DestinationPathSeparatorPlugin()
    plugins = (separator, USERS, rights) if is_first else (USERS, rights, separator)
    async with secured(*plugins) as broker:
        root, guest = await broker.client("root"), await broker.client("guest")
        await root.send(Queue("secret/pay"), "x")
        assert broker.broker.queue_statistics("secret.pay").messages == 1
        assert await is_refused(guest.consumer(Queue("secret/pay")))
        assert await is_refused(guest.send(Queue("secret/pay"), "x"))


async def test_a_lease_is_replaced_by_its_own_user_only(secured: StartSecured) -> None:
    rights = AuthorizationSettings.model_validate(
        {"default_entry": {"read": "*", "write": "*", "admin": "*"}}
    )
    async with secured(USERS, rights) as broker:
        answers = []
        for name in ("root", "guest", "root"):
            client = await broker.client(name)
            reply = TemporaryQueue(f"{client.name}:1")
            await client.destination(reply)
            await client.consumer(reply)
            fields = {"op": "lease", "queue": "orders", "owner": "pipeline"}
            message = client.text(await client.producer(), RANGES, json.dumps(fields))
            message.reply_to = reply
            await client.request(message)
            content = (await client.message()).content
            assert content is not None
            answers.append(json.loads(content[4:]).get("code"))
        assert answers == [None, "leased", None]


async def introduce(broker: SecuredBroker, name: str | None) -> RawClient:
    """Connect as a bridge that asks for durable subscriptions before it logs in."""
    from pyjms.transport.registry import create_transport

    client = RawClient(create_transport(broker.broker.url))
    broker.clients.append(client)
    await client.transport.start()
    client.send_command(
        BrokerInfo(
            broker_name="x",
            network_connection=True,
            network_properties="syncDurableSubs=true\ndynamicOnly=false\n",
        )
    )
    if name is not None:
        await client.request(ConnectionInfo(client.connection_id, client.name, "secret", name))
    return client


@pytest.mark.parametrize(
    ("name", "told"), [(None, None), ("guest", ["pub.news"]), ("root", ["pub.news", "secret.pay"])]
)
async def test_a_bridge_is_told_of_durable_subscriptions_after_its_login_by_its_rights(
    secured: StartSecured, name: str | None, told: list[str] | None
) -> None:
    async with secured(USERS, RIGHTS) as broker:
        root = await broker.client("root")
        for topic in ("secret.pay", "pub.news"):
            await root.consumer(Topic(topic), subscription_name=topic)
        client = await introduce(broker, name)
        if told is None:
            with pytest.raises(Exception, match="had not been registered"):
                await client.destination(Queue("pub.x"))
            assert not any(isinstance(each, BrokerSubscriptionInfo) for each in client.commands)
            return
        answer = await client.heard(BrokerSubscriptionInfo)
        assert isinstance(answer, BrokerSubscriptionInfo)
        infos = [info for info in answer.subscription_infos or () if info is not None]
        assert sorted(str(info.subscription_name) for info in infos) == told
