"""What was recorded of Spring's JmsTemplate and its transactions, with ours at an ActiveMQ 5.17.2.

The same scenarios run on the bundled broker in tests/integration/core.
"""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from pyjms.connection.transaction import (
    JmsTransactionManager,
    Propagation,
    ResourceTransactionManager,
)
from pyjms.enums import DeliveryMode
from pyjms.errors import (
    IllegalStateException,
    InvalidSelectorException,
    TransactionRolledBackException,
)
from pyjms.jms.destination import Destination
from pyjms.jms.message import Message, TextMessage
from pyjms.template.template import JmsTemplate
from tests.kit.clients.remote import RemoteClient, client
from tests.kit.data import spring_oracle

pytestmark = [pytest.mark.activemq, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

__all__ = ["client"]


@pytest.fixture
def template(client: RemoteClient) -> JmsTemplate:
    return JmsTemplate(client.factory(), receive_timeout=10.0)


@pytest.fixture
def manager(template: JmsTemplate) -> JmsTransactionManager:
    return JmsTransactionManager(template.connection_factory)


@pytest.fixture
def recorded() -> dict[str, Any]:
    found: dict[str, Any] = spring_oracle()["template-transactions"]
    return found


@pytest.fixture
def queue(client: RemoteClient) -> Destination:
    return client.destination("q")


async def texts(client: RemoteClient, queue: Destination) -> list[str | None]:
    async def read(session: Any, browser: Any) -> list[str | None]:
        return [message.text async for message in browser]

    return await JmsTemplate(client.factory()).browse(queue, read)


async def test_qos(template: JmsTemplate, client: RemoteClient, queue: Destination) -> None:
    recorded = spring_oracle()["template-qos"]
    template.delivery_mode, template.priority = DeliveryMode.NON_PERSISTENT, 9
    template.time_to_live = 60.0

    async def sent(payload: object = "x") -> Message:
        await template.convert_and_send(queue, payload)
        message = await template.receive(queue)
        assert message is not None
        return message

    def headers(message: Message) -> dict[str, Any]:
        left = message.expiration - message.timestamp if message.expiration else "0"
        return {"JMSDeliveryMode": message.delivery_mode, "JMSPriority": message.priority,
                "JMSExpiration": "now + about 60000" if left == 60000 else left}  # fmt: skip

    assert headers(await sent()) == recorded["values set, explicitQosEnabled=false"]
    template.explicit_qos_enabled = True
    assert headers(await sent()) == recorded["values set, explicitQosEnabled=true"]
    template.message_id_enabled = template.message_timestamp_enabled = False
    without = await sent()
    expected = recorded["message id and timestamp disabled, ttl 60000 (ActiveMQ 5.x)"]
    assert {"hasMessageId": without.message_id is not None, "timestamp": without.timestamp,
            "expiration": without.expiration} == expected  # fmt: skip
    template.message_id_enabled = template.message_timestamp_enabled = True
    template.explicit_qos_enabled = False
    own = TextMessage("own")
    own.priority, own.delivery_mode, own.expiration = 9, DeliveryMode.NON_PERSISTENT, 5
    title = "priority, mode and expiration set on the message itself are overwritten"
    assert headers(await sent(own)) == recorded[title]
    template.receive_timeout = 0
    assert await template.receive(queue) is recorded["RECEIVE_TIMEOUT_NO_WAIT"]["result"]
    unanswered = await template.send_and_receive(queue, lambda s: s.create_text_message("?"))
    assert unanswered is recorded["sendAndReceive without answer"]
    template.receive_timeout = 10.0
    await template.receive(queue)
    for text in ("a", "b"):
        await template.convert_and_send(queue, text, properties={"name": text})
    chosen = await template.receive_selected_and_convert(queue, "name = 'b'")
    assert chosen == recorded["receiveSelectedAndConvert"]
    assert len(await texts(client, queue)) == recorded["browse"]
    assert len(await texts(client, queue)) == recorded["browse does not remove"]
    with pytest.raises(InvalidSelectorException):
        await template.receive_selected(queue, "a ==")
    with pytest.raises(IllegalStateException):
        await template.receive()


async def test_sends_are_invisible_until_the_commit(
    template: JmsTemplate, manager: JmsTransactionManager, client: RemoteClient,
    queue: Destination, recorded: dict[str, Any],
) -> None:  # fmt: skip
    title = "two sends in one JmsTransactionManager transaction, template.sessionTransacted=false"
    async with manager.transaction():
        for text in ("one", "two"):
            await template.convert_and_send(queue, text)
        assert len(await texts(client, queue)) == recorded[title]["depthInsideTransaction"]
    assert len(await texts(client, queue)) == recorded[title]["depthAfterCommit"]
    with pytest.raises(KeyError):
        async with manager.transaction():
            await template.convert_and_send(queue, "three")
            raise KeyError
    assert len(await texts(client, queue)) == recorded["exception rolls back"]["depth"]
    async with manager.transaction() as status:
        await template.convert_and_send(queue, "three")
        status.set_rollback_only()
    title = "setRollbackOnly rolls back without exception"
    assert len(await texts(client, queue)) == recorded[title]["depth"]


async def test_receiving(
    template: JmsTemplate, manager: JmsTransactionManager, client: RemoteClient,
    queue: Destination, recorded: dict[str, Any],
) -> None:  # fmt: skip
    expected = recorded["receive in a transaction"]
    for text in ("one", "two"):
        await template.convert_and_send(queue, text)
    async with manager.transaction() as status:
        assert await template.receive_and_convert(queue) == expected["received"]
        status.set_rollback_only()
    assert await texts(client, queue) == expected["textsAfterRollback"]
    async with manager.transaction():
        message = await template.receive(queue)
        assert isinstance(message, TextMessage)
        assert f"{message.text}#{message.delivery_count}" == expected["again"]
    assert await texts(client, queue) == expected["textsAfterCommit"]


async def test_requires_new_and_participants(
    template: JmsTemplate, manager: JmsTransactionManager, client: RemoteClient,
    queue: Destination, recorded: dict[str, Any],
) -> None:  # fmt: skip
    expected = recorded["REQUIRES_NEW inside a transaction"]
    with pytest.raises(KeyError):
        async with manager.transaction():
            await template.convert_and_send(queue, "outer")
            async with manager.transaction(propagation=Propagation.REQUIRES_NEW):
                await template.convert_and_send(queue, "inner")
            assert len(await texts(client, queue)) == expected["depthAfterInnerCommit"]
            raise KeyError
    assert await texts(client, queue) == expected["textsAfterOuterRollback"]
    other = client.destination("p")
    with pytest.raises(TransactionRolledBackException):
        async with manager.transaction():
            await template.convert_and_send(other, "outer")
            with pytest.raises(KeyError):
                async with manager.transaction():
                    raise KeyError
    title = "participating failure marks the outer transaction rollback-only"
    assert len(await texts(client, other)) == recorded[title]["depth"]


async def test_send_and_receive_takes_no_part(
    template: JmsTemplate, manager: JmsTransactionManager, client: RemoteClient,
    recorded: dict[str, Any],
) -> None:  # fmt: skip
    service = JmsTemplate(client.factory(), receive_timeout=10.0)
    queue = client.destination("ask")

    async def serve() -> None:
        request = await service.receive(queue)
        assert request is not None
        await service.convert_and_send(request.reply_to, "pong")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        async with manager.transaction() as status:
            reply = await template.send_and_receive(queue, lambda s: s.create_text_message("ping"))
            status.set_rollback_only()
    assert isinstance(reply, TextMessage)
    assert reply.text == recorded["sendAndReceive does not take part in the transaction"]["reply"]


@pytest.mark.parametrize("transacted", [False, True])
@pytest.mark.parametrize("end", ["commit", "rollback", "commit fails"])
async def test_the_transaction_of_a_database(
    transacted: bool, end: str, client: RemoteClient, queue: Destination, recorded: dict[str, Any]
) -> None:
    flag = str(transacted).lower()
    title = f"other transaction manager (a database), template.sessionTransacted={flag}, {end}"
    expected = recorded[title]
    database: list[str] = []

    def begin() -> str:
        database.append("db begin")
        return "transaction"

    def commit(_transaction: str) -> None:
        database.append(f"db {end}")
        if end == "commit fails":
            raise OSError("commit fails")

    manager = ResourceTransactionManager(begin, commit, lambda _: database.append("db rollback"))
    template = JmsTemplate(client.factory(), session_transacted=transacted)

    async def work() -> None:
        async with manager.transaction() as status:
            for text in ("one", "two"):
                await template.convert_and_send(queue, text)
            assert len(await texts(client, queue)) == expected["depthInside"]
            if end == "rollback":
                status.set_rollback_only()

    if "thrown" in expected:
        with pytest.raises(OSError, match="commit fails"):
            await work()
    else:
        await work()
    assert len(await texts(client, queue)) == expected["depthAfter"]
    assert database[: len(expected["database"])] == expected["database"]
