"""Durable subscriptions by the names of links."""

from __future__ import annotations

import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.jms import TextMessage
from pyjms.wire.amqp.performatives import RECEIVER, Attach, Detach, End, Target
from pyjms.wire.amqp.values import Described, Symbol
from tests.kit.amqp.client import AmqpBroker, AmqpClient, Receiver

SELECTOR = Symbol("apache.org:selector-filter:string")
NO_LOCAL = Symbol("apache.org:no-local-filter:list")


async def publish(amqp: AmqpBroker, *texts: str, color: str = "red") -> None:
    client = await amqp.client("publishes")
    sender = await client.sender("topic://t")
    await sender.texts(*texts, application_properties={"color": color})
    await client.close()


async def resume(client: AmqpClient, name: str) -> Receiver:
    """Attach without source."""
    answer = await client.attach(Attach(name, 77, RECEIVER, target=Target()))
    return Receiver(client, 77, answer)


@pytest.mark.fact("amqp-connector A100", "amqp-connector A102", "activemq-edges AM3")
@pytest.mark.parametrize("durable", [1, 2])
@pytest.mark.parametrize("way", ["detach", "end", "close", "lost"])
async def test_it_is_kept(amqp: AmqpBroker, durable: int, way: str) -> None:
    client = await amqp.client("c")
    receiver = await client.receiver("topic://t", name="sub", durable=durable)
    if way == "detach":
        await receiver.detach(closed=False)
    elif way == "end":
        await client.send(End())
        await client.receive(End)
        await client.close()
    elif way == "close":
        await client.close()
    else:
        await client.lose()
    await publish(amqp, "1", "2")
    client = client if way == "detach" else await amqp.client("c")
    again = await client.receiver("topic://t", name="sub", durable=durable, credit=5)
    assert await again.bodies(2) == ["1", "2"]


@pytest.mark.fact("amqp-connector A100")
async def test_expiry_alone_is_not_durable(amqp: AmqpBroker) -> None:
    client = await amqp.client("c")
    await client.receiver("topic://t", name="sub", expiry_policy="never")
    assert amqp.broker.service.region_broker.subscriptions.of_client("c") == []


@pytest.mark.fact("amqp-connector A101")
async def test_queues_have_no_durable_subscriptions(amqp: AmqpBroker) -> None:
    client = await amqp.client("c")
    receiver = await client.receiver("queue://q", name="sub", durable=2)
    assert receiver.answer.source is not None
    assert amqp.broker.service.region_broker.subscriptions.of_client("c") == []


@pytest.mark.fact("amqp-connector A102", "activemq-edges AM3")
async def test_close_deletes_it(amqp: AmqpBroker) -> None:
    client = await amqp.client("c")
    receiver = await client.receiver("topic://t", name="sub", durable=2)
    assert len(amqp.broker.service.region_broker.subscriptions.of_client("c")) == 1
    await receiver.detach(closed=True)
    assert amqp.broker.service.region_broker.subscriptions.of_client("c") == []


@pytest.mark.fact("amqp-connector A103", "amqp-connector A104")
async def test_it_is_resumed_without_source(amqp: AmqpBroker) -> None:
    client = await amqp.client("c")
    given = {
        Symbol("s"): Described(SELECTOR, "color = 'red'"),
        Symbol("n"): Described(NO_LOCAL, []),
    }
    receiver = await client.receiver("topic://t", name="sub", durable=2, filter=given)
    await receiver.detach(closed=False)
    await publish(amqp, "1")
    await publish(amqp, "2", color="blue")
    await publish(amqp, "3")
    again = await resume(client, "sub")
    source = again.answer.source
    assert source is not None
    assert (source.address, source.durable, source.expiry_policy) == ("topic://t", 2, "never")
    assert source.distribution_mode == "copy"
    assert set(source.filter or {}) == {SELECTOR, NO_LOCAL}
    await again.flow(5)
    assert await again.bodies(2) == ["1", "3"]
    await again.detach(closed=True)
    assert amqp.broker.service.region_broker.subscriptions.of_client("c") == []


@pytest.mark.fact("amqp-connector A103")
async def test_an_unknown_one_is_not_found(amqp: AmqpBroker) -> None:
    client = await amqp.client("c")
    assert (await resume(client, "nothing")).answer.source is None
    error = (await client.receive(Detach)).error
    assert error is not None
    assert (error.condition, error.description) == (
        "amqp:not-found", "Unknown subscription link: nothing",
    )  # fmt: skip


@pytest.mark.fact("amqp-connector A105")
async def test_an_active_one_is_refused(amqp: AmqpBroker) -> None:
    client = await amqp.client("c")
    await client.receiver("topic://t", name="sub", durable=2)
    client._channel = 1
    await client.begin()
    assert (await client.receiver("topic://t", name="sub", durable=2)).answer.source is None
    error = (await client.receive(Detach)).error
    assert error is not None
    assert error.condition == "amqp:internal-error"
    assert error.description == (
        "Durable consumer is in use for client: c and subscriptionName: sub"
    )


@pytest.mark.fact("amqp-connector A106")
async def test_another_selector_replaces_it(amqp: AmqpBroker) -> None:
    client = await amqp.client("c")
    receiver = await client.receiver("topic://t", name="sub", durable=2)
    await receiver.detach(closed=False)
    await publish(amqp, "1")
    given = {SELECTOR: Described(SELECTOR, "color = 'red'")}
    again = await client.receiver("topic://t", name="sub", durable=2, filter=given)
    assert await again.drained() == []


@pytest.mark.fact("amqp-connector A107")
async def test_shared_has_no_effect(amqp: AmqpBroker) -> None:
    client = await amqp.client("c")
    receiver = await client.receiver(
        "topic://t", name="s|global", durable=2, capabilities=["shared", "global"]
    )
    assert receiver.answer.source is not None
    assert receiver.answer.source.capabilities == ["shared", "global"]
    (durable,) = amqp.broker.service.region_broker.subscriptions.of_client("c")
    assert durable.key.subscription_name == "s|global"


@pytest.mark.fact("amqp-connector A108")
async def test_it_is_shared_with_jms(amqp: AmqpBroker) -> None:
    client = await amqp.client("c")
    receiver = await client.receiver("topic://t", name="sub", durable=2)
    await receiver.detach(closed=False)
    await client.close()
    await publish(amqp, "1")
    factory = ConnectionFactory(f"{amqp.broker.url}&jms.clientID=c")
    async with await factory.create_connection() as connection:
        await connection.start()
        session = await connection.create_session()
        consumer = await session.create_durable_subscriber(session.create_topic("t"), "sub")
        message = await consumer.receive(5)
        assert isinstance(message, TextMessage)
        assert message.text == "1"
