"""Containers with an external transaction manager, and the resources bound for listeners. (1.8, 1.9)"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pyjms.enums import CacheLevel
from pyjms.errors import JMSException, TransactionRolledBackException
from pyjms.jms.message import Message, TextMessage
from pyjms.template.resources import BoundResource, bind, bound_resource
from pyjms.testing.clock import VirtualClock
from tests.kit.clients.jms_provider import JmsProvider, ProviderSession
from tests.kit.listeners.containers import Recorder
from tests.kit.values import present


class Status:
    rollback_only = False

    def set_rollback_only(self) -> None:
        self.rollback_only = True


class Manager:
    """Transactions of something else; keeps a diary."""

    connection_factory: JmsProvider | None = None

    def __init__(self) -> None:
        self.events: list[str] = []
        self.commit_error: Exception | None = None
        self.log = self.events.append

    @asynccontextmanager
    async def transaction(
        self, name: str | None = None, timeout: float | None = None
    ) -> AsyncIterator[Status]:
        self.log(f"begin {name} {timeout}")
        status = Status()
        try:
            async with self.resources():
                yield status
        except BaseException:
            self.log("rollback, raise")
            await self.end(commit=False)
            raise
        if status.rollback_only:
            self.log("rollback")
            await self.end(commit=False)
            return
        self.log("commit")
        await self.end(commit=True)
        if self.commit_error is not None:
            error, self.commit_error = self.commit_error, None
            raise error

    @asynccontextmanager
    async def resources(self) -> AsyncIterator[None]:
        yield

    async def end(self, *, commit: bool) -> None:
        """Nothing else to end."""


class JmsManager(Manager):
    """Transactions of a provider's own sessions."""

    def __init__(self, provider: JmsProvider) -> None:
        super().__init__()
        self.connection_factory = provider

    @asynccontextmanager
    async def resources(self) -> AsyncIterator[None]:
        connection = await present(self.connection_factory).create_connection()
        self.connection = connection
        self.session = await connection.create_session(True)
        with bind(present(self.connection_factory), BoundResource(connection, self.session, True)):
            yield

    async def end(self, *, commit: bool) -> None:
        await (self.session.commit() if commit else self.session.rollback())
        await self.connection.close()


class Once:
    """Fails with `error` on the first delivery of B."""

    def __init__(self, recorder: Recorder, error: Exception) -> None:
        self.recorder = recorder
        self.error = error
        self.failed = False

    async def __call__(self, message: Message) -> None:
        self.recorder.note(message)
        assert isinstance(message, TextMessage)
        if message.text == "B" and not self.failed:
            self.failed = True
            raise self.error


@pytest.mark.fact(
    "spring-jms 1.8.1", "spring-jms 1.1/transactionManager, transactionName, transactionTimeout"
)
async def test_each_receive_attempt_is_a_transaction(
    provider: JmsProvider, recorder: Recorder, build: Callable[..., Any], clock: VirtualClock
) -> None:
    manager = Manager()
    provider.on_receive = lambda _consumer, _message: logged("receive")
    provider.send("q", "A")

    async def logged(event: str) -> None:
        manager.log(event)

    async def listener(message: Message) -> None:
        manager.log("listener")

    container = build(listener, transaction_manager=manager, bean_name="orders")
    await container.start()
    await clock.advance(1.5)
    assert manager.events[:8] == [
        "begin orders None", "receive", "listener", "commit",
        "begin orders None", "receive", "commit", "begin orders None",
    ]  # fmt: skip
    container.transaction_name, container.transaction_timeout = "tx", 30
    await clock.advance(1.0)
    assert manager.events[-1] == "begin tx 30"


@pytest.mark.fact("spring-jms 1.8.2")
@pytest.mark.parametrize(
    ("error", "end", "recoveries"),
    [(RuntimeError("once"), "rollback", 0), (JMSException("once"), "rollback, raise", 1)],
)
async def test_a_listener_fails_in_a_transaction(
    error: RuntimeError | JMSException,
    end: str,
    recoveries: int,
    provider: JmsProvider,
    recorder: Recorder,
    build: Callable[..., Any],
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    manager = JmsManager(provider)
    container = build(Once(recorder, error), transaction_manager=manager,
                      error_handler=recorder.on_error, exception_listener=recorder.on_exception)  # fmt: skip
    provider.send("q", "B")
    await container.start()
    await clock.settle()
    assert recorder.deliveries == ["B#1", "B#2*"]
    assert recorder.errors == [error]
    assert [event for event in manager.events if "back" in event] == [end]
    assert caplog.text.count("trying to recover") == recoveries


@pytest.mark.fact("spring-jms 1.8.3")
@pytest.mark.parametrize(
    ("error", "recovers"),
    [(TransactionRolledBackException("no"), True), (OSError("disk"), False)],
)
async def test_a_commit_that_fails(
    error: TransactionRolledBackException | OSError,
    recovers: bool,
    provider: JmsProvider,
    recorder: Recorder,
    build: Callable[..., Any],
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    manager = Manager()
    manager.commit_error = error
    container = build(Once(recorder, error), transaction_manager=manager,
                      error_handler=recorder.on_error)  # fmt: skip
    provider.send("q", "A")
    await container.start()
    await clock.settle()
    assert ("trying to recover" in caplog.text) == recovers
    assert recorder.errors == ([] if recovers else [error])


@pytest.mark.fact("spring-jms 1.8.4")
async def test_a_session_follows_a_transaction_of_something_else(
    provider: JmsProvider, recorder: Recorder, build: Callable[..., Any], clock: VirtualClock
) -> None:
    manager = Manager()
    container = build(Once(recorder, RuntimeError("once")), transaction_manager=manager,
                      error_handler=recorder.on_error)  # fmt: skip
    assert not container.session_transacted
    manager.log = provider.calls.append
    provider.send("q", "A", "B")
    await container.start()
    await clock.settle()
    assert container.session_transacted
    assert container.cache_level is CacheLevel.NONE
    ends = [
        c
        for c in provider.calls
        if c in ("commit", "rollback", "Session.commit", "Session.rollback")
    ]
    assert ends == ["commit", "Session.commit", "rollback", "Session.rollback",
                    "commit", "Session.commit"]  # fmt: skip
    assert recorder.deliveries == ["A#1", "B#1", "B#2*"]
    assert "Connection.createSession(transacted=true,ack=1)" in provider.calls


@pytest.mark.fact("spring-jms 1.8.4")
async def test_session_transacted_that_was_set_stays(
    provider: JmsProvider, build: Callable[..., Any]
) -> None:
    container = build(
        lambda _message: None, transaction_manager=Manager(), session_transacted=False
    )
    await container.initialize()
    assert not container.session_transacted


@pytest.mark.fact("spring-jms 1.8.5")
@pytest.mark.parametrize("variant", [0, 1])
async def test_a_jms_transaction_manager(
    variant: int,
    provider: JmsProvider,
    recorder: Recorder,
    oracle: dict[str, Any],
    build: Callable[..., Any],
    clock: VirtualClock,
) -> None:
    expected = oracle["external-transaction-manager"][variant]
    level = {"auto": CacheLevel.AUTO}.get(expected["cacheLevel"], expected["cacheLevel"])
    container = build(
        Once(recorder, RuntimeError("once")), transaction_manager=JmsManager(provider),
        cache_level=level, error_handler=recorder.on_error,
    )  # fmt: skip
    provider.send("q", "A", "B", "C")
    await container.start()
    await clock.advance(2)
    assert container.cache_level == expected["effective"]
    assert container.session_transacted == expected["sessionTransactedFlag"]
    assert recorder.deliveries == expected["deliveries"]
    assert len(recorder.errors) == len(expected["errorHandler"])
    assert provider.calls.count("Session.rollback") == expected["calls"]["Session.rollback"]
    await container.shutdown()
    assert provider.texts("q") == expected["leftAfterShutdown"]


@pytest.mark.fact("spring-jms 1.8.7")
async def test_the_containers_own_ending_is_for_its_own_sessions(
    provider: JmsProvider, build: Callable[..., Any], clock: VirtualClock
) -> None:
    seen = []

    async def listener(message: Message, session: ProviderSession) -> None:
        seen.append(container.is_session_locally_transacted(session))

    for own, manager, expected in (
        (True, None, True),
        (False, None, False),
        (True, JmsManager(provider), False),
    ):
        container = build(listener, session_transacted=own, transaction_manager=manager)
        provider.send("q", "A")
        await container.start()
        await clock.settle()
        assert seen.pop() is expected
        await container.shutdown()


def template(factory: JmsProvider, text: str) -> None:
    """What a JmsTemplate does: with the bound session if there is one, else with its own."""
    resource = bound_resource(factory)
    if resource is None:
        factory.send("out", text)
    else:
        assert isinstance(resource.session, ProviderSession)
        resource.session.send("out", text)


@pytest.mark.fact("spring-jms 1.9.1", "spring-jms 1.9.2", "spring-jms 1.1/exposeListenerSession")
@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize("variant", range(4))
async def test_a_template_inside_the_listener(
    variant: int,
    threads: bool,
    provider: JmsProvider,
    new_provider: type[JmsProvider],
    recorder: Recorder,
    oracle: dict[str, Any],
    build: Callable[..., Any],
    clock: VirtualClock,
) -> None:
    expected = oracle["template-inside-listener"][variant]
    name = expected["variant"]
    used = new_provider() if "another" in name else provider
    failed: list[Message] = []

    def body(message: Message) -> None:
        recorder.note(message)
        template(used, f"copy {message.delivery_count}")
        if not failed:
            failed.append(message)
            raise RuntimeError("once")

    async def coroutine(message: Message) -> None:
        body(message)

    container = build(
        body if threads else coroutine, error_handler=recorder.on_error,
        expose_listener_session="exposeListenerSession=false" not in name,
        **({"session_acknowledge_mode": 2} if "CLIENT" in name
           else {"session_transacted": True}),
    )  # fmt: skip
    provider.send("q", "go")
    await container.start()
    await recorder.until(lambda: len(recorder.deliveries) == 2)
    await clock.settle()
    await container.shutdown()
    assert recorder.deliveries == expected["deliveries"]
    assert used.texts("out") == expected["out"]
    assert provider.calls.count("ConnectionFactory.createConnection") == 1


@pytest.mark.fact("spring-jms 1.9.3")
@pytest.mark.parametrize("transacted", [True, False])
async def test_without_exposure_an_aware_listener_gets_its_own_session(
    transacted: bool, provider: JmsProvider, build: Callable[..., Any], clock: VirtualClock
) -> None:
    sessions = []

    async def listener(message: Message, session: ProviderSession) -> None:
        sessions.append(session)
        assert bound_resource(provider) is None
        assert isinstance(message, TextMessage)
        session.send("out", present(message.text))

    container = build(listener, expose_listener_session=False, session_transacted=transacted)
    provider.send("q", "A")
    await container.start()
    await clock.settle()
    assert provider.calls.count("ConnectionFactory.createConnection") == 2
    assert provider.texts("out") == ["A"]
    assert sessions[0].closed
    assert sessions[0].connection.closed
    assert sessions[0] is not provider.open_sessions[0]
    assert provider.calls.count("Session.commit") == (2 if transacted else 0)


@pytest.mark.fact("spring-jms 1.9.4")
async def test_what_a_transaction_bound_stays_bound(
    provider: JmsProvider, build: Callable[..., Any], clock: VirtualClock
) -> None:
    manager = JmsManager(provider)
    seen = []

    async def listener(message: Message) -> None:
        seen.append((present(bound_resource(provider)).session, manager.session))

    container = build(listener, transaction_manager=manager, cache_level="CONSUMER")
    provider.send("q", "A")
    await container.start()
    await clock.settle()
    [(found, managed)] = seen
    assert found is managed


async def test_a_consumer_that_is_added_does_not_see_the_session_of_its_maker(
    provider: JmsProvider, build: Callable[..., Any], clock: VirtualClock
) -> None:
    manager = JmsManager(provider)
    seen = set()

    async def listener(message: Message) -> None:
        await clock.sleep(1)
        seen.add(present(bound_resource(provider)).session)

    container = build(listener, transaction_manager=manager, concurrency="1-2")
    provider.send("q", "A", "B", "C")
    await container.start()
    await clock.advance(3)
    assert len(seen) == 3
