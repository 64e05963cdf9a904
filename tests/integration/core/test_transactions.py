"""JmsTransactionManager and the template on the bundled broker, as recorded of Spring."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.connection.caching import CachingConnectionFactory
from pyjms.connection.transaction import JmsTransactionManager, Propagation
from pyjms.errors import TransactionRolledBackException
from pyjms.jms.message import TextMessage
from pyjms.template.template import JmsTemplate


@pytest.fixture
def manager(factory: ConnectionFactory) -> JmsTransactionManager:
    return JmsTransactionManager(factory)


@pytest.fixture
def recorded(oracle: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = oracle["template-transactions"]
    return found


async def texts(factory: ConnectionFactory, name: str = "q") -> list[str | None]:
    async def read(session: Any, browser: Any) -> list[str | None]:
        return [message.text async for message in browser]

    return await JmsTemplate(ConnectionFactory(str(factory.uri))).browse(name, read)


async def test_sends_are_invisible_until_the_commit(
    factory: ConnectionFactory, manager: JmsTransactionManager, template: JmsTemplate,
    recorded: dict[str, Any],
) -> None:  # fmt: skip
    title = "two sends in one JmsTransactionManager transaction, template.sessionTransacted=false"
    async with manager.transaction():
        for text in ("one", "two"):
            await template.convert_and_send("q", text)
        assert len(await texts(factory)) == recorded[title]["depthInsideTransaction"]
    assert len(await texts(factory)) == recorded[title]["depthAfterCommit"]
    with pytest.raises(KeyError):
        async with manager.transaction():
            await template.convert_and_send("q", "three")
            raise KeyError
    assert len(await texts(factory)) == recorded["exception rolls back"]["depth"]
    async with manager.transaction() as status:
        await template.convert_and_send("q", "three")
        status.set_rollback_only()
    title = "setRollbackOnly rolls back without exception"
    assert len(await texts(factory)) == recorded[title]["depth"]


async def test_receiving(
    factory: ConnectionFactory, manager: JmsTransactionManager, template: JmsTemplate,
    recorded: dict[str, Any],
) -> None:  # fmt: skip
    expected = recorded["receive in a transaction"]
    for text in ("one", "two"):
        await template.convert_and_send("q", text)
    async with manager.transaction() as status:
        assert await template.receive_and_convert("q") == expected["received"]
        status.set_rollback_only()
    assert await texts(factory) == expected["textsAfterRollback"]
    async with manager.transaction():
        message = await template.receive("q")
        assert isinstance(message, TextMessage)
        assert f"{message.text}#{message.delivery_count}" == expected["again"]
    assert await texts(factory) == expected["textsAfterCommit"]


async def test_requires_new_and_participants(
    factory: ConnectionFactory, manager: JmsTransactionManager, template: JmsTemplate,
    recorded: dict[str, Any],
) -> None:  # fmt: skip
    with pytest.raises(KeyError):
        async with manager.transaction():
            await template.convert_and_send("q", "outer")
            async with manager.transaction(propagation=Propagation.REQUIRES_NEW):
                await template.convert_and_send("q", "inner")
            expected = recorded["REQUIRES_NEW inside a transaction"]
            assert len(await texts(factory)) == expected["depthAfterInnerCommit"]
            raise KeyError
    assert await texts(factory) == expected["textsAfterOuterRollback"]
    with pytest.raises(TransactionRolledBackException):
        async with manager.transaction():
            await template.convert_and_send("p", "outer")
            with pytest.raises(KeyError):
                async with manager.transaction():
                    raise KeyError
    title = "participating failure marks the outer transaction rollback-only"
    assert len(await texts(factory, "p")) == recorded[title]["depth"]


async def test_send_and_receive_takes_no_part(
    factory: ConnectionFactory, manager: JmsTransactionManager, template: JmsTemplate,
    recorded: dict[str, Any],
) -> None:  # fmt: skip
    service = JmsTemplate(ConnectionFactory(str(factory.uri)))

    async def serve() -> None:
        request = await service.receive("ask")
        assert request is not None
        await service.convert_and_send(request.reply_to, "pong")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        async with manager.transaction() as status:
            reply = await template.send_and_receive("ask", lambda s: s.create_text_message("ping"))
            status.set_rollback_only()
    assert isinstance(reply, TextMessage)
    assert reply.text == recorded["sendAndReceive does not take part in the transaction"]["reply"]


async def test_on_a_caching_factory(factory: ConnectionFactory) -> None:
    async with CachingConnectionFactory(factory) as caching:
        manager = JmsTransactionManager(caching)
        template = JmsTemplate(caching, receive_timeout=5.0)
        for round_number in range(3):
            async with manager.transaction():
                await template.convert_and_send("q", f"kept {round_number}")
            with pytest.raises(KeyError):
                async with manager.transaction():
                    assert await template.receive_and_convert("q") == "kept 0"
                    await template.convert_and_send("q", "lost")
                    raise KeyError
        assert await texts(factory) == ["kept 0", "kept 1", "kept 2"]
