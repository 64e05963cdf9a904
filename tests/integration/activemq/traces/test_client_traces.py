"""What was recorded of the JMS API, with our client at a real ActiveMQ 5.17.2.

The same scenarios run on the bundled broker in tests/integration/client.
"""

from __future__ import annotations

from typing import cast

import anyio
import pytest

from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.errors import InvalidSelectorException, JMSException
from pyjms.jms.destination import Queue, Topic
from pyjms.jms.message import Message
from pyjms.jms.types import Byte, Float, Long, Short
from pyjms.runtime import clock as _clock
from tests.kit.clients.remote import RemoteClient, client
from tests.kit.clients.rules import RULES, check_rule
from tests.kit.values import present

pytestmark = [pytest.mark.activemq, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

__all__ = ["client"]

TRANSACTED, CLIENT = AcknowledgeMode.TRANSACTED, AcknowledgeMode.CLIENT
LONG = 10.0
"""Timeout in seconds for expected events."""


@pytest.mark.parametrize("name", RULES)
async def test_a_rule(client: RemoteClient, name: str) -> None:
    await check_rule(client, name)


@pytest.mark.parametrize("how", ["CLIENT recover()", "transacted rollback()"])
async def test_a_batch_is_poisoned_as_a_whole(client: RemoteClient, how: str) -> None:
    recorded = next(line for line in client.oracle("unacked-batch-poison") if line["how"] == how)
    await client.send("q", "a", "b", "c", "d")
    connection = await client.connect()
    connection.redelivery_policy.maximum_redeliveries = 2
    mode = CLIENT if how.startswith("CLIENT") else TRANSACTED
    session = await client.session(mode, connection=connection)
    consumer = await session.create_consumer(client.destination("q"))
    rounds: list[str] = []
    for _ in range(3):
        for _ in range(3):
            message = await consumer.receive(LONG)
            assert message is not None
            rounds.append(f"{client.text(message)}#{message.delivery_count}")
        await (session.recover() if mode == CLIENT else session.rollback())
    last = await consumer.receive(LONG)
    await session.close()
    assert rounds == recorded["received3PerRound"]
    expected = recorded["nextReceiveAfterThirdRollback"]
    assert last is not None
    assert f"{client.text(last)}#{last.delivery_count}" == expected
    dead = await client.dead_letters(len(recorded["dlq"]))
    assert [client.text(m) for m in dead] == recorded["dlq"]
    assert await client.left("q") == recorded["queue"]


async def test_expiry(client: RemoteClient) -> None:
    recorded = client.oracle("jms-expiry-order-ack")
    session = await client.session()
    consumer = await session.create_consumer(client.destination("e"))
    await session.connection.stop()  # what expires waits in the consumer's buffer
    await client.send("e", "short", time_to_live=0.001)
    await client.send("e", "gone", time_to_live=0.001, delivery_mode=DeliveryMode.NON_PERSISTENT)
    await client.send("e", "long", time_to_live=600)
    await _clock.sleep(0.01)
    await session.connection.start()
    received = [client.text(await consumer.receive(LONG))]
    assert received == recorded["received after expiry"]
    (dead,) = await client.dead_letters(1)
    (expected,) = recorded["dlq after expiry"]
    assert client.text(dead) == expected["text"]
    assert str(dead.destination) == expected["JMSDestination"]
    assert dead.original_destination == client.destination("e")
    assert (dead.delivery_mode, dead.priority, dead.expiration) == (2, 4, 0)
    cause = str(dead.properties["dlqDeliveryFailureCause"])
    assert cause.startswith("java.lang.Throwable: Message Expired. Expiration:")


async def test_order_visibility_and_acknowledgement(client: RemoteClient) -> None:
    recorded = client.oracle("jms-expiry-order-ack")
    session = await client.session(TRANSACTED)
    producer = await session.create_producer(client.destination("p"))
    for index, priority in enumerate((1, 9, 5, 4, 9)):
        await producer.send(session.create_text_message(f"p{priority}-{index}"), priority=priority)
    browser = await (await client.session()).create_browser(cast("Queue", client.destination("p")))
    key = "uncommitted message visible to browser"
    assert [client.text(m) async for m in browser] == recorded[key]
    await session.commit()
    key = "order of priorities 1,9,5,4,9 (broker default: prioritizedMessages=false)"
    assert await client.left("p") == recorded[key]

    await producer.send(session.create_text_message("not committed"))
    await session.close()
    assert await client.left("p") == recorded["after closing the transacted session"]

    await client.send("r", "m1", "m2", "m3")
    session = await client.session(TRANSACTED)
    consumer = await session.create_consumer(client.destination("r"))
    first = [client.text(await consumer.receive(LONG)) for _ in range(2)]
    await consumer.close()
    await session.rollback()
    other = await session.create_consumer(client.destination("r"))
    second = [client.delivery(await other.receive(LONG)) for _ in range(3)]
    key = "two received in a transaction, consumer closed, rollback; new consumer gets"
    assert {"first": first, "second": second} == recorded[key]

    for mode, queue, key in (
        (
            CLIENT,
            "c",
            "CLIENT_ACKNOWLEDGE: ack of the 2nd of 3 received acknowledges all received; left",
        ),
        (AcknowledgeMode.INDIVIDUAL, "i", "INDIVIDUAL_ACKNOWLEDGE(4): ack of the 2nd of 3; left"),
    ):
        await client.send(queue, "1", "2", "3")
        session = await client.session(mode)
        consumer = await session.create_consumer(client.destination(queue))
        received = [await consumer.receive(LONG) for _ in range(3)]
        present(received[1]).acknowledge()
        await session.close()
        assert await client.left(queue) == recorded[key]


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        (AcknowledgeMode.AUTO, "AUTO_ACKNOWLEDGE"),
        (AcknowledgeMode.CLIENT, "CLIENT_ACKNOWLEDGE"),
        (AcknowledgeMode.DUPS_OK, "DUPS_OK_ACKNOWLEDGE"),
        (AcknowledgeMode.INDIVIDUAL, "INDIVIDUAL_ACKNOWLEDGE(4)"),
        (AcknowledgeMode.TRANSACTED, "transacted"),
    ],
)
async def test_a_listener_that_throws(
    client: RemoteClient, mode: AcknowledgeMode, name: str
) -> None:
    recorded = client.oracle("jms-raw-listeners")[f"listener throws on m2, {name}"]
    await client.send("q", "m1", "m2", "m3")
    session = await client.session(mode)
    consumer = await session.create_consumer(client.destination("q"))
    deliveries: list[str | None] = []
    done = anyio.Event()

    def listener(message: Message) -> None:
        deliveries.append(client.delivery(message))
        if client.text(message) == "m3":
            done.set()
        if client.text(message) == "m2":
            raise RuntimeError("listener fails")

    await consumer.set_message_listener(listener)
    with anyio.fail_after(30):
        await done.wait()
    await session.close()  # waits for the listener
    assert deliveries == recorded["deliveries"]
    dead = await client.dead_letters(len(recorded["dlq"]))
    assert [client.text(m) for m in dead] == recorded["dlq"]
    if dead:
        cause = dead[-1].properties["dlqDeliveryFailureCause"]
        start = (
            "java.lang.Throwable: Delivery[7] exceeds redelivery policy limit:RedeliveryPolicy {"
        )
        assert str(cause).startswith(start)
        assert str(cause).endswith("}, cause:RuntimeError: listener fails")
    assert await client.left("q") == recorded["leftAfterClose"]


@pytest.mark.parametrize("what", ["consumer", "session", "connection"])
async def test_a_listener_closes_what_it_belongs_to(client: RemoteClient, what: str) -> None:
    await client.send("q", "m1", "m2")
    connection = await client.connect()
    session = await client.session(connection=connection)
    consumer = await session.create_consumer(client.destination("q"))
    closed = anyio.Event()

    async def listener(message: Message) -> None:
        await {"consumer": consumer, "session": session, "connection": connection}[what].close()
        closed.set()

    await consumer.set_message_listener(listener)
    with anyio.fail_after(30):
        await closed.wait()
    expected = client.oracle("jms-raw-listeners")[f"listener closes its own {what}"]
    await session.close()
    assert {"result": "ok", "left": await client.left("q")} == expected


async def test_topics_browsers_and_sends(client: RemoteClient) -> None:
    recorded = client.oracle("jms-raw-listeners")
    connection = await client.connect()
    session = await client.session(connection=connection)
    await client.send(client.topic("t"), "nobody is there")
    own = await session.create_consumer(client.topic("t"), no_local=True)
    other = await (await client.session()).create_consumer(client.topic("t"), no_local=True)
    producer = await session.create_producer(client.topic("t"))
    message = session.create_text_message("x")
    await producer.send(message)
    first_id = message.message_id
    assert (client.text(await other.receive(LONG)) == "x") is recorded["other consumer gets it"]
    assert (await own.receive(0.1) is not None) is (
        recorded["noLocal consumer gets own connection's message"]
    )
    await producer.send(message)
    assert (message.message_id != first_id) is (
        recorded["same message object sent twice has a new id"]
    )
    assert str(first_id).startswith(recorded["message id begins with"])
    received = await other.receive(LONG)  # not what was sent before it was there
    assert received is not None
    assert received.message_id == message.message_id
    assert recorded["topic message without subscriber is kept"] is False

    await client.send("q", "1", "2", "3")
    stopped = await client.connect(start=False)
    browsing = await client.session(connection=stopped)
    browser = await browsing.create_browser(cast("Queue", client.destination("q")))
    seen = [client.text(m) async for m in browser]
    assert len(seen) == recorded["browser on a connection that was not started sees"]
    await stopped.start()
    assert [client.text(m) async for m in browser] == recorded["browser after start sees"]
    look = aiter(browser)
    for _ in range(3):
        await anext(look)
    assert await anext(look, None) is recorded["nextElement past the end"]

    transacted = await client.session(TRANSACTED)
    producer = await transacted.create_producer(client.destination("many"))
    for number in range(1000):
        await producer.send(transacted.create_text_message(str(number)))
    await transacted.commit()
    browser = await session.create_browser(cast("Queue", client.destination("many")))
    seen = [client.text(m) async for m in browser]
    assert len(seen) == recorded["browsing a queue of 1000 messages sees"]

    producer = await session.create_producer(client.destination("empty"))
    for text in ("", None):
        await producer.send(session.create_text_message(text))
    empty, missing = await client.left("empty")
    assert repr(empty) == recorded["empty text arrives as"]
    assert missing is recorded["missing text arrives as"]


async def test_a_receive_whose_consumer_is_closed(client: RemoteClient) -> None:
    session = await client.session()
    consumer = await session.create_consumer(client.destination("q"))
    found: list[Message | None] = []

    async def receive() -> None:
        found.append(await consumer.receive(None))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive)
        await anyio.wait_all_tasks_blocked()
        await consumer.close()
    assert found == [None]
    recorded = client.oracle("jms-raw-listeners")
    assert recorded["receive() while another thread closes the consumer"] == "null"


async def test_a_durable_subscription_that_is_changed(client: RemoteClient) -> None:
    recorded = client.oracle("jms-raw-listeners")["durable subscription"]
    got: list[str | None] = []

    async def look(topic: str, selector: str | None, timeout: float = 0.1) -> None:
        async with await client.connect(client_id=client.prefix) as connection:
            session = await connection.create_session()
            subscriber = await session.create_durable_subscriber(
                cast("Topic", client.topic(topic)), "s", selector
            )
            got.append(client.text(await subscriber.receive(timeout)))

    await look("t", None)
    await client.send(client.topic("t"), "kept1", "kept2")
    await look("t", None, LONG)
    await look("t", "n = 1")
    await client.send(client.topic("t"), "lost")
    await look("t", None)
    await client.send(client.topic("t"), "lost too")
    await look("u", None)
    assert got == [None, "kept1", None, None, None]
    assert recorded[0] == "kept1"
    assert [line.rpartition(" ")[2] for line in recorded[1:]] == ["null"] * 3
    async with await client.connect(client_id=client.prefix) as connection:
        await (await connection.create_session()).unsubscribe("s")


PROPERTIES: dict[str, object] = {
    "colour": "red", "name": "50%_x'y", "i": 10, "l": Long(10), "d": 2.5, "f": Float(2.5),
    "b": Byte(3), "s": Short(5), "yes": True, "no": False, "num": "10", "multi": "a\nb",
}  # fmt: skip


ELSEWHERE = {
    "JMSMessageID IS NULL": "not",  # the recorded message was not sent
    "": "TRUE",  # of a consumer: none
    "XPATH '//a'": "!InvalidSelectorException",  # our client refuses it: bodies are not searched
}


async def test_selectors(client: RemoteClient) -> None:
    """Each selector that the broker accepts, as a consumer's: it gets the message or not."""
    # ActiveMQ goes on to convert strings in a selector that it has once parsed with this prefix
    recorded = client.oracle("jms-selectors")["results"]
    results = {t: r for t, r in recorded.items() if not t.startswith("convert_string_expressions")}
    queue = client.destination("q")
    session = await client.session()
    message = session.create_text_message("x")
    message.type = "car"
    message.properties.update(PROPERTIES)
    await (await session.create_producer(queue)).send(message, priority=7)
    found: dict[str, str] = {}
    for text in results:
        try:
            browser = await session.create_browser(cast("Queue", queue), text)
            seen = [m async for m in browser]
        except (InvalidSelectorException, JMSException) as refusal:
            found[text] = f"!{type(refusal).__name__}"
        else:
            found[text] = "TRUE" if seen else "not"
            await browser.close()
    expected = {
        text: result if result in ("TRUE", "!InvalidSelectorException") else "not"
        for text, result in results.items()
    }
    expected |= ELSEWHERE
    assert {t: (r, expected[t]) for t, r in found.items() if r != expected[t]} == {}
    assert len(found) == 121
