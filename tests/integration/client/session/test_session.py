"""Acknowledgement, transactions and recovery: JMS sections 4.4.7 to 4.4.13."""

from __future__ import annotations

import anyio
import pytest

from pyjms.enums import AcknowledgeMode
from pyjms.errors import IllegalStateException, InvalidDestinationException, JMSException
from pyjms.jms.destination import Queue, TemporaryQueue, Topic
from pyjms.jms.message import BytesMessage, Message, ObjectMessage
from tests.kit.clients.embedded import Client
from tests.kit.clients.messages import text_of
from tests.kit.values import present

AUTO, CLIENT = AcknowledgeMode.AUTO, AcknowledgeMode.CLIENT
DUPS_OK, INDIVIDUAL = AcknowledgeMode.DUPS_OK, AcknowledgeMode.INDIVIDUAL
TRANSACTED = AcknowledgeMode.TRANSACTED


@pytest.mark.fact("jms-api 2.1")
def test_the_modes_have_the_numbers_of_jms() -> None:
    assert (TRANSACTED, AUTO, CLIENT, DUPS_OK) == (0, 1, 2, 3)


@pytest.mark.fact("jms-api 2.2", "activemq-broker A3")
async def test_auto_acknowledges_when_receive_returns_and_when_the_listener_has_returned(
    client: Client,
) -> None:
    await client.send("q", "a", "b", "c")
    session = await client.session()
    consumer = await session.create_consumer(Queue("q"))
    assert client.text(await consumer.receive(1)) == "a"
    await client.settle()
    assert client.broker.queue_statistics("q").dequeues == 1

    dequeued_during_call: list[int] = []

    async def listener(message: Message) -> None:
        assert len(consumer.ledger.delivered) == 1, "only one could be redelivered after a crash"
        await client.settle()
        dequeued_during_call.append(client.broker.queue_statistics("q").dequeues)

    await consumer.set_message_listener(listener)
    await client.broker.drained("q")
    assert dequeued_during_call == [1, 2]
    assert consumer.ledger.delivered == []


@pytest.mark.fact("jms-api 2.3", "activemq-broker A4")
async def test_dups_ok_is_auto_on_queues_and_lazy_on_topics(client: Client) -> None:
    session = await client.session(DUPS_OK)
    queue = await session.create_consumer(Queue("q"))
    topic = await session.create_consumer(Topic("t?consumer.prefetchSize=4"))
    await client.send("q", "a")
    await client.send(Topic("t"), "1", "2", "3")
    await queue.receive(1)
    await client.settle()
    assert client.broker.queue_statistics("q").dequeues == 1
    await topic.receive(1)
    assert len(topic.ledger.delivered) == 1
    await topic.receive(1)
    assert topic.ledger.delivered == []
    await topic.receive(1)
    assert len(topic.ledger.delivered) == 1


@pytest.mark.fact("jms-api 2.4", "activemq-broker A5")
async def test_client_acknowledges_everything_the_session_consumed(client: Client) -> None:
    await client.send("q", "1", "2", "3")
    await client.send("other", "x")
    session = await client.session(CLIENT)
    consumer = await session.create_consumer(Queue("q"))
    other = await session.create_consumer(Queue("other"))
    await other.receive(1)
    await other.close()
    received = [await consumer.receive(1) for _ in range(3)]
    await client.settle()
    assert client.broker.queue_statistics("q").dequeues == 0
    present(received[1]).acknowledge()
    present(received[1]).acknowledge()
    await session.close()
    assert await client.left("q") == []
    assert await client.left("other") == []
    ours = "CLIENT_ACKNOWLEDGE: ack of the 2nd of 3 received acknowledges all received; left"
    assert client.oracle("jms-expiry-order-ack")[ours] == []


@pytest.mark.fact("jms-api 2.4")
async def test_client_counts_a_message_when_its_listener_has_been_called(client: Client) -> None:
    await client.send("q", "1", "2")
    session = await client.session(CLIENT)
    consumer = await session.create_consumer(Queue("q"))
    seen: list[Message] = []
    second = anyio.Event()

    def listener(message: Message) -> None:
        seen.append(message)
        if len(seen) == 2:
            message.acknowledge()
            second.set()

    await consumer.set_message_listener(listener)
    await second.wait()
    await session.close()
    assert await client.left("q") == []


@pytest.mark.parametrize("mode", [AUTO, DUPS_OK, TRANSACTED])
@pytest.mark.fact("jms-api 2.5")
async def test_acknowledge_is_ignored_in_other_modes_but_not_on_a_closed_session(
    client: Client, mode: AcknowledgeMode
) -> None:
    await client.send("q", "1", "2")
    session = await client.session(mode)
    consumer = await session.create_consumer(Queue("q"))
    message = await consumer.receive(1)
    assert message is not None
    message.acknowledge()
    assert client.text(await consumer.receive(1)) == "2"
    await session.close()
    with pytest.raises(IllegalStateException):
        assert message is not None
        message.acknowledge()
    left = ["1", "2"] if mode == TRANSACTED else []
    assert await client.left("q") == left


@pytest.mark.fact("jms-api 2.5")
async def test_acknowledge_on_a_closed_client_session_is_refused(client: Client) -> None:
    await client.send("q", "1")
    session = await client.session(CLIENT)
    message = await (await session.create_consumer(Queue("q"))).receive(1)
    await session.close()
    with pytest.raises(IllegalStateException, match="The Session is closed"):
        assert message is not None
        message.acknowledge()


@pytest.mark.fact("jms-api 2.6")
async def test_recover_delivers_the_unacknowledged_again_before_newer_ones(client: Client) -> None:
    await client.send("q", "1", "2", "3")
    session = await client.session(CLIENT)
    consumer = await session.create_consumer(Queue("q"))
    assert [client.delivery(await consumer.receive(1)) for _ in range(2)] == ["1#1", "2#1"]
    await session.recover()
    again = [client.delivery(await consumer.receive(2)) for _ in range(3)]
    assert again == ["1#2*", "2#2*", "3#1"]

    transacted = await client.session(TRANSACTED)
    with pytest.raises(IllegalStateException):
        await transacted.recover()


@pytest.mark.fact("jms-api 2.6")
async def test_recover_inside_an_auto_listener_redelivers_the_message_in_hand(
    client: Client,
) -> None:
    await client.send("q", "1")
    session = await client.session()
    consumer = await session.create_consumer(Queue("q"))
    seen: list[str | None] = []
    twice = anyio.Event()

    async def listener(message: Message) -> None:
        seen.append(client.delivery(message))
        if len(seen) == 1:
            await session.recover()
        else:
            twice.set()

    await consumer.set_message_listener(listener)
    await twice.wait()
    await client.broker.drained("q")
    assert seen == ["1#1", "1#2*"]


@pytest.mark.fact("jms-api 2.7")
async def test_individual_acknowledges_that_message_only(client: Client) -> None:
    await client.send("q", "1", "2", "3")
    session = await client.session(INDIVIDUAL)
    consumer = await session.create_consumer(Queue("q"))
    received = [await consumer.receive(1) for _ in range(3)]
    present(received[1]).acknowledge()
    present(received[1]).acknowledge()
    await session.close()
    left = await client.left("q")
    assert (
        left
        == client.oracle("jms-expiry-order-ack")[
            "INDIVIDUAL_ACKNOWLEDGE(4): ack of the 2nd of 3; left"
        ]
    )


@pytest.mark.fact("jms-api 2.8")
async def test_commit_and_rollback_need_a_transacted_session_but_no_work(client: Client) -> None:
    plain = await client.session()
    for call in (plain.commit, plain.rollback):
        with pytest.raises(IllegalStateException, match="Not a transacted session"):
            await call()
    transacted = await client.session(TRANSACTED)
    await transacted.commit()
    await transacted.rollback()


@pytest.mark.fact("jms-api 2.9", "jms-api 2.11")
async def test_commit_makes_sends_visible_and_acknowledges_in_one_unit(client: Client) -> None:
    await client.send("in", "request")
    session = await client.session(TRANSACTED)
    consumer = await session.create_consumer(Queue("in"))
    own = await session.create_consumer(Queue("out"))
    producer = await session.create_producer(Queue("out"))
    browsing = await client.session()
    browser = await browsing.create_browser(Queue("out"))
    assert client.text(await consumer.receive(1)) == "request"
    await producer.send(session.create_text_message("answer"))
    assert await own.receive(0.2) is None
    assert [client.text(m) async for m in browser] == []
    assert client.broker.queue_statistics("in").messages == 1
    await session.commit()
    assert client.broker.queue_statistics("in").messages == 0
    assert client.text(await own.receive(1)) == "answer"
    await producer.send(session.create_text_message("in the next transaction"))
    await session.rollback()
    assert client.text(await own.receive(2)) == "answer"
    await session.commit()
    assert await client.left("out") == []
    assert client.oracle("jms-expiry-order-ack")["uncommitted message visible to browser"] == []


@pytest.mark.fact("jms-api 2.10")
async def test_rollback_and_close_drop_sends_and_give_messages_back(client: Client) -> None:
    await client.send("q", "1", "2")
    session = await client.session(TRANSACTED)
    consumer = await session.create_consumer(Queue("q"))
    producer = await session.create_producer(Queue("out"))
    assert [client.delivery(await consumer.receive(1)) for _ in range(2)] == ["1#1", "2#1"]
    await producer.send(session.create_text_message("dropped"))
    await session.rollback()
    again = [client.delivery(await consumer.receive(2)) for _ in range(2)]
    assert again == ["1#2*", "2#2*"]
    await producer.send(session.create_text_message("dropped"))
    await session.close()
    assert await client.left("out") == []
    assert [m.redelivered for m in await client.take("q")] == [True, True]

    await client.send("q", "3")
    connection = await client.connect()
    session = await client.session(TRANSACTED, connection=connection)
    await (await session.create_consumer(Queue("q"))).receive(1)
    producer = await session.create_producer(Queue("out"))
    await producer.send(session.create_text_message("dropped"))
    await connection.close()
    assert await client.left("out") == []
    assert [client.delivery(m) for m in await client.take("q")] == ["3#2*"]


@pytest.mark.fact("jms-api 2.12")
async def test_close_ends_blocked_receives_and_waits_for_the_running_listener(
    client: Client,
) -> None:
    session = await client.session()
    consumer = await session.create_consumer(Queue("empty"))
    results: list[object] = []

    async def wait() -> None:
        results.append(await consumer.receive())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await client.settle()
        await session.close()
    assert results == [None]
    await session.close()

    await client.send("q", "1")
    session = await client.session()
    consumer = await session.create_consumer(Queue("q"))
    called, go_on = anyio.Event(), anyio.Event()
    order: list[str] = []

    async def listener(message: Message) -> None:
        called.set()
        await go_on.wait()
        order.append("listener done")

    async def close() -> None:
        await session.close()
        order.append("closed")

    await consumer.set_message_listener(listener)
    await called.wait()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(close)
        await client.settle()
        assert order == []
        go_on.set()
    assert order == ["listener done", "closed"]
    assert await client.left("q") == []


@pytest.mark.parametrize("what", ["consumer", "session", "connection"])
@pytest.mark.fact("jms-api 1.4", "jms-api 2.12", "jms-api 4.7")
async def test_a_listener_may_close_what_it_belongs_to(client: Client, what: str) -> None:
    await client.send("q", "m1", "m2")
    connection = await client.connect()
    session = await client.session(connection=connection)
    consumer = await session.create_consumer(Queue("q"))
    closed = anyio.Event()

    async def listener(message: Message) -> None:
        await {"consumer": consumer, "session": session, "connection": connection}[what].close()
        closed.set()

    await consumer.set_message_listener(listener)
    await closed.wait()
    left = await client.left("q")
    expected = client.oracle("jms-raw-listeners")[f"listener closes its own {what}"]
    assert {"result": "ok", "left": left} == expected


@pytest.mark.fact("jms-api 1.4")
async def test_a_listener_may_stop_its_connection(client: Client) -> None:
    await client.send("q", "m1", "m2")
    connection = await client.connect()
    session = await client.session(connection=connection)
    consumer = await session.create_consumer(Queue("q"))
    seen: list[str | None] = []
    stopped = anyio.Event()

    async def listener(message: Message) -> None:
        seen.append(client.text(message))
        await connection.stop()
        stopped.set()

    await consumer.set_message_listener(listener)
    await stopped.wait()
    await client.settle()
    assert seen == ["m1"]


@pytest.mark.fact("jms-api 2.13", "activemq-edges N8", "jms-api 12.2")
async def test_one_listener_call_at_a_time_for_all_consumers_of_a_session(client: Client) -> None:
    session = await client.session()
    one = await session.create_consumer(Queue("one"))
    two = await session.create_consumer(Queue("two"))
    running = 0
    most = 0
    seen: list[str | None] = []
    done = anyio.Event()

    async def listener(message: Message) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        running -= 1
        seen.append(client.text(message))
        if len(seen) == 6:
            done.set()

    await one.set_message_listener(listener)
    await two.set_message_listener(listener)
    with pytest.raises(
        IllegalStateException,
        match="Cannot synchronously receive a message when a MessageListener is set",
    ):
        await one.receive(0)
    third = await session.create_consumer(Queue("three"))
    with pytest.raises(IllegalStateException):
        await third.receive(0)
    await client.send("one", "a", "b", "c")
    await client.send("two", "d", "e", "f")
    await done.wait()
    assert most == 1
    assert sorted(map(str, seen)) == ["a", "b", "c", "d", "e", "f"]


@pytest.mark.fact("activemq-edges N18")
async def test_a_session_listener_gets_what_waits_from_run(client: Client) -> None:
    await client.send("q", "a", "b")
    session = await client.session()
    consumer = await session.create_consumer(Queue("q"))
    seen: list[str | None] = []
    await consumer.set_message_listener(lambda message: seen.append("own listener"))
    await session.set_message_listener(lambda message: seen.append(client.text(message)))
    await client.settle()
    assert seen == []
    with pytest.raises(IllegalStateException):
        await consumer.receive(0)
    await session.run()
    assert seen == ["a", "b"]
    await client.broker.drained("q")


@pytest.mark.fact("jms-api 2.14")
async def test_the_order_of_creation_does_not_matter(client: Client) -> None:
    connection = await client.connect(start=False)
    session = await client.session(connection=connection)
    producer = await session.create_producer(Queue("q"))
    await producer.send(session.create_text_message("early"))
    consumer = await session.create_consumer(Queue("q"))
    await connection.start()
    seen: list[str | None] = []
    both = anyio.Event()

    def listener(message: Message) -> None:
        seen.append(client.text(message))
        if len(seen) == 2:
            both.set()

    await consumer.set_message_listener(listener)
    await producer.send(session.create_text_message("late"))
    await both.wait()
    assert seen == ["early", "late"]


@pytest.mark.fact("activemq-broker D2")
@pytest.mark.fact("jms-api 2.15")
async def test_names_make_handles_only(client: Client) -> None:
    session = await client.session()
    assert session.create_queue("never.made") == Queue("never.made")
    assert session.create_topic("never.made") == Topic("never.made")
    assert Queue("never.made") not in client.broker.service.region_broker.destinations()
    with pytest.raises(InvalidDestinationException):
        session.create_queue(" ")
    assert isinstance(session.create_queue("ID:host-1-2-3:1:1"), TemporaryQueue)
    assert session.create_queue("q?consumer.prefetchSize=1").options == {
        "consumer.prefetchSize": "1"
    }
    assert session.create_queue("a,b").is_composite
    assert session.create_queue("a.*").is_pattern
    with pytest.raises(TypeError):
        session.create_queue(None)  # type: ignore[arg-type]


@pytest.mark.fact("jms-api 2.16")
async def test_unsubscribe_wants_a_known_name_that_is_not_in_use(client: Client) -> None:
    session = await client.session(client_id="me")
    subscriber = await session.create_durable_subscriber(Topic("t"), "name")
    with pytest.raises(JMSException):
        await session.unsubscribe("name")
    await subscriber.close()
    await session.unsubscribe("name")
    with pytest.raises(InvalidDestinationException):
        await session.unsubscribe("name")


@pytest.mark.parametrize("what", ["session", "connection"])
async def test_a_cancelled_close_cancels_a_listener_that_does_not_end(
    client: Client, what: str
) -> None:
    await client.send("q", "1")
    connection = await client.connect()
    session = await client.session(connection=connection)
    consumer = await session.create_consumer(Queue("q"))
    called = anyio.Event()
    ended: list[str] = []

    async def listener(message: Message) -> None:
        called.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")

    await consumer.set_message_listener(listener)
    await called.wait()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon({"session": session, "connection": connection}[what].close)
        await client.settle()
        assert ended == []
        tasks.cancel_scope.cancel()
    assert ended == ["cancelled"]
    with pytest.raises(IllegalStateException):
        session.create_message()


async def test_a_listener_may_close_its_connection_after_that_has_failed(client: Client) -> None:
    await client.send("q", "1")
    connection = await client.connect()
    session = await client.session(connection=connection)
    consumer = await session.create_consumer(Queue("q"))
    called, broken, closed = anyio.Event(), anyio.Event(), anyio.Event()

    async def listener(message: Message) -> None:
        called.set()
        await broken.wait()
        await connection.close()
        closed.set()

    await consumer.set_message_listener(listener)
    await called.wait()
    await client.broker.stop()
    broken.set()
    await closed.wait()


async def test_long_runs_of_messages_let_other_tasks_run(client: Client) -> None:
    texts = [str(n) for n in range(600)]
    await client.send("q", *texts)
    await client.send("r", *texts)
    session = await client.session()
    consumer = await session.create_consumer(Queue("q"))
    await client.settle()
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        await client.settle()
        before = turns
        got = [client.text(await consumer.receive(1)) for _ in texts]
        after_receive = turns
        listening = await (await client.session()).create_consumer(Queue("r"))
        seen: list[str | None] = []
        await listening.set_message_listener(lambda m: seen.append(client.text(m)))
        await client.broker.drained("r")
        tasks.cancel_scope.cancel()
    assert got == seen == texts
    assert after_receive - before >= 1
    # a burst ends after a millisecond, or 512 messages where, as here, time stands still
    assert turns - after_receive >= 600 // 512


async def test_each_kind_of_message_is_made_by_the_session(client: Client) -> None:
    session = await client.session()
    made = [
        session.create_message(),
        session.create_text_message("t"),
        session.create_bytes_message(b"b"),
        session.create_map_message(),
        session.create_stream_message(),
        session.create_object_message(b"o"),
    ]
    producer = await session.create_producer(Queue("q"))
    for message in made:
        await producer.send(message)
    received = await client.take("q")
    assert [type(m) for m in received] == [type(m) for m in made]
    assert text_of(received[1]) == "t"
    assert isinstance(received[2], BytesMessage)
    assert received[2].data == b"b"
    assert isinstance(received[5], ObjectMessage)
    assert received[5].data == b"o"
