"""Logins of MQTT clients. (activemq-edges SE4, SE5)"""

from __future__ import annotations

import pytest

from tests.kit.brokers.security import simple, user
from tests.kit.mqtt.client import StartMqtt

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
