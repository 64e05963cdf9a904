"""DelegatingConnectionFactory and TransactionAwareConnectionFactoryProxy."""

from __future__ import annotations

import pytest

from pyjms.aio import JmsTemplate, JmsTransactionManager, Queue
from pyjms.connection import DelegatingConnectionFactory, TransactionAwareConnectionFactoryProxy
from pyjms.errors import TransactionInProgressException
from pyjms.template.resources import BoundResource, bind
from tests.kit.clients.jms_provider import JmsProvider


async def test_a_delegating_factory_passes_everything_on(provider: JmsProvider) -> None:
    factory = DelegatingConnectionFactory(provider)
    await factory.create_connection()
    await factory.create_connection("ann", "secret")
    assert provider.credentials == [(None, None), ("ann", "secret")]
    assert not factory.shares_connection
    async with await factory.create_connection() as connection:
        await connection.start()
    assert provider.counts["Connection.stop"] == 0


async def test_it_stops_connections_before_it_closes_them_if_wanted(provider: JmsProvider) -> None:
    factory = DelegatingConnectionFactory(provider, should_stop_connections=True)
    async with await factory.create_connection() as connection:
        await connection.set_client_id("me")
        assert connection.client_id == "me"
        await connection.start()
        await connection.create_session()
    assert provider.calls[-2:] == ["Connection.stop", "Connection.close"]
    async with await factory.create_connection():
        pass
    assert provider.counts["Connection.stop"] == 1  # not started: nothing to stop


async def test_a_template_with_a_delegating_factory_joins_the_transaction_of_the_target(
    provider: JmsProvider,
) -> None:
    template = JmsTemplate(DelegatingConnectionFactory(provider))
    async with JmsTransactionManager(provider).transaction():
        await template.convert_and_send("q", "one")
        assert provider.texts("q") == []
    assert provider.texts("q") == ["one"]


async def send(
    factory: TransactionAwareConnectionFactoryProxy, text: str, *, commit: bool = False
) -> None:
    """Send as code does that knows nothing of transactions."""
    async with await factory.create_connection() as connection:
        session = await connection.create_session(commit)
        producer = await session.create_producer(Queue("q"))
        await producer.send(session.create_text_message(text))
        if commit:
            await session.commit()
        await session.close()


async def test_sessions_within_a_transaction_are_those_of_the_transaction(
    provider: JmsProvider,
) -> None:
    factory = TransactionAwareConnectionFactoryProxy(provider)
    async with JmsTransactionManager(provider).transaction() as status:
        await send(factory, "one")
        for call in ("commit", "rollback"):
            async with await factory.create_connection() as connection:
                session = await connection.create_session()
                assert session.transacted
                with pytest.raises(TransactionInProgressException):
                    await getattr(session, call)()
        assert provider.texts("q") == []
    assert provider.texts("q") == ["one"]
    async with JmsTransactionManager(provider).transaction() as status:
        await send(factory, "two")
        status.set_rollback_only()
    assert provider.texts("q") == ["one"]
    assert (provider.open_sessions, provider.open_connections) == ([], [])


async def test_sessions_outside_a_transaction_are_the_targets_own(provider: JmsProvider) -> None:
    factory = TransactionAwareConnectionFactoryProxy(provider)
    await send(factory, "one")
    await send(factory, "two", commit=True)
    assert provider.texts("q") == ["one", "two"]


async def test_the_session_of_a_transacted_listener_is_used_too(provider: JmsProvider) -> None:
    connection = await provider.create_connection()
    session = await connection.create_session(transacted=True)
    with bind(provider, BoundResource(connection, session)):
        await send(TransactionAwareConnectionFactoryProxy(provider), "one")
    assert provider.texts("q") == []
    await session.commit()
    assert provider.texts("q") == ["one"]
    unmanaged = await connection.create_session()
    with bind(provider, BoundResource(connection, unmanaged)):
        await send(TransactionAwareConnectionFactoryProxy(provider), "two")
    assert provider.texts("q") == ["one", "two"]


@pytest.mark.parametrize("fails", [False, True])
async def test_a_session_joins_the_transaction_of_another_factory_if_allowed(
    provider: JmsProvider, fails: bool
) -> None:
    other = JmsProvider()
    allowed = TransactionAwareConnectionFactoryProxy(other, synched_local_transaction_allowed=True)
    async with JmsTransactionManager(provider).transaction() as status:
        await JmsTemplate(provider).convert_and_send("q", "main")
        await send(allowed, "joined")
        await send(allowed, "joined too")
        await send(TransactionAwareConnectionFactoryProxy(other), "at once")
        assert other.texts("q") == ["at once"]
        if fails:
            status.set_rollback_only()
    assert other.texts("q") == ["at once", *([] if fails else ["joined", "joined too"])]
    assert provider.texts("q") == ([] if fails else ["main"])
    assert other.counts["Session.commit"] == int(not fails)
    assert (other.open_sessions, other.open_connections) == ([], [])
