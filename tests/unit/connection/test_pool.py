"""PooledConnectionFactory on a counting provider, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import anyio
import pytest

from pyjms.aio import (
    DeliveryMode,
    IllegalStateException,
    JMSException,
    JmsPoolConnectionFactory,
    JmsTemplate,
    PooledConnectionFactory,
    Queue,
    UnsupportedOperationException,
)
from pyjms.enums import AcknowledgeMode
from pyjms.errors import ConnectionClosedException, ConnectionFailedException
from pyjms.jms.api import Connection
from pyjms.testing.clock import VirtualClock
from tests.kit.clients.jms_provider import JmsProvider


@pytest.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    async with VirtualClock() as clock:
        yield clock


def opened(provider: JmsProvider) -> int:
    return len(provider.open_connections)


# --- options


@pytest.mark.fact("spring-jms 9.1", "activemq-edges N15")
async def test_defaults(provider: JmsProvider) -> None:
    options = PooledConnectionFactory(provider).options
    assert (options.max_connections, options.max_sessions_per_connection) == (1, 500)
    assert (options.idle_timeout, options.expiry_timeout) == (30.0, 0.0)
    assert options.connection_timeout == 30.0
    assert options.block_if_full
    assert options.block_if_full_timeout is None
    assert options.create_connection_on_startup
    assert options.use_anonymous_producers
    assert options.explicit_producer_cache_size == 0
    assert options.reconnect_on_exception
    assert options.time_between_expiration_check == 0.0


@pytest.mark.parametrize(
    ("option", "error"),
    [
        ({"max_connections": 0}, ValueError),
        ({"max_sessions_per_connection": 0}, ValueError),
        ({"explicit_producer_cache_size": -1}, ValueError),
        ({"idle_timeout": -1}, ValueError),
        ({"block_if_full_timeout": "5s"}, TypeError),
        ({"max_connections": "2"}, TypeError),
        ({"block_if_full": "false"}, TypeError),
        ({"idle_time": 5}, TypeError),
    ],
    ids=["connections", "sessions", "producers", "negative", "text", "number", "bool", "unknown"],
)
async def test_an_impossible_option_is_refused(
    provider: JmsProvider, option: Any, error: Any
) -> None:
    with pytest.raises(error, match=next(iter(option))):
        PooledConnectionFactory(provider, **option)


# --- connections


@pytest.mark.fact("spring-jms 9.2", "spring-jms 8/spring.activemq.pool.max-connections")
async def test_connections_are_opened_up_to_the_limit_and_then_shared_in_turn(
    provider: JmsProvider,
) -> None:
    async with PooledConnectionFactory(
        provider, max_connections=2, create_connection_on_startup=False
    ) as pool:
        handles = [await pool.create_connection() for _ in range(5)]
        assert opened(provider) == pool.num_connections == 2
        physical = [cast("Any", handle)._physical for handle in handles]
        assert physical[0] is not physical[1]
        assert physical[2:4] in ([physical[0], physical[1]], [physical[1], physical[0]])
        assert physical[4] is physical[2]
        assert pool.stats.borrowed_connections.count == 5


@pytest.mark.fact("spring-jms 9.2")
async def test_connections_are_pooled_for_each_user_and_password(provider: JmsProvider) -> None:
    async with PooledConnectionFactory(provider, create_connection_on_startup=False) as pool:
        for credentials in [(), ("ann", "a"), ("ann", "b"), ("ann", "a"), ()]:
            await pool.create_connection(*credentials)
        assert provider.credentials == [(None, None), ("ann", "a"), ("ann", "b")]


@pytest.mark.fact("spring-jms 9.3")
async def test_closing_a_handle_closes_what_was_created_through_it(provider: JmsProvider) -> None:
    async with PooledConnectionFactory(provider) as pool:
        handle, other = [await pool.create_connection() for _ in range(2)]
        session = await handle.create_session()
        kept = await other.create_session()
        consumer = await session.create_consumer(Queue("q"))
        await session.create_temporary_queue()
        deleted = await session.create_temporary_topic()
        await session.delete_temporary(deleted)
        provider.calls.clear()
        await handle.close()
        await handle.close()
        assert consumer.is_closed
        with pytest.raises(IllegalStateException):
            session.create_text_message()
        assert provider.count("TemporaryQueue.delete", "Connection.close") == {
            "TemporaryQueue.delete": 1, "Connection.close": 0,
        }  # fmt: skip
        with pytest.raises(ConnectionClosedException):
            await handle.create_session()
        kept.create_text_message()
        assert opened(provider) == 1
        assert pool.stats.borrowed_connections.count == 1


@pytest.mark.fact("spring-jms 9.4", "spring-jms 8/spring.activemq.pool.idle-timeout")
async def test_a_connection_unused_for_longer_than_the_idle_timeout_is_closed(
    provider: JmsProvider, clock: VirtualClock
) -> None:
    async with PooledConnectionFactory(provider, idle_timeout=30) as pool:
        handle = await pool.create_connection()
        await clock.advance(1000)
        assert opened(provider) == 1
        await handle.close()
        await clock.advance(29)
        await (await pool.create_connection()).close()
        assert len(provider.connections) == 1
        await clock.advance(31)
        await (await pool.create_connection()).close()
        assert len(provider.connections) == 2
        assert opened(provider) == 1
        assert pool.stats.expired_connections.count == 1


async def test_without_an_idle_timeout_connections_stay(
    provider: JmsProvider, clock: VirtualClock
) -> None:
    async with PooledConnectionFactory(provider, idle_timeout=0) as pool:
        await clock.advance(10_000)
        await (await pool.create_connection()).close()
        assert len(provider.connections) == 1


@pytest.mark.fact("spring-jms 9.4", "spring-jms 8/spring.activemq.pool.expiry-timeout")
async def test_an_old_connection_is_replaced_once_nobody_uses_it(
    provider: JmsProvider, clock: VirtualClock
) -> None:
    async with PooledConnectionFactory(provider, idle_timeout=0, expiry_timeout=60) as pool:
        first = await pool.create_connection()
        await clock.advance(61)
        second = await pool.create_connection()
        await first.close()
        assert (opened(provider), len(provider.connections)) == (1, 1)
        await second.close()
        assert opened(provider) == 0
        await pool.create_connection()
        assert len(provider.connections) == 2


@pytest.mark.fact(
    "spring-jms 9.3", "spring-jms 8/spring.activemq.pool.time-between-expiration-check"
)
async def test_the_background_check_closes_idle_connections(
    provider: JmsProvider, clock: VirtualClock
) -> None:
    async with PooledConnectionFactory(
        provider, idle_timeout=30, time_between_expiration_check=5
    ) as pool:
        await clock.advance(29)
        assert opened(provider) == 1
        await clock.advance(7)
        assert opened(provider) == 0
        assert not pool.is_running
    async with PooledConnectionFactory(provider, idle_timeout=30):  # no check of its own
        await clock.advance(300)
        assert opened(provider) == 1


@pytest.mark.fact("spring-jms 9.4", "spring-jms 8/spring.activemq.pool.reconnect-on-exception")
async def test_a_reported_exception_replaces_the_connection(provider: JmsProvider) -> None:
    heard: list[str] = []
    async with PooledConnectionFactory(provider) as pool:
        handle = await pool.create_connection()
        other = await pool.create_connection()
        handle.exception_listener = lambda error: heard.append(f"{pool.num_connections} {error}")
        other.exception_listener = lambda error: heard.append(f"other {error}")
        provider.break_down("lost")
        provider.down = None
        assert heard == ["0 lost", "other lost"]  # the connection was given up before the calls
        await pool.create_connection()
        assert len(provider.connections) == 2
        await handle.close()
        await other.close()
        await anyio.wait_all_tasks_blocked()  # the failed one is closed in the background
        assert opened(provider) == 1
        assert pool.stats.failed_connections.count == 1


async def test_an_exception_listener_that_fails_keeps_no_other_from_the_call(
    provider: JmsProvider, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    def fail(error: JMSException) -> None:
        raise ValueError("no")

    async with PooledConnectionFactory(provider) as pool:
        first, second = await pool.create_connection(), await pool.create_connection()
        first.exception_listener = fail
        second.exception_listener = lambda error: heard.append(str(error))
        provider.break_down("lost")
        provider.down = None
        assert heard == ["lost"]
        assert "An exception listener" in caplog.text


@pytest.mark.fact("spring-jms 9.4")
async def test_without_reconnection_a_failed_connection_stays_while_it_is_used(
    provider: JmsProvider,
) -> None:
    async with PooledConnectionFactory(provider, reconnect_on_exception=False) as pool:
        handle = await pool.create_connection()
        provider.break_down("lost")
        provider.down = None
        again = await pool.create_connection()
        assert len(provider.connections) == 1
        for used in (handle, again):
            await used.close()
        await pool.create_connection()
        assert (opened(provider), len(provider.connections)) == (1, 2)


async def test_the_exception_listener_of_the_native_connection_is_called_too(
    provider: JmsProvider,
) -> None:
    class Listened:
        shares_connection = False

        async def create_connection(self, *credentials: Any) -> Connection:
            connection = await provider.create_connection(*credentials)
            connection.exception_listener = lambda error: heard.append(str(error))
            return connection

    heard: list[str] = []
    async with PooledConnectionFactory(Listened()):  # type: ignore[arg-type]
        provider.break_down("lost")
        assert heard == ["lost"]


@pytest.mark.fact("spring-jms 9.5")
async def test_a_stopped_handle_is_unusable_and_the_connection_continues(
    provider: JmsProvider,
) -> None:
    async with PooledConnectionFactory(provider) as pool:
        handle, other = [await pool.create_connection() for _ in range(2)]
        await handle.start()
        await other.start()
        assert provider.counts["Connection.start"] == 1
        await handle.stop()
        with pytest.raises(ConnectionClosedException):
            await handle.start()
        assert provider.counts["Connection.stop"] == 0
        await other.create_session()


async def test_stop_of_a_handle_of_spring_boots_pool_has_no_effect(provider: JmsProvider) -> None:
    async with JmsPoolConnectionFactory(provider) as pool:
        handle = await pool.create_connection()
        await handle.start()
        await handle.stop()
        await handle.create_session()
        assert provider.counts["Connection.stop"] == 0


@pytest.mark.fact("spring-jms 9.9")
async def test_the_client_id_is_set_once(provider: JmsProvider) -> None:
    async with PooledConnectionFactory(provider) as pool:
        for _ in range(2):
            handle = await pool.create_connection()
            await handle.set_client_id("me")
            assert handle.client_id == "me"
        assert provider.calls.count("Connection.setClientID(me)") == 1
        with pytest.raises(JMSException):
            provider.client_ids.add("you")
            await handle.set_client_id("you")


# --- start and stop


@pytest.mark.fact("spring-jms 8/spring.activemq.pool.create-connection-on-startup")
@pytest.mark.parametrize("eager", [True, False])
async def test_a_connection_is_opened_on_startup_if_wanted(
    provider: JmsProvider, eager: bool
) -> None:
    async with PooledConnectionFactory(provider, create_connection_on_startup=eager) as pool:
        assert opened(provider) == pool.num_connections == int(eager)
        assert pool.stats.borrowed_connections.count == 0


async def test_a_failed_connection_on_startup_is_only_logged(
    provider: JmsProvider, caplog: pytest.LogCaptureFixture
) -> None:
    provider.down = "no broker"
    async with PooledConnectionFactory(provider) as pool:
        assert "no broker" in caplog.text
        provider.down = None
        await pool.create_connection()


@pytest.mark.fact("spring-jms 9.10")
async def test_a_stopped_pool_lends_nothing_until_it_is_started(provider: JmsProvider) -> None:
    pool = PooledConnectionFactory(provider)
    await pool.create_connection()
    await pool.stop()
    assert opened(provider) == 0
    with pytest.raises(IllegalStateException, match="stopped"):
        await pool.create_connection()
    await pool.start()
    await pool.create_connection()
    assert opened(provider) == 1
    await pool.stop()


@pytest.mark.fact("spring-jms 9.3")
async def test_clear_closes_connections_in_use(provider: JmsProvider) -> None:
    async with PooledConnectionFactory(provider, max_connections=2) as pool:
        handle = await pool.create_connection()
        session = await handle.create_session()
        await pool.clear()
        assert opened(provider) == 0
        await session.close()
        await handle.close()
        await pool.create_connection()
        assert opened(provider) == 1
        assert pool.stats.sessions.count == pool.stats.active_sessions.count == 0


async def test_opening_a_connection_is_limited_in_time(clock: VirtualClock) -> None:
    class Endless:
        shares_connection = False

        async def create_connection(self, *credentials: Any) -> Any:
            await anyio.sleep_forever()

    pool = PooledConnectionFactory(Endless(), connection_timeout=5)  # type: ignore[arg-type]
    errors: list[str] = []

    async def connect() -> None:
        try:
            await pool.create_connection()
        except ConnectionFailedException as error:
            errors.append(str(error))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connect)
        tasks.start_soon(connect)  # waits for the first one's attempt
        await clock.advance(6)
    assert len(errors) == 2
    assert "connection_timeout" in errors[0]


# --- sessions


@pytest.mark.fact("spring-jms 9.6")
async def test_sessions_are_pooled_for_each_mode(provider: JmsProvider) -> None:
    async with PooledConnectionFactory(provider) as pool:
        handle = await pool.create_connection()
        modes = [(False, AcknowledgeMode.AUTO), (False, AcknowledgeMode.CLIENT), (True, 1)]
        for _ in range(3):
            for transacted, mode in modes:
                session = await handle.create_session(transacted, mode)
                assert session.transacted is transacted
                await session.close()
        assert provider.counts["Connection.createSession"] == 3
        assert provider.counts["Session.close"] == 0
        assert (pool.stats.sessions.count, pool.stats.active_sessions.count) == (3, 0)


@pytest.mark.fact(
    "spring-jms 9.6",
    "spring-jms 8/spring.activemq.pool.max-sessions-per-connection",
    "spring-jms 8/spring.activemq.pool.block-if-full",
)
async def test_a_full_pool_refuses_at_once_if_it_does_not_block(provider: JmsProvider) -> None:
    async with PooledConnectionFactory(
        provider, max_sessions_per_connection=2, block_if_full=False
    ) as pool:
        handle = await pool.create_connection()
        sessions = [await handle.create_session() for _ in range(2)]
        with pytest.raises(IllegalStateException, match="all 2 sessions of mode AUTO"):
            await handle.create_session()
        await handle.create_session(transacted=True)  # a mode of its own
        await sessions[0].close()
        await handle.create_session()
        assert pool.stats.refused_sessions.count == 1


@pytest.mark.fact("spring-jms 9.6", "spring-jms 8/spring.activemq.pool.block-if-full-timeout")
async def test_a_full_pool_waits_and_then_refuses(
    provider: JmsProvider, clock: VirtualClock
) -> None:
    async with PooledConnectionFactory(
        provider, max_sessions_per_connection=1, block_if_full_timeout=5
    ) as pool:
        handle = await pool.create_connection()
        await handle.create_session()
        errors: list[str] = []

        async def take() -> None:
            try:
                await handle.create_session()
            except IllegalStateException as error:
                errors.append(str(error))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take)
            await clock.advance(4)
            assert errors == []
            await clock.advance(2)
        assert "5 seconds" in errors[0]
        assert pool.stats.session_wait_time.total_time == 5


async def test_waiting_callers_are_served_in_their_order(provider: JmsProvider) -> None:
    async with PooledConnectionFactory(provider, max_sessions_per_connection=1) as pool:
        handle = await pool.create_connection()
        served: list[int] = []

        async def work(number: int) -> None:
            async with await handle.create_session():
                served.append(number)
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(work, number)
                await anyio.wait_all_tasks_blocked()
        assert served == list(range(20))
        assert provider.counts["Connection.createSession"] == 1


async def test_a_cancelled_wait_loses_no_session(provider: JmsProvider) -> None:
    async with PooledConnectionFactory(provider, max_sessions_per_connection=1) as pool:
        handle = await pool.create_connection()
        session = await handle.create_session()

        async def use() -> None:
            async with await handle.create_session():
                pass

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(use)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(use)
            await anyio.wait_all_tasks_blocked()
            await session.close()  # given to the waiting call, which is cancelled
            tasks.cancel_scope.cancel()
        with anyio.fail_after(5):
            await handle.create_session()
        assert pool.stats.active_sessions.count == 1


async def test_a_failed_opening_leaves_room_for_another_one(provider: JmsProvider) -> None:
    async with PooledConnectionFactory(
        provider, max_sessions_per_connection=1, block_if_full=False
    ) as pool:
        handle = await pool.create_connection()
        provider.fail_next["Connection.createSession"] = JMSException("not now")
        with pytest.raises(JMSException, match="not now"):
            await handle.create_session()
        await handle.create_session()


async def test_waiting_callers_are_refused_when_the_connection_is_closed(
    provider: JmsProvider,
) -> None:
    async with PooledConnectionFactory(provider, max_sessions_per_connection=1) as pool:
        handle = await pool.create_connection()
        await handle.create_session()
        errors: list[type] = []

        async def take() -> None:
            try:
                await handle.create_session()
            except JMSException as error:
                errors.append(type(error))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take)
            await anyio.wait_all_tasks_blocked()
            provider.break_down("lost")
        assert errors == [ConnectionClosedException]


@pytest.mark.fact("spring-jms 9.11")
async def test_delivery_delay_is_refused_by_a_pool_of_jms_11(provider: JmsProvider) -> None:
    async with PooledConnectionFactory(provider) as pool:
        session = await (await pool.create_connection()).create_session()
        producer = await session.create_producer(Queue("q"))
        message = session.create_text_message("1")
        assert producer.delivery_delay == 0
        with pytest.raises(UnsupportedOperationException, match="delivery_delay"):
            producer.delivery_delay = 5
        with pytest.raises(UnsupportedOperationException, match="JmsPoolConnectionFactory"):
            await producer.send(message, delivery_delay=5)
    async with JmsPoolConnectionFactory(provider) as pool:
        session = await (await pool.create_connection()).create_session()
        producer = await session.create_producer(Queue("q"))
        producer.delivery_delay = 5
        await producer.send(message)
        await producer.send(message, delivery_delay=7)
        assert [sent.delivery_time for sent in provider.messages("q")] == [6000, 8000]


async def test_any_number_of_sessions(provider: JmsProvider) -> None:
    async with PooledConnectionFactory(
        provider, max_sessions_per_connection=-1, block_if_full=False
    ) as pool:
        handle = await pool.create_connection()
        for _ in range(600):
            await handle.create_session()
        assert pool.stats.active_sessions.count == 600


@pytest.mark.fact("spring-jms 9.7", "spring-jms 9.8")
async def test_a_closed_session_is_clean_and_back_in_the_pool(provider: JmsProvider) -> None:
    async with PooledConnectionFactory(provider) as pool:
        handle = await pool.create_connection()
        session = await handle.create_session(transacted=True)
        consumer = await session.create_consumer(Queue("q"))
        await session.create_browser(Queue("q"))
        await session.set_message_listener(lambda message: None)
        producer = await session.create_producer(Queue("q"))
        await producer.send(session.create_text_message("not committed"))
        target = cast("Any", session)._target()
        provider.calls.clear()
        await session.close()
        await session.close()
        assert target.message_listener is None
        assert consumer.is_closed
        assert provider.count("Session.rollback", "Session.close") == {
            "Session.rollback": 1, "Session.close": 0,
        }  # fmt: skip
        assert provider.texts("q") == []
        again = await handle.create_session(transacted=True)
        assert cast("Any", again)._target() is target
        assert pool.stats.active_sessions.count == 1


@pytest.mark.fact("spring-jms 9.7")
async def test_a_session_that_cannot_be_cleaned_up_is_discarded(provider: JmsProvider) -> None:
    async with PooledConnectionFactory(provider, max_sessions_per_connection=1) as pool:
        handle = await pool.create_connection()
        session = await handle.create_session(transacted=True)
        target = cast("Any", session)._target()
        provider.fail_next["Session.rollback"] = JMSException("failed")
        await session.close()
        assert target.closed
        again = await handle.create_session(transacted=True)
        assert cast("Any", again)._target() is not target
        assert (pool.stats.discarded_sessions.count, pool.stats.sessions.count) == (1, 1)


@pytest.mark.fact("spring-jms 9.8")
async def test_consumers_are_never_pooled(provider: JmsProvider) -> None:
    async with PooledConnectionFactory(provider) as pool:
        handle = await pool.create_connection()
        session = await handle.create_session()
        for _ in range(3):
            async with await session.create_consumer(Queue("q")):
                pass
        assert provider.counts["Session.createConsumer"] == 3
        assert provider.counts["Consumer.close"] == 3


@pytest.mark.fact("spring-jms 9.8", "spring-jms 8/spring.activemq.pool.use-anonymous-producers")
async def test_one_producer_serves_all_of_a_session(provider: JmsProvider) -> None:
    async with PooledConnectionFactory(provider) as pool:
        session = await (await pool.create_connection()).create_session()
        first = await session.create_producer(Queue("a"))
        second = await session.create_producer(Queue("b"))
        anyone = await session.create_producer()
        assert provider.counts["Session.createProducer"] == 1
        first.priority = 7
        first.delivery_mode = DeliveryMode.NON_PERSISTENT
        first.time_to_live = 2
        first.disable_message_id = first.disable_message_timestamp = True
        await first.send(session.create_text_message("1"))
        await second.send(session.create_text_message("2"))
        await anyone.send(Queue("c"), session.create_text_message("3"))
        (sent,), (other,) = provider.messages("a"), provider.messages("b")
        assert (sent.priority, sent.delivery_mode, sent.expiration) == (7, 1, 3000)
        assert (other.priority, other.delivery_mode, other.expiration) == (4, 2, 0)
        assert sent.message_id is not None  # these hints are not passed on
        assert sent.timestamp == 1000
        assert provider.texts("c") == ["3"]
        with pytest.raises(UnsupportedOperationException, match="only send messages to: a"):
            await first.send(Queue("b"), session.create_text_message())
        with pytest.raises(UnsupportedOperationException, match="must be specified"):
            await anyone.send(session.create_text_message())
        await first.close()
        assert provider.counts["Producer.close"] == 0
        with pytest.raises(IllegalStateException):
            await first.send(session.create_text_message())


@pytest.mark.fact("spring-jms 9.8")
async def test_without_anonymous_producers_each_call_creates_one(provider: JmsProvider) -> None:
    async with PooledConnectionFactory(provider, use_anonymous_producers=False) as pool:
        session = await (await pool.create_connection()).create_session()
        for _ in range(2):
            async with await session.create_producer(Queue("a")) as producer:
                await producer.send(session.create_text_message("1"))
        assert provider.counts["Session.createProducer"] == provider.counts["Producer.close"] == 2
        await session.create_producer(Queue("a"))
        await session.close()
        assert provider.counts["Producer.close"] == 3


async def test_explicit_producers_are_kept_up_to_a_number(provider: JmsProvider) -> None:
    async with JmsPoolConnectionFactory(
        provider, use_anonymous_producers=False, explicit_producer_cache_size=2
    ) as pool:
        session = await (await pool.create_connection()).create_session()
        for name in "abab":
            await (await session.create_producer(Queue(name))).close()
        assert provider.counts["Session.createProducer"] == 2
        await (await session.create_producer(Queue("c"))).close()
        assert provider.counts["Producer.close"] == 1  # that of a: used longest ago
        await session.create_producer(Queue("b"))
        assert provider.counts["Session.createProducer"] == 3


async def test_a_producer_that_is_kept_no_longer_serves_its_open_handles(
    provider: JmsProvider,
) -> None:
    async with JmsPoolConnectionFactory(
        provider, use_anonymous_producers=False, explicit_producer_cache_size=1
    ) as pool:
        session = await (await pool.create_connection()).create_session()
        producers = [await session.create_producer(Queue(name)) for name in "abc"]
        assert provider.counts["Producer.close"] == 0
        for producer in producers:
            await producer.send(session.create_text_message("1"))
            await producer.close()
        await (await session.create_producer(Queue("d"))).close()
        assert provider.counts["Producer.close"] == 3
        assert [provider.texts(name) for name in "abc"] == [["1"]] * 3


@pytest.mark.fact("activemq-edges 11.24")
async def test_a_template_uses_one_connection_and_session(provider: JmsProvider) -> None:
    async with PooledConnectionFactory(provider) as pool:
        template = JmsTemplate(pool, receive_timeout=0)
        for number in range(10):
            await template.convert_and_send("q", str(number))
        assert [await template.receive_and_convert("q") for _ in range(10)] == list("0123456789")
        assert provider.counts["ConnectionFactory.createConnection"] == 1
        assert provider.counts["Connection.createSession"] == 1
        assert provider.counts["Session.createProducer"] == 1


# --- statistics


async def test_statistics_of_a_pool(provider: JmsProvider) -> None:
    pool = PooledConnectionFactory(provider)
    await pool.start()
    handle = await pool.create_connection()
    session = await handle.create_session()
    assert pool.stats.as_dict() | {"session_wait_time_count": 0} == pool.stats.as_dict()
    assert pool.stats.connections.count == pool.stats.created_connections.count == 1
    assert pool.stats.sessions.count == pool.stats.active_sessions.count == 1
    assert pool.stats.created_sessions.count == 1
    await session.close()
    await handle.close()
    await pool.stop()
    left = {name: value for name, value in pool.stats.as_dict().items() if value}
    assert left == {"created_connections": 1, "created_sessions": 1}
