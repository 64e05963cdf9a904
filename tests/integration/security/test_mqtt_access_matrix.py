"""Every operation of every role over MQTT. (activemq-edges SE4, SE5)"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from pyjms.wire.mqtt import Ack, Connect, Disconnect, Filter, Publish, SubAck, Subscribe, Will
from tests.kit.brokers.access_matrix import (
    ADMIN,
    DESTINATIONS,
    READ,
    RIGHTS,
    ROLES,
    USERS,
    WRITE,
    verb_of,
)
from tests.kit.mqtt.client import MqttBroker, MqttClient, StartMqtt, texts

READS, WRITES, CREATES = ("read from", READ), ("write to", WRITE), ("create", ADMIN)
NOTHING = ("read from", "nobody")
VIRTUAL = "?transport.subscriptionStrategy=mqtt-virtual-topic-subscriptions"
NOT_AUTHORIZED = 0x87
Ask = Callable[[MqttClient, str], Awaitable[str]]


async def log_in(mqtt: MqttBroker, role: str, will: Will | None = None) -> MqttClient:
    """Connect by 5.0, which tells the reasons of refusals, with a session that is kept."""
    client = await mqtt.open(5)
    kept = {"session_expiry_interval": 100}
    await client.send(Connect(role, 5, False, 0, will, role, b"secret", kept))
    assert (await client.next()).code == 0  # type: ignore[union-attr]
    return client


def publish(topic: str, qos: int = 1, *, retain: bool = False) -> Ask:
    async def ask(client: MqttClient, role: str) -> str:
        await client.send(Publish(topic.format(role), b"x", qos, retain, packet_id=9 if qos else 0))
        if not qos:
            await client.send(Publish("open", b"x", 1, packet_id=9))
        answer = await client.next()
        assert isinstance(answer, Ack | Disconnect)
        if not answer.code:
            return "allowed"
        assert answer.code == NOT_AUTHORIZED
        return str(answer.properties["reason_string"])

    return ask


def subscribe(text: str, qos: int = 0) -> Ask:
    async def ask(client: MqttClient, role: str) -> str:
        await client.send(Subscribe(9, [Filter(text.format(role), qos)]))
        (code,) = (await client.receive(SubAck)).codes
        return "allowed" if code == qos else f"code {code:#x}"

    return ask


OPERATIONS: dict[str, tuple[Ask, tuple[tuple[str, str], ...]]] = {
    "publish with QoS 0": (publish("M/t", 0), (WRITES,)),
    "publish with QoS 1": (publish("M/t"), (WRITES,)),
    "publish with QoS 2": (publish("M/t", 2), (WRITES,)),
    "retain a message": (publish("M/t", retain=True), (WRITES,)),
    "publish to a new topic": (publish("M/new/{}"), (WRITES, CREATES)),
    "publish to a virtual topic": (publish("VirtualTopic/M/v"), (WRITES,)),
    "publish an advisory": (publish("ActiveMQ/Advisory/FULL/{}"), (WRITES, CREATES)),
    "publish where all may": (publish("open"), ()),
    "subscribe": (subscribe("M/t"), (READS,)),
    "subscribe durably": (subscribe("M/t", 1), (READS,)),
    "subscribe to a new topic": (subscribe("M/new/{}"), (READS, CREATES)),
    "subscribe to a new topic durably": (subscribe("M/new/{}", 2), (READS, CREATES)),
    "subscribe to a pattern": (subscribe("M/#"), (READS,)),
    "subscribe to a pattern durably": (subscribe("M/#", 1), (READS,)),
    "subscribe to all": (subscribe("#"), (NOTHING,)),
    "subscribe to advisories": (subscribe("ActiveMQ/Advisory/FULL/{}"), (READS, CREATES)),
    "subscribe where all may": (subscribe("open", 1), ()),
}
OF_VIRTUAL_TOPICS: dict[str, tuple[Ask, tuple[tuple[str, str], ...]]] = {
    "publish": (publish("M/v"), (WRITES,)),
    "publish past the queues' names": (publish("VirtualTopic/M/v"), (WRITES,)),
    "subscribe": (subscribe("M/v"), (READS,)),
    "subscribe by a queue": (subscribe("M/v", 1), (READS, CREATES)),
    "subscribe by a shared queue": (subscribe("$share/A/M/v", 1), (READS,)),
    "subscribe by a new shared queue": (subscribe("$share/{}/M/v", 1), (READS, CREATES)),
}


async def check(mqtt: MqttBroker, ask: Ask, needs: tuple[tuple[str, str], ...]) -> None:
    for role, rights in ROLES.items():
        refusal = next((verb for verb, right in needs if right not in rights), None)
        answer = await ask(await log_in(mqtt, role), role)
        if refusal is None:
            assert answer == "allowed", role
        elif answer.startswith("code"):  # SUBACK tells no more
            assert answer == f"code {NOT_AUTHORIZED:#x}", role
        else:
            assert verb_of(role, answer) == refusal, role


@pytest.mark.fact("mqtt-connector M64", "mqtt-connector M71", "mqtt-connector M142")
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_each_role_may_do_what_its_rights_say(mqtt_broker: StartMqtt, operation: str) -> None:
    async with mqtt_broker(plugins=[USERS, RIGHTS], destinations=DESTINATIONS) as mqtt:
        await check(mqtt, *OPERATIONS[operation])


@pytest.mark.fact("mqtt-connector M101", "mqtt-connector M144")
@pytest.mark.parametrize("operation", OF_VIRTUAL_TOPICS)
async def test_virtual_topics_need_the_rights_on_their_queues(
    mqtt_broker: StartMqtt, operation: str
) -> None:
    async with mqtt_broker(VIRTUAL, plugins=[USERS, RIGHTS], destinations=DESTINATIONS) as mqtt:
        await check(mqtt, *OF_VIRTUAL_TOPICS[operation])


@pytest.mark.fact("mqtt-connector M64", "mqtt-connector M71")
@pytest.mark.parametrize("level", [3, 4])
async def test_former_versions_end_or_refuse(mqtt_broker: StartMqtt, level: int) -> None:
    async with mqtt_broker(plugins=[USERS, RIGHTS], destinations=DESTINATIONS) as mqtt:
        for role, rights in ROLES.items():
            client = await mqtt.open(level)
            assert (await client.connect(role, login=(role, "secret"))).code == 0
            refused = 0x80 if level == 4 else 1
            assert await client.subscribe("M/t", qos=1) == [1 if READ in rights else refused], role
            await client.send(Publish("M/t", b"", 1, packet_id=9))
            if WRITE in rights:
                await client._answer(Ack)
            else:
                assert await client.closed(), role


@pytest.mark.fact("mqtt-connector M40")
async def test_only_a_client_that_may_write_leaves_a_will(mqtt_broker: StartMqtt) -> None:
    async with mqtt_broker(plugins=[USERS, RIGHTS], destinations=DESTINATIONS) as mqtt:
        watcher = await log_in(mqtt, "root")
        await watcher.subscribe("M/t")
        for role in ROLES:
            if role != "root":
                client = await log_in(mqtt, role, Will("M/t", role.encode()))
                await client.lose()
        writers = {role for role, rights in ROLES.items() if WRITE in rights} - {"root"}
        found = texts(await watcher.messages(len(writers)))
        assert {text for _, text in found} == writers
        await watcher.nothing_comes()
