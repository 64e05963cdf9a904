"""A store or broker filter that returns None, where a Completion belongs, fails clearly."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pyjms.aio import ConnectionFactory
from pyjms.client.connection import ActiveMQConnection
from pyjms.errors import JMSException
from pyjms.jms.destination import Queue, Topic
from pyjms.runtime.build import build_name
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageAck, TransactionId
from pyjms_broker.api import BrokerFilter
from pyjms_broker.api.context import ConnectionContext, ConsumerExchange, ProducerExchange
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import StoreSettings
from pyjms_broker.store.api import PersistenceAdapter
from pyjms_broker.store.memory import MemoryPersistenceAdapter

Q, T = Queue("q"), Topic("t")
ANSWER = r"returned None from .* instead of a Completion \(hint: return the Completion"
COMPILED_ANSWER = "Completion object expected; got None"
"""Compiled code checks the type of each result itself, and knows nothing of who returned it."""
IS_COMPILED = build_name() == "compiled"


class ForgetfulSend(BrokerFilter):
    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Any:
        super().send(exchange, message)


class ForgetfulAcknowledge(BrokerFilter):
    def acknowledge(self, exchange: ConsumerExchange, ack: MessageAck) -> Any:
        super().acknowledge(exchange, ack)


class ForgetfulCommit(BrokerFilter):
    def commit_transaction(
        self, context: ConnectionContext, xid: TransactionId, one_phase: bool
    ) -> Any:
        super().commit_transaction(context, xid, one_phase)


class Forgetful:
    """A part of a store whose method `name` returns None."""

    def __init__(self, inner: Any, name: str) -> None:
        self._inner, self._name = inner, name

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name != self._name:
            return found
        return lambda *args, **named: found(*args, **named) and None


class ForgetfulStore(MemoryPersistenceAdapter):
    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def queue_message_store(self, *args: Any) -> Any:
        return Forgetful(super().queue_message_store(*args), self._name)

    def topic_message_store(self, *args: Any) -> Any:
        return Forgetful(super().topic_message_store(*args), self._name)

    def transaction_store(self) -> Any:
        return Forgetful(super().transaction_store(), self._name)


class ForgetfulStoreSettings(StoreSettings):
    name: str

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        return ForgetfulStore(self.name)


@asynccontextmanager
async def connected(**options: Any) -> AsyncIterator[Any]:
    """Yield a connection to a broker whose acknowledgements wait for responses."""
    async with BrokerService("forgetful", **options) as service:
        factory = ConnectionFactory(f"{service.vm_uri}?jms.sendAcksAsync=false&jms.clientID=me")
        connection = await factory.create_connection()
        try:
            await connection.start()
            yield connection
        finally:
            await connection.close()


async def send(connection: ActiveMQConnection, to: Any = Q, *, transacted: bool = False) -> None:
    session = await connection.create_session(transacted)
    producer = await session.create_producer(to)
    await producer.send(session.create_text_message("x"))
    if transacted:
        await session.commit()


async def send_in_transaction(connection: ActiveMQConnection) -> None:
    await send(connection, transacted=True)


async def send_and_roll_back(connection: ActiveMQConnection) -> None:
    session = await connection.create_session(True)
    producer = await session.create_producer(Q)
    await producer.send(session.create_text_message("x"))
    await session.rollback()


async def receive(connection: ActiveMQConnection) -> None:
    await send(connection)
    session = await connection.create_session()
    consumer = await session.create_consumer(Q)
    assert await consumer.receive(5) is not None


async def subscribe(connection: ActiveMQConnection) -> None:
    session = await connection.create_session()
    await session.create_durable_subscriber(T, "s")


async def receive_subscribed(connection: ActiveMQConnection) -> None:
    session = await connection.create_session()
    consumer = await session.create_durable_subscriber(T, "s")
    await send(connection, T)
    assert await consumer.receive(5) is not None


Work = Callable[[Any], Any]


@pytest.mark.parametrize(
    ("plugin", "work"),
    [
        (ForgetfulSend, send),
        (ForgetfulAcknowledge, receive),
        (ForgetfulCommit, send_in_transaction),
    ],
)
async def test_a_filter_that_forgets_a_return_is_named(plugin: type[Any], work: Work) -> None:
    answer = COMPILED_ANSWER if IS_COMPILED else rf"\.{plugin.__name__} {ANSWER}"
    async with connected(persistent=False, plugins=[plugin]) as connection:
        with pytest.raises(JMSException, match=answer):
            await work(connection)


@pytest.mark.parametrize(
    ("name", "work"),
    [
        ("add_message", send),
        ("add_message", send_in_transaction),
        ("commit", send_in_transaction),
        ("rollback", send_and_roll_back),
        ("remove_message", receive),
        ("add_subscription", subscribe),
        ("acknowledge", receive_subscribed),
    ],
)
async def test_a_store_that_forgets_a_return_is_named(
    tmp_path: Path, name: str, work: Work
) -> None:
    settings = ForgetfulStoreSettings(name=name)
    async with connected(persistence=settings, data_directory=tmp_path) as connection:
        with pytest.raises(JMSException) as failed:
            await work(connection)
    causes = []
    error: BaseException | None = failed.value
    while error is not None:
        causes.append(str(error))
        error = error.__cause__
    answer = COMPILED_ANSWER if IS_COMPILED else f"Forgetful returned None from {name} instead"
    assert any(answer in cause for cause in causes)
