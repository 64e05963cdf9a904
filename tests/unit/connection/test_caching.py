"""CachingConnectionFactory on a counting provider."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pyjms.connection.caching import CachingConnectionFactory
from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.errors import IllegalStateException, JMSException
from pyjms.jms.destination import Queue, Topic
from pyjms.jms.message import TextMessage
from pyjms.template.template import JmsTemplate
from tests.kit.clients.jms_provider import JmsProvider

CALLS = (
    "ConnectionFactory.createConnection", "Connection.start", "Connection.close",
    "Connection.createSession", "Session.close", "Session.createProducer", "Producer.close",
    "Session.createConsumer", "Consumer.close",
)  # fmt: skip


@pytest.mark.fact("spring-jms 3.2.1")
async def test_defaults(provider: JmsProvider) -> None:
    factory = CachingConnectionFactory(provider)
    # consumers as Spring Boot configures them: Spring's own class caches them (decisions D18)
    assert (factory.session_cache_size, factory.cache_producers, factory.cache_consumers) == (
        1, True, False,
    )  # fmt: skip
    assert factory.reconnect_on_exception
    with pytest.raises(ValueError):
        CachingConnectionFactory(provider, session_cache_size=0)


@pytest.mark.fact("spring-jms 3.2.8")
async def test_counts_of_ten_sends_and_receives(
    provider: JmsProvider, oracle: dict[str, Any]
) -> None:
    recorded = oracle["connection-factories"][2]
    template = JmsTemplate(CachingConnectionFactory(provider, cache_consumers=True))
    for number in range(10):
        await template.convert_and_send("q", str(number))
    assert {n: provider.counts[n] for n in CALLS} == recorded["10 x convertAndSend to one queue"]
    provider.counts.clear()
    for number in range(10):
        assert await template.receive_and_convert("q") == str(number)
    assert {n: provider.counts[n] for n in CALLS} == recorded["10 x receive from one queue"]


@pytest.mark.fact("spring-jms 3.2.2")
async def test_idle_sessions_per_mode(provider: JmsProvider) -> None:
    factory = CachingConnectionFactory(provider, session_cache_size=2)
    connection = await factory.create_connection()
    modes = [(False, AcknowledgeMode.AUTO), (False, AcknowledgeMode.CLIENT),
             (False, AcknowledgeMode.DUPS_OK), (True, AcknowledgeMode.AUTO)]  # fmt: skip
    for transacted, mode in modes:
        opened = [await connection.create_session(transacted, mode) for _ in range(3)]
        targets = [cast("Any", session)._target() for session in opened]
        assert len(set(map(id, targets))) == 3
        provider.counts.clear()
        for session in opened:
            await session.close()
        assert provider.counts["Session.close"] == 1  # the third: the limit is on idle ones
        again = [await connection.create_session(transacted, mode) for _ in range(2)]
        assert [cast("Any", session)._target() for session in again] == targets[
            :2
        ]  # first in, first out
        for session in again:
            await session.close()
        assert provider.counts["Session.close"] == 1  # the others are idle again


@pytest.mark.fact("spring-jms 3.2.3")
async def test_closing_a_session(provider: JmsProvider, oracle: dict[str, Any]) -> None:
    facts = oracle["connection-factories"][3]["facts"]
    factory = CachingConnectionFactory(provider, cache_consumers=True)
    connection = await factory.create_connection()
    session = await connection.create_session(transacted=True)
    producer = await session.create_producer(Queue("q"))
    await producer.send(TextMessage("open"))
    await session.close()
    closing = facts["closing a transacted cached session with open work"]
    assert provider.counts["Session.rollback"] == closing["Session.rollback"] == 1
    assert provider.counts["Session.commit"] == closing["Session.commit"] == 0
    await session.close()
    assert provider.counts["Session.close"] == 0  # kept, once:
    await connection.create_session(transacted=True)
    assert provider.counts["Connection.createSession"] == 1
    await connection.create_session(transacted=True)
    assert provider.counts["Connection.createSession"] == 2
    with pytest.raises(IllegalStateException):
        session.create_text_message("dead")
    with pytest.raises(IllegalStateException):
        await producer.send(TextMessage("dead"))

    session = await connection.create_session(transacted=True)
    producer = await session.create_producer(Queue("q"))
    await producer.send(TextMessage("committed"))
    await session.commit()
    await session.close()
    assert provider.counts["Session.rollback"] == facts["commit then close: further rollbacks"] == 1
    assert provider.texts("q") == facts["texts in t"]

    session = await connection.create_session(transacted=True)
    producer = await session.create_producer(Queue("q"))
    await session.rollback()
    await producer.send(TextMessage("after the rollback"))
    await session.close()
    assert provider.counts["Session.rollback"] == 3

    session = await connection.create_session()
    subscriber = await session.create_durable_subscriber(Topic("t"), "name")
    await subscriber.close()
    assert provider.counts["Consumer.close"] == 0
    await session.create_durable_subscriber(Topic("t"), "name")
    assert provider.counts["Session.createDurableSubscriber"] == 1
    await session.close()
    assert provider.counts["Consumer.close"] == 1
    assert provider.counts["Session.close"] == 0
    assert provider.counts["Session.rollback"] == 3


@pytest.mark.fact("spring-jms 3.2.4")
async def test_cache_keys(provider: JmsProvider, oracle: dict[str, Any]) -> None:
    facts = oracle["connection-factories"][3]["facts"]
    factory = CachingConnectionFactory(provider, cache_consumers=True)
    connection = await factory.create_connection()
    session = await connection.create_session()
    for destination in (Queue("a"), Queue("a"), Queue("b"), None):
        await (await session.create_producer(destination)).close()
    producers = facts["producers physically created for a, a again, b, null"]
    assert provider.counts["Session.createProducer"] == producers == 3
    await session.create_producer(Topic("a"))
    assert provider.counts["Session.createProducer"] == 4
    temporary = await session.create_temporary_queue()
    for destination, selector in ((Queue("a"), None), (Queue("a"), ""), (Queue("a"), "x = '1'"),
                                  (temporary, None)):  # fmt: skip
        await (await session.create_consumer(destination, selector)).close()
    consumers = facts[
        "consumers physically created for a, a again, a with selector, temporary queue"
    ]
    assert provider.counts["Session.createConsumer"] == consumers == 3
    closes = facts["physical consumer closes"]
    assert provider.counts["Consumer.close"] == closes == 1  # the temporary queue's
    await session.create_consumer(Topic("a"), no_local=True)
    await session.create_consumer(Topic("a"), no_local=False)
    assert provider.counts["Session.createConsumer"] == 5
    await session.create_durable_subscriber(Topic("a"), "one")
    await session.create_durable_subscriber(Topic("a"), "two")
    await session.create_durable_subscriber(Topic("a"), "two")
    assert provider.counts["Session.createDurableSubscriber"] == 2
    await session.create_producer(temporary)
    await session.create_producer(temporary)
    assert provider.counts["Session.createProducer"] == 6


@pytest.mark.fact("spring-jms 3.2.5")
async def test_handles(provider: JmsProvider, oracle: dict[str, Any]) -> None:
    facts = oracle["connection-factories"][3]["facts"]
    factory = CachingConnectionFactory(provider, cache_consumers=True)
    session = await (await factory.create_connection()).create_session()
    producer = await session.create_producer(Queue("q"))
    producer.delivery_mode, producer.priority, producer.time_to_live = DeliveryMode(1), 9, 5.0
    producer.disable_message_id = producer.disable_message_timestamp = True
    await producer.send(TextMessage("one"))
    await producer.close()
    await producer.close()
    consumer = await session.create_consumer(Queue("q"))
    await consumer.close()
    assert provider.counts["Producer.close"] == provider.counts["Consumer.close"] == 0
    again = await session.create_producer(Queue("q"))
    shown = f"{again.priority}/{int(again.delivery_mode)}"
    assert shown == facts["priority and delivery mode of the reused producer"]
    assert again.time_to_live == 0
    assert not again.disable_message_id
    assert not again.disable_message_timestamp
    await again.send(TextMessage("two"))
    await again.send(TextMessage("three"), priority=7)
    one, two, three = provider.messages("q")
    assert (one.priority, one.delivery_mode, one.message_id, one.expiration) == (9, 1, None, 6000)
    assert (two.priority, two.delivery_mode, two.expiration, three.priority) == (4, 2, 0, 7)
    assert two.message_id
    with pytest.raises(IllegalStateException):
        await consumer.receive(0)
    assert consumer.is_closed
    assert [message async for message in consumer] == []


async def test_listeners_go_with_their_handles(provider: JmsProvider) -> None:
    connection = await CachingConnectionFactory(provider).create_connection()
    session = await connection.create_session()
    target = cast("Any", session)._target()
    consumer = await session.create_consumer(Queue("q"))
    await consumer.set_message_listener(print)
    assert consumer.message_listener is print
    await session.set_message_listener(print)
    await session.close()
    assert target.message_listener is None
    again = await connection.create_session()
    assert (await again.create_consumer(Queue("q"))).message_listener is None


async def test_caches_can_be_turned_off(provider: JmsProvider) -> None:
    factory = CachingConnectionFactory(provider, cache_producers=False, cache_consumers=False)
    session = await (await factory.create_connection()).create_session()
    for _ in range(2):
        await (await session.create_producer(Queue("q"))).close()
        await (await session.create_consumer(Queue("q"))).close()
        await (await session.create_durable_subscriber(Topic("t"), "name")).close()
    assert provider.counts["Producer.close"] == 2
    assert provider.counts["Consumer.close"] == 4


@pytest.mark.fact("spring-jms 3.2.7")
@pytest.mark.parametrize("end", ["destroy", "reset_connection"])
async def test_ending(provider: JmsProvider, end: str, oracle: dict[str, Any]) -> None:
    facts = oracle["connection-factories"][3]["facts"]
    factory = CachingConnectionFactory(provider, session_cache_size=2, cache_consumers=True)
    connection = await factory.create_connection()
    idle, used = await connection.create_session(), await connection.create_session()
    await idle.create_producer(Queue("q"))
    await idle.create_consumer(Queue("q"))
    await idle.close()
    await getattr(factory, end)()
    assert provider.counts["Session.close"] == 1
    ended = facts["after destroy()"]
    assert provider.counts["Connection.close"] == ended["Connection.close"] == 1
    assert provider.counts["Producer.close"] == ended["Producer.close"] == 1
    assert provider.counts["Consumer.close"] == ended["Consumer.close"] == 1
    await used.close()
    assert provider.counts["Session.close"] == 2  # closed, not kept
    fresh = await (await factory.create_connection()).create_session()
    created = facts["createConnection after destroy makes a new physical connection"]
    assert provider.counts["ConnectionFactory.createConnection"] == created == 2
    assert cast("Any", fresh)._target() not in (idle, used)
    await factory.destroy()


async def test_a_session_that_cannot_be_cleaned_is_closed(provider: JmsProvider) -> None:
    factory = CachingConnectionFactory(provider, cache_consumers=True)
    session = await (await factory.create_connection()).create_session(transacted=True)
    await session.create_producer(Queue("q"))
    provider.failures["Session.rollback"] = JMSException("no rollback")
    with pytest.raises(JMSException, match="no rollback"):
        await session.close()
    assert provider.counts["Session.close"] == 1


async def test_the_rest_is_passed_on(provider: JmsProvider) -> None:
    session = await (await CachingConnectionFactory(provider).create_connection()).create_session()
    assert not session.transacted
    assert session.acknowledge_mode is AcknowledgeMode.AUTO
    assert session.create_queue("q") == Queue("q")
    assert session.create_topic("t") == Topic("t")
    assert session.create_bytes_message(b"x").data == b"x"
    assert session.create_object_message(b"x").data == b"x"
    assert session.create_stream_message().values == []
    assert session.create_message().message_id is None
    assert len(session.create_map_message()) == 0
    await session.unsubscribe("name")
    await session.recover()
    async with await session.create_browser(Queue("q")) as browser:
        assert [m async for m in browser] == []
    await session.delete_temporary(await session.create_temporary_topic())
    assert session.message_listener is None
    assert provider.counts["Session.unsubscribe"] == provider.counts["Session.recover"] == 1


async def test_a_use_without_work_is_not_rolled_back(provider: JmsProvider) -> None:
    connection = await CachingConnectionFactory(provider).create_connection()
    session = await connection.create_session(transacted=True)
    await (await session.create_producer(Queue("q"))).send(TextMessage("open"))
    await session.close()
    assert provider.counts["Session.rollback"] == 1
    await (await connection.create_session(transacted=True)).close()
    assert provider.counts["Session.rollback"] == 1


@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_a_failed_end_without_work_leaves_nothing_to_roll_back(
    provider: JmsProvider, end: str
) -> None:
    connection = await CachingConnectionFactory(provider).create_connection()
    session = await connection.create_session(transacted=True)
    provider.failures[f"Session.{end}"] = JMSException("lost")
    with pytest.raises(JMSException, match="lost"):
        await getattr(session, end)()
    provider.counts.clear()
    await session.close()
    assert provider.counts["Session.rollback"] == 0


@pytest.mark.parametrize("kind", ["producer", "consumer"])
async def test_a_handle_of_a_session_that_was_closed_meanwhile_is_not_usable(
    provider: JmsProvider, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    factory = CachingConnectionFactory(provider, cache_consumers=True)
    connection = await factory.create_connection()
    session = await connection.create_session(transacted=True)
    target = cast("Any", session)._target()
    create = getattr(target, f"create_{kind}")

    async def create_and_lose(*args: Any, **options: Any) -> Any:
        created = await create(*args, **options)
        await session.close()
        return created

    monkeypatch.setattr(target, f"create_{kind}", create_and_lose)
    with pytest.raises(IllegalStateException):
        await getattr(session, f"create_{kind}")(Queue("q"))
    other = await connection.create_session(transacted=True)
    assert cast("Any", other)._target() is target
    await other.commit()
    assert provider.texts("q") == []
