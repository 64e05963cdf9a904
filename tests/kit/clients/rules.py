"""Uses and misuses of the API, as the real ActiveMQ answered them: oracle jms-client-rules.

Each is a function of a `Client`, of any broker; `check_rule` compares it with the recording.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pyjms import errors
from pyjms.enums import AcknowledgeMode
from pyjms.jms.message import TextMessage
from tests.kit.clients.embedded import Client
from tests.kit.clients.remote import RemoteClient

__all__ = ["NOT_HERE", "RULES", "check_rule"]

TRANSACTED, CLIENT = AcknowledgeMode.TRANSACTED, AcknowledgeMode.CLIENT
JAVA = {"NullPointerException": TypeError}

Rule = Callable[[Any], Awaitable[object]]
RULES: dict[str, Rule] = {}

# What cannot be asked in Python, or was recorded without advisories (jms-api 3.8).
NOT_HERE = {
    "send((Destination) null, message) on a bound producer": "None means the producer's own",
    "delete another connection's temporary queue": "recorded as not reachable",
    "send to a deleted temporary queue (own connection)": "test_producer, both ways",
    "send to a deleted temporary queue (other connection)": "test_producer, both ways",
    "metadata": "test_connection",
    "receive(200) after stop": "below, with receive after start",
}


def rule(name: str) -> Callable[[Rule], Rule]:
    def note(function: Rule) -> Rule:
        RULES[name] = function
        return function

    return note


async def one(client: Any, text: str = "1") -> Any:
    """A session and a consumer on a queue that has one message."""
    await client.send("q", text)
    session = await client.session()
    return session, await session.create_consumer(client.destination("q"))


@rule("receive(200) on a connection that was never started")
async def _(client: Any) -> object:
    await client.send("q", "1")
    session = await client.session(connection=await client.connect(start=False))
    return await (await session.create_consumer(client.destination("q"))).receive(0.2)


@rule("setClientID after createSession")
async def _(client: Any) -> object:
    session = await client.session()
    return await session.connection.set_client_id("late")


@rule("receive after start")
async def _(client: Any) -> object:
    _session, consumer = await one(client)
    received = client.text(await consumer.receive(1))
    await client.send("q", "2")
    await consumer.session.connection.stop()
    assert await consumer.receive(0.2) is None
    return received


@rule("commit on a session that is not transacted")
async def _(client: Any) -> object:
    return await (await client.session()).commit()


@rule("rollback on a session that is not transacted")
async def _(client: Any) -> object:
    return await (await client.session()).rollback()


@rule("recover on a transacted session")
async def _(client: Any) -> object:
    return await (await client.session(TRANSACTED)).recover()


@rule("commit without any work")
async def _(client: Any) -> object:
    return await (await client.session(TRANSACTED)).commit() or "ok"


@rule("createSession(false, SESSION_TRANSACTED)")
async def _(client: Any) -> object:
    return await (await client.connect()).create_session(False, TRANSACTED)


@rule("createSession(false, 9)")
async def _(client: Any) -> object:
    return await (await client.connect()).create_session(False, 9)


@rule("createSession(true, CLIENT_ACKNOWLEDGE).getAcknowledgeMode")
async def _(client: Any) -> object:
    return (await (await client.connect()).create_session(True, CLIENT)).acknowledge_mode


@rule("send(otherDestination) on a bound producer")
async def _(client: Any) -> object:
    producer = await (await client.session()).create_producer(client.destination("q"))
    return await producer.send(TextMessage("x"), destination=client.destination("other"))


@rule("send(message) on an unbound producer")
async def _(client: Any) -> object:
    return await (await (await client.session()).create_producer()).send(TextMessage("x"))


@rule("setPriority(10)")
async def _(client: Any) -> object:
    (await (await client.session()).create_producer()).priority = 10
    return None


@rule("setDeliveryMode(5)")
async def _(client: Any) -> object:
    (await (await client.session()).create_producer()).delivery_mode = 5
    return None


@rule("setTimeToLive(-1)")
async def _(client: Any) -> object:
    (await (await client.session()).create_producer()).time_to_live = -1
    return None


@rule("send with priority 15 arrives with priority")
async def _(client: Any) -> object:
    await client.send("q", "x", priority=15)
    return (await client.take("q"))[0].priority


@rule("send on a closed producer")
async def _(client: Any) -> object:
    producer = await (await client.session()).create_producer(client.destination("q"))
    await producer.close()
    return await producer.send(TextMessage("x"))


@rule("close a closed producer")
async def _(client: Any) -> object:
    producer = await (await client.session()).create_producer(client.destination("q"))
    await producer.close()
    return await producer.close() or "ok"


@rule("createConsumer(null)")
async def _(client: Any) -> object:
    return await (await client.session()).create_consumer(None)


@rule("createConsumer with a bad selector")
async def _(client: Any) -> object:
    return await (await client.session()).create_consumer(client.destination("q"), "a = = b")


@rule("empty selector means none")
async def _(client: Any) -> object:
    return (
        await (await client.session()).create_consumer(client.destination("q"), "")
    ).message_selector


@rule("setMessageListener and receive on one consumer")
async def _(client: Any) -> object:
    _session, consumer = await one(client)
    await consumer.set_message_listener(lambda message: None)
    return await consumer.receive(1)


@rule("createDurableSubscriber without client id")
async def _(client: Any) -> object:
    return await (await client.session()).create_durable_subscriber(client.topic("t"), "s")


@rule("createQueue(null)")
async def _(client: Any) -> object:
    return (await client.session()).create_queue(None)


@rule("delete a temporary queue with a consumer")
async def _(client: Any) -> object:
    session = await client.session()
    temporary = await session.create_temporary_queue()
    await session.create_consumer(temporary)
    return await session.delete_temporary(temporary)


@rule("consume from another connection's temporary queue")
async def _(client: Any) -> object:
    temporary = await (await client.session()).create_temporary_queue()
    return await (await client.session()).create_consumer(temporary)


@rule("send to another connection's temporary queue")
async def _(client: Any) -> object:
    temporary = await (await client.session()).create_temporary_queue()
    producer = await (await client.session()).create_producer(temporary)
    return await producer.send(TextMessage("x")) or "ok"


@rule("second connection with the same client id")
async def _(client: Any) -> object:
    await client.connect(client_id="same")
    return await client.connect(client_id="same")


@rule("setClientID twice")
async def _(client: Any) -> object:
    connection = await client.connect(start=False)
    await connection.set_client_id("one")
    return await connection.set_client_id("two")


@rule("second active durable subscriber with the same name")
async def _(client: Any) -> object:
    session = await client.session(client_id="me")
    await session.create_durable_subscriber(client.topic("t"), "s")
    return await session.create_durable_subscriber(client.topic("t"), "s")


@rule("unsubscribe an active subscriber")
async def _(client: Any) -> object:
    session = await client.session(client_id="me")
    await session.create_durable_subscriber(client.topic("t"), "s")
    return await session.unsubscribe("s")


@rule("unsubscribe after close")
async def _(client: Any) -> object:
    session = await client.session(client_id="me")
    await (await session.create_durable_subscriber(client.topic("t"), "s")).close()
    return await session.unsubscribe("s") or "ok"


@rule("unsubscribe unknown name")
async def _(client: Any) -> object:
    return await (await client.session(client_id="me")).unsubscribe("unknown")


@rule("createMessage on a closed session")
async def _(client: Any) -> object:
    session = await client.session()
    await session.close()
    return session.create_message()


@rule("receive on a consumer of a closed session")
async def _(client: Any) -> object:
    session, consumer = await one(client)
    await session.close()
    return await consumer.receive(1)


@rule("close a closed session")
async def _(client: Any) -> object:
    session = await client.session()
    await session.close()
    return await session.close() or "ok"


@rule("createSession on a closed connection")
async def _(client: Any) -> object:
    connection = await client.connect()
    await connection.close()
    return await connection.create_session()


@rule("close a closed connection")
async def _(client: Any) -> object:
    connection = await client.connect()
    await connection.close()
    return await connection.close() or "ok"


@rule("start a closed connection")
async def _(client: Any) -> object:
    connection = await client.connect()
    await connection.close()
    return await connection.start()


async def check_rule(client: RemoteClient | Client, name: str) -> None:
    """Compare the events with the recorded ones."""
    expected = client.oracle("jms-client-rules")[name]
    if not str(expected).startswith("!"):
        assert await RULES[name](client) == expected
        return
    class_name = expected[1:]
    kind = JAVA.get(class_name) or getattr(errors, class_name)
    with pytest.raises(kind) as refusal:
        await RULES[name](client)
    assert type(refusal.value) is kind
