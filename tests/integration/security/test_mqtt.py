"""Logins and rights of MQTT clients. (activemq-edges SE4, SE5)"""

from __future__ import annotations

import pytest

from pyjms.wire.mqtt import PUBACK, Ack, Publish
from tests.kit.brokers.access_matrix import (
    ADMIN,
    DESTINATIONS,
    READ,
    RIGHTS,
    ROLES,
    USERS,
    WRITE,
)
from tests.kit.brokers.security import simple, user
from tests.kit.mqtt.client import MqttBroker, MqttClient, StartMqtt

LOGIN = simple(user("alice", password="secret"))


@pytest.mark.fact("mqtt-connector M22", "mqtt-connector M29")
@pytest.mark.parametrize("login", [None, ("alice", "wrong"), ("bob", "secret")])
async def test_an_mqtt_client_logs_in(
    mqtt_broker: StartMqtt, login: tuple[str, str] | None
) -> None:
    async with mqtt_broker(plugins=[LOGIN]) as mqtt:
        client = await mqtt.open()
        assert (await client.connect("me", login=("alice", "secret"))).code == 0
        refused = await mqtt.open()
        assert (await refused.connect("other", login=login)).code == 5
        assert await refused.closed()


@pytest.mark.fact("mqtt-connector M41")
async def test_another_user_takes_no_session_over(mqtt_broker: StartMqtt) -> None:
    users = simple(user("alice", password="secret"), user("bob", password="secret"))
    async with mqtt_broker(plugins=[users]) as mqtt:
        first = await mqtt.open()
        await first.connect("me", login=("alice", "secret"))
        second = await mqtt.open()
        assert (await second.connect("me", login=("bob", "secret"))).code == 2
        await first.nothing_comes()


async def client_of(mqtt: MqttBroker, role: str) -> MqttClient:
    client = await mqtt.open()
    assert (await client.connect(role, clean=False, login=(role, "secret"))).code == 0
    return client


async def may_send(client: MqttClient, topic: str) -> bool:
    await client.send(Publish(topic, b"", 1, packet_id=9))
    try:
        return await client.receive(Ack) == Ack(PUBACK, 9)
    except Exception:  # the broker has ended the connection
        assert await client.closed()
        return False


@pytest.mark.fact("mqtt-connector M64")
@pytest.mark.parametrize(
    ("topic", "needs"),
    [
        ("M/t", {WRITE}),
        ("M/new/{}", {WRITE, ADMIN}),
        ("VirtualTopic/M/v", {WRITE}),
    ],
)  # fmt: skip
async def test_who_may_send(mqtt_broker: StartMqtt, topic: str, needs: set[str]) -> None:
    async with mqtt_broker(plugins=[USERS, RIGHTS], destinations=DESTINATIONS) as mqtt:
        for role, rights in ROLES.items():
            client = await client_of(mqtt, role)
            assert await may_send(client, topic.format(role)) == (needs <= rights), role


@pytest.mark.fact("mqtt-connector M71")
@pytest.mark.parametrize("qos", [0, 1])
async def test_who_may_subscribe(mqtt_broker: StartMqtt, qos: int) -> None:
    async with mqtt_broker(plugins=[USERS, RIGHTS], destinations=DESTINATIONS) as mqtt:
        for role, rights in ROLES.items():
            client = await client_of(mqtt, role)
            code = qos if READ in rights else 0x80
            assert await client.subscribe("M/t", qos=qos) == [code], role
