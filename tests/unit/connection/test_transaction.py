"""JmsTransactionManager on a counting provider."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from pyjms.connection.transaction import JmsTransactionManager, Propagation, TransactionStatus
from pyjms.enums import AcknowledgeMode
from pyjms.errors import (
    IllegalStateException,
    JMSException,
    TransactionRolledBackException,
    UnsupportedOperationException,
)
from pyjms.jms.message import TextMessage
from pyjms.runtime import clock as _clock
from pyjms.template.resources import BoundResource, bind, bound_resource
from pyjms.template.template import JmsTemplate
from tests.kit.clients.jms_provider import JmsProvider
from tests.kit.values import present

CALLS = {
    "ConnectionFactory.createConnection": 1, "Connection.createSession": 1,
    "Session.createProducer": 2, "Producer.close": 2, "Session.commit": 1, "Session.close": 1,
    "Connection.close": 1,
}  # fmt: skip


@pytest.fixture
def manager(provider: JmsProvider) -> JmsTransactionManager:
    return JmsTransactionManager(provider)


@pytest.fixture
def template(provider: JmsProvider) -> JmsTemplate:
    return JmsTemplate(provider, receive_timeout=0)


@pytest.mark.fact("spring-jms 4.1.1", "spring-jms 7.1")
async def test_two_sends_in_one_transaction(
    provider: JmsProvider,
    manager: JmsTransactionManager,
    template: JmsTemplate,
    oracle: dict[str, Any],
) -> None:
    title = "two sends in one JmsTransactionManager transaction, template.sessionTransacted=false"
    recorded = oracle["template-transactions"][title]
    async with manager.transaction() as status:
        assert status.has_transaction
        assert status.is_new_transaction
        await template.convert_and_send("q", "one")
        await template.convert_and_send("q", "two")
        assert len(provider.texts("q")) == recorded["depthInsideTransaction"] == 0
        session = present(bound_resource(provider)).session
        mode = await JmsTemplate(provider, session_acknowledge_mode=AcknowledgeMode.CLIENT).execute(
            lambda s: s
        )
        assert mode is session
        assert session.transacted
    assert status.completed
    assert len(provider.texts("q")) == recorded["depthAfterCommit"] == 2
    assert {name: provider.counts[name] for name in CALLS} == CALLS == recorded["calls"]
    assert bound_resource(provider) is None


async def test_an_exception_rolls_back(
    provider: JmsProvider,
    manager: JmsTransactionManager,
    template: JmsTemplate,
    oracle: dict[str, Any],
) -> None:
    recorded = oracle["template-transactions"]["exception rolls back"]["calls"]
    with pytest.raises(KeyError):
        async with manager.transaction():
            await template.convert_and_send("q", "lost")
            raise KeyError
    assert provider.texts("q") == []
    assert {name: provider.counts[name] for name in recorded} == recorded
    assert provider.counts["Session.close"] == provider.counts["Connection.close"] == 1


async def test_cancellation_rolls_back_and_closes(
    provider: JmsProvider, manager: JmsTransactionManager, template: JmsTemplate
) -> None:
    async def work() -> None:
        async with manager.transaction():
            await template.convert_and_send("q", "lost")
            await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert provider.texts("q") == []
    assert provider.counts["Session.rollback"] == provider.counts["Connection.close"] == 1


async def test_rollback_only_at_the_outermost_level_is_silent(
    provider: JmsProvider, manager: JmsTransactionManager, template: JmsTemplate
) -> None:
    async with manager.transaction() as status:
        await template.convert_and_send("q", "lost")
        status.set_rollback_only()
        assert status.rollback_only
    assert provider.texts("q") == []
    assert provider.counts["Session.rollback"] == 1


async def test_receiving_in_a_transaction(
    provider: JmsProvider,
    manager: JmsTransactionManager,
    template: JmsTemplate,
    oracle: dict[str, Any],
) -> None:
    recorded = oracle["template-transactions"]["receive in a transaction"]
    for text in ("one", "two"):
        await template.convert_and_send("q", text)
    async with manager.transaction() as status:
        assert await template.receive_and_convert("q") == recorded["received"]
        status.set_rollback_only()
    assert provider.texts("q") == recorded["textsAfterRollback"]
    async with manager.transaction():
        message = await template.receive("q")
        assert isinstance(message, TextMessage)
        assert f"{message.text}#{message.delivery_count}" == recorded["again"]
    assert provider.texts("q") == recorded["textsAfterCommit"]


@pytest.mark.fact("spring-jms 7.4")
async def test_propagation(
    provider: JmsProvider,
    manager: JmsTransactionManager,
    template: JmsTemplate,
    oracle: dict[str, Any],
) -> None:
    recorded = oracle["template-transactions"]["REQUIRES_NEW inside a transaction"]
    with pytest.raises(KeyError):
        async with manager.transaction():
            await template.convert_and_send("q", "outer")
            async with manager.transaction() as joined:
                assert not joined.is_new_transaction
                assert provider.counts["Connection.createSession"] == 1
            async with manager.transaction(propagation=Propagation.REQUIRES_NEW) as inner:
                assert inner.is_new_transaction
                await template.convert_and_send("q", "inner")
            assert len(provider.texts("q")) == recorded["depthAfterInnerCommit"]
            raise KeyError
    assert provider.texts("q") == recorded["textsAfterOuterRollback"]
    assert provider.counts["ConnectionFactory.createConnection"] == 2

    def joins(status: TransactionStatus) -> tuple[bool, bool]:
        return status.has_transaction, status.is_new_transaction

    without = {
        Propagation.REQUIRED: (True, True), Propagation.REQUIRES_NEW: (True, True),
        Propagation.NESTED: (True, True), Propagation.SUPPORTS: (False, False),
        Propagation.NOT_SUPPORTED: (False, False), Propagation.NEVER: (False, False),
        Propagation.MANDATORY: IllegalStateException,
    }  # fmt: skip
    inside = {
        Propagation.REQUIRED: (True, False), Propagation.REQUIRES_NEW: (True, True),
        Propagation.SUPPORTS: (True, False), Propagation.NOT_SUPPORTED: (False, False),
        Propagation.MANDATORY: (True, False), Propagation.NEVER: IllegalStateException,
        Propagation.NESTED: UnsupportedOperationException,
    }  # fmt: skip

    async def outcome(propagation: Propagation) -> object:
        try:
            async with manager.transaction(propagation=propagation) as status:
                return joins(status)
        except JMSException as error:
            return type(error)

    assert {p: await outcome(p) for p in Propagation} == without
    async with manager.transaction():
        assert {p: await outcome(p) for p in Propagation} == inside
        async with manager.transaction(propagation=Propagation.NOT_SUPPORTED):
            assert bound_resource(provider) is None
            await template.convert_and_send("q", "at once")
            assert "at once" in provider.texts("q")
        assert bound_resource(provider) is not None


@pytest.mark.fact("spring-jms 7.5")
async def test_a_participant_that_fails_rolls_the_whole_back(
    provider: JmsProvider,
    manager: JmsTransactionManager,
    template: JmsTemplate,
    oracle: dict[str, Any],
) -> None:
    title = "participating failure marks the outer transaction rollback-only"
    recorded = oracle["template-transactions"][title]
    assert recorded["outerThrows"] == "UnexpectedRollbackException"
    with pytest.raises(TransactionRolledBackException, match="marked as rollback-only"):
        async with manager.transaction() as outer:
            await template.convert_and_send("q", "outer")
            with pytest.raises(KeyError):
                async with manager.transaction():
                    raise KeyError
            assert outer.rollback_only
    assert len(provider.texts("q")) == recorded["depth"] == 0
    with pytest.raises(TransactionRolledBackException):
        async with manager.transaction(), manager.transaction() as inner:
            inner.set_rollback_only()
    assert provider.counts["Session.rollback"] == 2
    async with manager.transaction() as outer:
        outer.set_rollback_only()
    assert provider.counts["Session.rollback"] == 3


@pytest.mark.fact("spring-jms 7.6", "spring-jms 4.10")
async def test_time_limits(provider: JmsProvider) -> None:
    clock = _Clock()
    previous = _clock.install(clock)
    try:
        manager = JmsTransactionManager(provider, default_timeout=10.0)
        template = JmsTemplate(provider, receive_timeout=0)
        with pytest.raises(TransactionRolledBackException, match="marked as rollback-only"):
            async with manager.transaction():
                assert present(bound_resource(provider)).remaining() == 10.0
                await template.receive("q")
                clock.time += 11.0
                await template.convert_and_send("q", "JMS itself is not interrupted")
                with pytest.raises(TransactionRolledBackException, match="timed out"):
                    await template.receive("q")
        assert provider.texts("q") == []
        async with manager.transaction(timeout=5.0):
            assert present(bound_resource(provider)).remaining() == 5.0
            for own, used in ((60.0, 5.0), (3.0, 3.0), (0, 0), (None, None)):
                assert await _timeout_used(provider, own) == used
        async with JmsTransactionManager(provider).transaction():
            assert present(bound_resource(provider)).remaining() is None
            assert await _timeout_used(provider, 60.0) == 60.0
    finally:
        _clock.install(previous)


async def _timeout_used(provider: JmsProvider, receive_timeout: float | None) -> float | None:
    """The timeout that a template with this setting gives to its consumer."""
    used: list[float | None] = []
    session: Any = present(bound_resource(provider)).session
    original = session.create_consumer

    async def create(*args: Any, **options: Any) -> Any:
        consumer: Any = await original(*args, **options)

        async def receive(timeout: float | None = None) -> None:
            used.append(timeout)

        consumer.receive = receive
        return consumer

    session.create_consumer = create
    try:
        await JmsTemplate(provider, receive_timeout=receive_timeout).receive("q")
    finally:
        session.create_consumer = original
    return used[0]


class _Clock(_clock.SystemClock):
    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time


@pytest.mark.fact("spring-jms 7.2")
async def test_failures_at_the_end_come_out(
    provider: JmsProvider, manager: JmsTransactionManager
) -> None:
    """Spring's names for them are ours: one tree."""
    for error in (TransactionRolledBackException("no"), JMSException("broken")):
        provider.failures["Session.commit"] = error
        with pytest.raises(type(error)) as caught:
            async with manager.transaction():
                pass
        assert caught.value is error
    provider.failures["Session.rollback"] = JMSException("no rollback")
    with pytest.raises(JMSException, match="no rollback") as caught:
        async with manager.transaction():
            raise KeyError
    assert isinstance(caught.value.__context__, KeyError)
    assert provider.counts["Session.close"] == provider.counts["Connection.close"] == 3


async def test_what_cannot_begin(provider: JmsProvider, manager: JmsTransactionManager) -> None:
    provider.failures["Connection.createSession"] = JMSException("no session")
    with pytest.raises(JMSException, match="no session"):
        async with manager.transaction():
            pytest.fail("not begun")
    assert provider.counts["Connection.close"] == 1
    assert bound_resource(provider) is None


async def test_a_listeners_session_is_joined_if_it_is_transacted(
    provider: JmsProvider, manager: JmsTransactionManager
) -> None:
    connection = await provider.create_connection()
    for transacted in (True, False):
        session = await connection.create_session(transacted)
        with bind(provider, BoundResource(connection, session)):
            async with manager.transaction() as status:
                assert status.is_new_transaction is not transacted
            async with manager.transaction(propagation=Propagation.SUPPORTS) as status:
                assert status.has_transaction is transacted
                assert present(bound_resource(provider)).session is session
