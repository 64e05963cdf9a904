"""SingleConnectionFactory and the credentials adapter on a counting provider."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from pyjms.connection.caching import CachingConnectionFactory, SingleConnectionFactory
from pyjms.connection.delegating import (
    DelegatingConnectionFactory,
    UserCredentialsConnectionFactoryAdapter,
)
from pyjms.errors import ConnectionClosedException, IllegalStateException, JMSException
from pyjms.jms.domain import QueueConnectionFactory, TopicConnectionFactory
from pyjms.template.template import JmsTemplate
from tests.kit.clients.jms_provider import JmsProvider
from tests.kit.values import present

CALLS = (
    "ConnectionFactory.createConnection", "Connection.start", "Connection.close",
    "Connection.createSession", "Session.close", "Session.createProducer", "Producer.close",
    "Session.createConsumer", "Consumer.close",
)  # fmt: skip


@pytest.mark.fact("spring-jms 3.1.1")
async def test_one_connection_for_all(provider: JmsProvider) -> None:
    factory = SingleConnectionFactory(provider)
    assert provider.counts["ConnectionFactory.createConnection"] == 0
    connections = [await factory.create_connection() for _ in range(2)]
    assert provider.counts["ConnectionFactory.createConnection"] == 1
    assert connections[0] == connections[1]
    assert len(set(connections)) == 1
    assert connections[0] != await SingleConnectionFactory(provider).create_connection()
    for credentials in (("user", "password"), ("user", None)):
        with pytest.raises(IllegalStateException):
            await factory.create_connection(*credentials)


class _Domains(JmsProvider, QueueConnectionFactory, TopicConnectionFactory):
    """A provider that notes for which domain its connections are created."""

    def __init__(self) -> None:
        super().__init__()
        self.created: list[str] = []

    async def create_connection(self, *credentials: Any) -> Any:
        self.created.append("both")
        return await super().create_connection(*credentials)

    async def create_queue_connection(self, *credentials: Any) -> Any:
        self.created.append("queues")
        return await super().create_connection(*credentials)

    async def create_topic_connection(self, *credentials: Any) -> Any:
        self.created.append("topics")
        return await super().create_connection(*credentials)


@pytest.mark.fact("spring-jms 3.1.7")
@pytest.mark.parametrize("kind", [SingleConnectionFactory, CachingConnectionFactory])
async def test_the_domain_is_remembered(kind: Any) -> None:
    target = _Domains()
    factory = kind(target)
    first = await factory.create_queue_connection()
    assert first == await factory.create_connection() == await factory.create_topic_connection()
    assert target.created == ["queues"]
    await factory.reset_connection()
    await first.create_queue_session()
    assert target.created == ["queues", "topics"]
    await factory.reset_connection()
    await factory.create_queue_connection()
    await factory.reset_connection()
    await factory.create_connection()
    assert target.created == ["queues", "topics", "queues", "queues"]
    with pytest.raises(IllegalStateException, match="custom username and password"):
        await factory.create_queue_connection("user", "password")
    for name, created in [
        ("create_connection", "both"),
        ("create_queue_connection", "queues"),
        ("create_topic_connection", "topics"),
    ]:
        target = _Domains()
        await getattr(DelegatingConnectionFactory(kind(target)), name)()
        assert target.created == [created]


async def test_a_factory_without_connections_of_the_domain_says_so(provider: JmsProvider) -> None:
    for create in ("create_queue_connection", "create_topic_connection"):
        with pytest.raises(
            IllegalStateException, match=r"does not hold a \w+Connection but rather"
        ):
            await getattr(DelegatingConnectionFactory(provider), create)()
    assert provider.counts["Connection.close"] == 2


async def test_concurrent_users_make_one_connection(provider: JmsProvider) -> None:
    factory = SingleConnectionFactory(provider)
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(factory.create_connection)
    assert provider.counts["ConnectionFactory.createConnection"] == 1


@pytest.mark.fact("spring-jms 3.1.2")
async def test_starts_are_counted_and_closing_closes_nothing(provider: JmsProvider) -> None:
    factory = SingleConnectionFactory(provider, reconnect_on_exception=True)
    one, two = await factory.create_connection(), await factory.create_connection()
    [physical] = provider.connections
    await one.start()
    await one.start()
    await two.start()
    assert provider.counts["Connection.start"] == 1
    await one.stop()
    await one.stop()
    assert physical.started
    await two.close()
    assert not physical.started
    assert provider.counts["Connection.stop"] == 1  # type: ignore[unreachable]
    await one.start()
    heard: list[JMSException] = []
    one.exception_listener = heard.append
    await one.close()
    await one.close()
    assert not physical.started
    assert provider.counts["Connection.close"] == 0
    present(physical.exception_listener)(JMSException("x"))
    assert heard == []
    with pytest.raises(ConnectionClosedException):
        await one.create_session()


@pytest.mark.fact("spring-jms 3.1.3")
async def test_client_ids(provider: JmsProvider, oracle: dict[str, Any]) -> None:
    factory = SingleConnectionFactory(provider, client_id="me")
    connection = await factory.create_connection()
    assert provider.connections[0].client_id == connection.client_id == "me"
    await connection.set_client_id("me")
    details = oracle["connection-factories"][4]["facts"]
    assert details["setClientID with the same id"] == "ok"
    with pytest.raises(IllegalStateException):
        await connection.set_client_id("other")


@pytest.mark.fact("spring-jms 3.1.4")
async def test_exception_listeners(provider: JmsProvider, oracle: dict[str, Any]) -> None:
    details = oracle["connection-factories"][4]["facts"]
    refused = details["setExceptionListener, reconnectOnException=false"]
    assert refused == "IllegalStateException"
    connection = await SingleConnectionFactory(provider).create_connection()
    with pytest.raises(IllegalStateException):
        connection.exception_listener = print
    heard: list[str] = []
    factory = SingleConnectionFactory(
        provider, reconnect_on_exception=True, exception_listener=lambda e: heard.append("factory")
    )
    for name in ("one", "two"):
        user = await factory.create_connection()
        user.exception_listener = lambda e, name=name: heard.append(name)
        assert user.exception_listener is not None
    present(provider.connections[1].exception_listener)(JMSException("x"))
    assert heard == ["factory", "one", "two"]
    await factory.destroy()


@pytest.mark.fact("spring-jms 3.1.5")
async def test_reconnect_on_exception(
    provider: JmsProvider, caplog: pytest.LogCaptureFixture
) -> None:
    assert not SingleConnectionFactory(provider).reconnect_on_exception
    heard: list[JMSException] = []
    factory = SingleConnectionFactory(
        provider, reconnect_on_exception=True, exception_listener=heard.append
    )
    connection = await factory.create_connection()
    await connection.start()
    first = provider.connections[0]
    with caplog.at_level(logging.INFO, "pyjms.connection.caching"):
        present(first.exception_listener)(JMSException("gone"))
        present(first.exception_listener)(JMSException("gone again"))
    assert [r.levelname for r in caplog.records] == ["INFO"]
    assert not factory.is_running
    assert [e.reason for e in heard] == ["gone", "gone again"]
    await connection.create_session()
    second = provider.connections[1]
    assert second.started  # a user had started the one before
    await factory.destroy()
    assert first.closed
    assert second.closed


async def test_without_reconnect_the_connection_stays(provider: JmsProvider) -> None:
    heard: list[JMSException] = []
    factory = SingleConnectionFactory(provider, exception_listener=heard.append)
    await factory.create_connection()
    present(provider.connections[0].exception_listener)(JMSException("x"))
    assert factory.is_running
    assert len(heard) == 1


@pytest.mark.fact("spring-jms 3.1.6")
@pytest.mark.parametrize("end", ["destroy", "stop", "reset_connection"])
async def test_ending(provider: JmsProvider, end: str) -> None:
    factory = SingleConnectionFactory(provider)
    assert not factory.is_running
    await factory.start()
    assert factory.is_running
    connection = await factory.create_connection()  # type: ignore[unreachable]
    await connection.start()
    await getattr(factory, end)()
    assert not factory.is_running
    assert provider.counts["Connection.stop"] == provider.counts["Connection.close"] == 1
    await getattr(factory, end)()
    assert provider.counts["Connection.close"] == 1
    await factory.create_connection()
    assert provider.counts["ConnectionFactory.createConnection"] == 2
    assert factory.is_running


async def test_eager_start_failures_are_only_logged(
    provider: JmsProvider, caplog: pytest.LogCaptureFixture
) -> None:
    provider.failures["ConnectionFactory.createConnection"] = JMSException("no broker")
    factory = SingleConnectionFactory(provider)
    with caplog.at_level(logging.INFO, "pyjms.connection.caching"):
        await factory.start()
    assert [(r.levelname, "no broker" in r.getMessage()) for r in caplog.records] == [
        ("INFO", True)
    ]
    with pytest.raises(JMSException, match="no broker"):
        await factory.create_connection()


async def test_a_connection_that_cannot_be_prepared_is_closed(provider: JmsProvider) -> None:
    factory = SingleConnectionFactory(provider)
    await (await factory.create_connection()).start()
    await factory.reset_connection()
    provider.failures["Connection.start"] = JMSException("no start")
    with pytest.raises(JMSException, match="no start"):
        await factory.create_connection()
    assert all(connection.closed for connection in provider.connections)


async def test_the_block_closes(provider: JmsProvider) -> None:
    async with SingleConnectionFactory(provider) as factory:
        connection = await factory.create_connection()
        assert connection.metadata.jms_provider_name == "ActiveMQ"
    assert provider.connections[0].closed
    assert connection.metadata.jms_version == "1.1"


async def test_counts_of_ten_sends_and_receives(
    provider: JmsProvider, oracle: dict[str, Any]
) -> None:
    recorded = oracle["connection-factories"][1]
    template = JmsTemplate(SingleConnectionFactory(provider))
    for number in range(10):
        await template.convert_and_send("q", str(number))
    assert {n: provider.counts[n] for n in CALLS} == recorded["10 x convertAndSend to one queue"]
    provider.counts.clear()
    for number in range(10):
        assert await template.receive_and_convert("q") == str(number)
    assert {n: provider.counts[n] for n in CALLS} == recorded["10 x receive from one queue"]


async def test_credentials(provider: JmsProvider) -> None:
    adapter = UserCredentialsConnectionFactoryAdapter(provider, user_name="u", password="p")
    await adapter.create_connection()
    with adapter.credentials("task", "t"):
        await adapter.create_connection()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(adapter.create_connection)
        await adapter.create_connection("given", "g")
    await adapter.create_connection()
    for empty in ("", None):
        await UserCredentialsConnectionFactoryAdapter(provider, user_name=empty).create_connection()
    assert provider.credentials == [
        ("u", "p"), ("task", "t"), ("task", "t"), ("given", "g"), ("u", "p"),
        (None, None), (None, None),
    ]  # fmt: skip
