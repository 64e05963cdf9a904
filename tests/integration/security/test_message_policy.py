"""A function decides which messages consumers get. (activemq-broker Z5)"""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyjms.jms.destination import Destination, Queue, TemporaryQueue, Topic
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms.wire.openwire.primitives import encode_text
from pyjms_broker.api.access import RANGES
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.plugins.message_authorization import MessageAuthorizationPlugin
from tests.kit.brokers.security import StartSecured, simple, user
from tests.kit.clients.raw import RawClient

USERS = simple(user("admin", "admins"), user("shop", "users"))


def may_consume(context: ConnectionContext, message: ActiveMQMessage) -> bool:
    assert context.security is not None
    assert message.content is not None
    if message.content.endswith(b"broken"):
        raise ValueError("the policy fails")
    return not message.content.endswith(b"secret") or "admins" in context.security.groups


POLICY = MessageAuthorizationPlugin(may_consume)


async def texts(client: RawClient, count: int) -> list[bytes]:
    found = []
    for _ in range(count):
        dispatch = await client.dispatched()
        assert dispatch.message is not None
        assert dispatch.message.content is not None
        found.append(bytes(dispatch.message.content[4:]))
        await client.ack(dispatch)
    await client.nothing_dispatched()
    return found


@pytest.mark.fact("activemq-broker Z5")
@pytest.mark.parametrize("plugins", [(USERS, POLICY), (POLICY, USERS)], ids=["after", "before"])
async def test_a_forbidden_message_stays_for_others(
    secured: StartSecured, plugins: tuple[Any, ...]
) -> None:
    async with secured(*plugins) as broker:
        shop, admin = await broker.client("shop"), await broker.client("admin")
        await shop.consumer(Queue("q"))
        await admin.send(Queue("q"), "1", "secret", "2")
        assert await texts(shop, 2) == [b"1", b"2"]
        await admin.consumer(Queue("q"))
        assert await texts(admin, 1) == [b"secret"]


@pytest.mark.fact("activemq-broker Z5")
@pytest.mark.parametrize("kind", ["topic", "durable", "browser", "pattern"])
async def test_every_kind_of_consumer_is_asked_for(secured: StartSecured, kind: str) -> None:
    destination: Destination = Queue("a.b") if kind == "browser" else Topic("a.b")
    async with secured(USERS, POLICY) as broker:
        shop, admin = await broker.client("shop"), await broker.client("admin")
        fields: dict[str, Any] = {
            "durable": {"subscription_name": "s"},
            "browser": {"browser": True},
        }
        if kind == "browser":
            await admin.send(destination, "1", "secret", "2")
            await shop.consumer(destination, browser=True)
            dispatches = [await shop.dispatched() for _ in range(3)]
            contents = [d.message and bytes(d.message.content or b"")[4:] for d in dispatches]
            assert contents == [b"1", b"2", None]
            return
        consumed = Topic("a.*") if kind == "pattern" else destination
        await shop.consumer(consumed, **fields.get(kind, {}))
        await admin.send(destination, "1", "secret", "2")
        assert await texts(shop, 2) == [b"1", b"2"]


async def test_a_policy_that_fails_allows_nothing(
    secured: StartSecured, caplog: pytest.LogCaptureFixture
) -> None:
    async with secured(USERS, POLICY) as broker:
        shop, admin = await broker.client("shop"), await broker.client("admin")
        await shop.consumer(Queue("q"))
        await admin.send(Queue("q"), "broken", "1", "broken")
        assert await texts(shop, 1) == [b"1"]
    assert caplog.text.count("The message policy has failed") == 1


async def test_range_reads_get_and_remove_only_what_is_allowed(secured: StartSecured) -> None:
    async with secured(USERS, POLICY) as broker:
        shop, admin = await broker.client("shop"), await broker.client("admin")
        await admin.send(Queue("q"), "1", "secret", "2")
        reply = TemporaryQueue(f"{shop.name}:1")
        await shop.destination(reply)
        await shop.consumer(reply)
        producer = await shop.producer()

        async def ask(**fields: object) -> ActiveMQMessage:
            request = shop.text(producer, RANGES, json.dumps(fields))
            request.reply_to = reply
            await shop.request(request)
            return await shop.message()

        content = (await ask(op="lease", queue="q", owner="o")).content
        assert content is not None
        token = json.loads(content[4:])["token"]
        for source in ({"token": token}, {"queue": "q"}):
            content = (await ask(op="range", **{"from": 1, "to": 4}, **source)).content
            assert content is not None
            assert [t for t in ("1", "secret", "2") if encode_text(t) in content] == ["1", "2"]
        await ask(op="hold", token=token, to=4)
        await ask(op="trim", token=token, to=4)
        await ask(op="release", token=token)
        await admin.consumer(Queue("q"))
        assert await texts(admin, 1) == [b"secret"]
