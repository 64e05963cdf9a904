"""The answer to a frame comes before the messages that the frame causes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyjms.jms.destination import Queue
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from tests.kit.stomp.client import StartStomp, StompClient

Q = "/queue/orders"
STORED = {"destination": Q, "persistent": "true"}
ONE = {"activemq.prefetchSize": 1}


async def commands(client: StompClient, count: int) -> list[str]:
    return [(await client.receive()).command for _ in range(count)]


@pytest.fixture(params=["in memory", "in a store"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return (
        {}
        if request.param == "in memory"
        else {"persistent": True, "data_directory": str(tmp_path)}
    )


@pytest.mark.fact("activemq-edges ST18")
async def test_of_messages_to_an_own_subscription(
    stomp_broker: StartStomp, settings: dict[str, Any]
) -> None:
    async with stomp_broker(**settings) as broker:
        client = await broker.client()
        await client.subscribe(Q, ack="client")
        for number in range(3):  # not one after another: the answers wait for the store
            await client.send("SEND", {**STORED, "receipt": str(number)}, f"{number}")
        frames = [await client.receive() for _ in range(6)]
        seen = [f.headers.get("receipt-id") or f.body.decode() + "!" for f in frames]
        assert [seen.index(f"{n}") < seen.index(f"{n}!") for n in range(3)] == [True] * 3


@pytest.mark.fact("activemq-edges ST18")
async def test_of_a_commit(stomp_broker: StartStomp, settings: dict[str, Any]) -> None:
    async with stomp_broker(**settings) as broker:
        client = await broker.client()
        await client.subscribe(Q, ack="client")
        await client.done("BEGIN", {"transaction": "t"})
        for _ in range(3):
            await client.send("SEND", {**STORED, "transaction": "t"}, "x")
        await client.send("COMMIT", {"transaction": "t", "receipt": "c"})
        assert await commands(client, 4) == ["RECEIPT", "MESSAGE", "MESSAGE", "MESSAGE"]


@pytest.mark.fact("activemq-edges ST18")
@pytest.mark.parametrize("command", ["ACK", "NACK"])
async def test_of_what_frees_the_window(
    stomp_broker: StartStomp, settings: dict[str, Any], command: str
) -> None:
    async with stomp_broker(**settings) as broker:
        client = await broker.client()
        for _ in range(2):
            await client.done("SEND", STORED, "x")
        await client.subscribe(Q, ack="client", **ONE)
        first = await client.receive("MESSAGE")
        await client.send(command, {"id": first.headers["ack"], "receipt": "a"})
        assert await commands(client, 2) == ["RECEIPT", "MESSAGE"]


@pytest.mark.fact("activemq-edges ST18")
async def test_of_a_commit_that_frees_the_window(
    stomp_broker: StartStomp, settings: dict[str, Any]
) -> None:
    entry = PolicyEntry(destination=Queue("orders"), use_prefetch_extension=False)
    async with stomp_broker(policies=PolicyMap([entry]), **settings) as broker:
        client = await broker.client()
        for _ in range(2):
            await client.done("SEND", STORED, "x")
        await client.send("BEGIN", {"transaction": "t"})
        await client.subscribe(Q, ack="client", **ONE)
        first = await client.receive("MESSAGE")
        await client.done("ACK", {"id": first.headers["ack"], "transaction": "t"})
        await client.send("COMMIT", {"transaction": "t", "receipt": "c"})
        assert await commands(client, 2) == ["RECEIPT", "MESSAGE"]


async def test_a_message_does_not_wait_until_its_other_destinations_have_space(
    stomp_broker: StartStomp,
) -> None:
    full = PolicyEntry(destination=Queue("full"), memory_limit=1)
    async with stomp_broker(policies=PolicyMap([full])) as broker:
        client, other = await broker.client(), await broker.client()
        await client.subscribe(Q)
        await client.done("SEND", {"destination": "/queue/full"}, "x")
        await client.send("SEND", {"destination": f"{Q},/queue/full", "receipt": "waits"}, "y")
        assert (await client.receive()).command == "MESSAGE"
        await other.subscribe("/queue/full")
        assert (await client.receive()).command == "RECEIPT"


async def test_messages_of_others_do_not_wait_for_a_send_that_waits_for_space(
    stomp_broker: StartStomp,
) -> None:
    full = PolicyEntry(destination=Queue("full"), memory_limit=1)
    async with stomp_broker(policies=PolicyMap([full])) as broker:
        client, other = await broker.client(), await broker.client()
        await client.subscribe(Q)
        await client.done("SEND", {"destination": "/queue/full"}, "x")
        await client.send("SEND", {"destination": "/queue/full", "receipt": "waits"}, "y")
        for number in range(3):
            await other.done("SEND", {"destination": Q}, str(number))
            assert (await client.receive("MESSAGE")).body == str(number).encode()
        await other.subscribe("/queue/full")
        assert (await client.receive("RECEIPT")).headers["receipt-id"] == "waits"
