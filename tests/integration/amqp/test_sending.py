"""Links by which a client sends: credit, answers, anonymous relay, dynamic nodes."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.errors import JMSException, JMSSecurityException
from pyjms.jms import TextMessage
from pyjms.jms.destination import Queue
from pyjms.jms.types import Long
from pyjms.runtime import clock
from pyjms.wire.amqp.performatives import (
    ACCEPTED,
    RECEIVER,
    SENDER,
    Attach,
    DeleteOnClose,
    Detach,
    Disposition,
    Error,
    Flow,
    Properties,
    Rejected,
    Source,
    Target,
    Transfer,
)
from pyjms.wire.amqp.values import Symbol, ULong
from pyjms.wire.openwire.commands import DestinationInfo
from pyjms_broker.api.broker import BrokerFilter
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.settings.security import AuthorizationSettings
from tests.kit.amqp.client import AmqpBroker, StartAmqp, left, text
from tests.kit.brokers.security import simple, user


@pytest.mark.fact("amqp-connector A50", "amqp-connector A71")
async def test_a_message_is_accepted_and_settled(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    sender = await client.sender("queue://a", capabilities=["queue"])
    assert sender.answer.name == "s0"
    assert isinstance(sender.answer.target, Target)
    assert sender.answer.target.address == "queue://a"
    assert sender.answer.target.capabilities == ["queue"]
    assert (sender.answer.snd_settle_mode, sender.answer.rcv_settle_mode) == (0, 0)
    assert await sender.send(text("1")) == ACCEPTED
    async with amqp.jms() as session:
        consumer = await session.create_consumer(session.create_queue("a"))
        message = await consumer.receive(5)
        assert isinstance(message, TextMessage)
        assert message.text == "1"


@pytest.mark.fact("amqp-connector A71")
async def test_a_settled_message_gets_no_answer(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    sender = await client.sender("queue://a")
    await sender.transfer(text("1"), settled=True)
    await client.nothing_comes()
    receiver = await client.receiver("queue://a", credit=1)
    assert (await receiver.next()).body == "1"


@pytest.mark.fact("amqp-connector A71")
async def test_a_settled_message_that_is_refused_is_lost(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    sender = await client.sender(None)
    lost = text("1", properties=Properties(to="temp-queue://ID:gone:1"))
    await sender.transfer(lost, settled=True)
    assert await sender.send(text("2", properties=Properties(to="queue://a"))) == ACCEPTED


@pytest.mark.fact("amqp-connector A70")
async def test_credit_is_refilled(amqp_broker: StartAmqp) -> None:
    async with amqp_broker("?transport.producerCredit=10") as amqp:
        client = await amqp.client()
        sender = await client.sender("queue://a")
        assert sender.credit == 10
        for _ in range(6):
            assert await sender.send(text("x")) == ACCEPTED
        await client.nothing_comes()
        await sender.transfer(text("x"))
        await client.receive(Disposition)
        flow = await client.receive(Flow)
        assert (flow.delivery_count, flow.link_credit) == (7, 10)


@pytest.mark.fact("amqp-connector A52", "amqp-connector A53", "activemq-edges AM2")
@pytest.mark.parametrize(
    ("address", "capabilities", "queue"),
    [
        ("a", ["topic"], "a"),
        ("TOPIC://a", None, "TOPIC://a"),
        ("queue://a", ["topic"], "a"),
    ],
)
async def test_addresses(
    amqp: AmqpBroker, address: str, capabilities: list[str] | None, queue: str
) -> None:
    client = await amqp.client()
    sender = await client.sender(address, capabilities=capabilities)
    assert await sender.send(text("1")) == ACCEPTED
    async with amqp.jms() as session:
        consumer = await session.create_consumer(session.create_queue(queue))
        assert await consumer.receive(5) is not None


@pytest.mark.fact("amqp-connector A56")
async def test_a_temporary_destination_is_created_by_the_broker(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    link = Attach("x", 9, SENDER, source=Source())
    link.target, link.initial_delivery_count = Target("temp-queue://mine"), 0
    answer = await client.attach(link)
    assert answer.target is None
    error = (await client.receive(Detach)).error
    assert error is not None
    assert error.condition == "amqp:precondition-failed"
    assert error.description == "Not a broker created temp destination"
    receiver = await client.receiver("temp-topic://mine")
    assert receiver.answer.source is None
    error = (await client.receive(Detach)).error
    assert error is not None
    assert error.condition == "amqp:invalid-field"


@pytest.mark.fact("amqp-connector A57", "amqp-connector A74")
async def test_the_anonymous_relay(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    sender = await client.sender(None)
    for to in ("queue://a", "a", "topic://t"):
        assert await sender.send(text(to, properties=Properties(to=to))) == ACCEPTED
    receiver = await client.receiver("queue://a", credit=2)
    assert await receiver.bodies(2) == ["queue://a", "a"]
    state = await sender.send(text("nowhere"))
    assert isinstance(state, Rejected)
    assert state.error is not None
    assert (state.error.condition, state.error.description) == (
        "failed", "Missing to field for message sent to an anonymous producer",
    )  # fmt: skip
    assert await sender.send(text("x", properties=Properties(to="a"))) == ACCEPTED


@pytest.mark.fact("amqp-connector A75")
async def test_the_target_overrides_to(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    sender = await client.sender("queue://a")
    assert await sender.send(text("1", properties=Properties(to="queue://b"))) == ACCEPTED
    receiver = await client.receiver("queue://a", credit=5)
    message = (await receiver.next()).message
    assert message.properties is not None
    assert message.properties.to == "queue://a"


@pytest.mark.fact("amqp-connector A58", "amqp-connector A59", "activemq-edges AM2")
@pytest.mark.parametrize(
    ("capability", "kind"),
    [(None, "queue"), ("topic", "queue"), ("temporary-queue", "queue"), ("temporary-topic", "topic")],
)  # fmt: skip
async def test_dynamic_nodes(amqp: AmqpBroker, capability: str | None, kind: str) -> None:
    client = await amqp.client()
    capabilities = None if capability is None else [capability]
    receiver = await client.receiver(None, dynamic=True, capabilities=capabilities, credit=5)
    source = receiver.answer.source
    assert source is not None
    assert source.address is not None
    assert source.address.startswith(f"temp-{kind}://ID:")
    assert source.dynamic
    assert source.capabilities == [f"temporary-{kind}"]
    assert source.dynamic_node_properties == {"lifetime-policy": DeleteOnClose()}
    other = await (await amqp.client("other")).sender(source.address)
    assert await other.send(text("1")) == ACCEPTED
    assert await receiver.bodies(1) == ["1"]
    await receiver.detach()
    state = await other.send(text("2"))
    assert isinstance(state, Rejected)
    assert state.error is not None
    assert state.error.condition == "failed"
    assert source.address in (state.error.description or "")


@pytest.mark.fact("amqp-connector A58")
async def test_a_dynamic_target(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    sender = await client.sender(None, dynamic=True)
    assert isinstance(sender.answer.target, Target)
    address = sender.answer.target.address
    assert await sender.send(text("1")) == ACCEPTED
    receiver = await client.receiver(address, credit=1)
    assert (await receiver.next()).body == "1"


@pytest.mark.fact("amqp-connector A62")
async def test_delayed_delivery_is_offered_if_desired(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    link = Attach("x", 9, SENDER, source=Source(), target=Target("a"), initial_delivery_count=0)
    link.desired_capabilities = ["DELAYED_DELIVERY", "OTHER"]
    assert (await client.attach(link)).offered_capabilities == ["DELAYED_DELIVERY"]


@pytest.mark.fact("amqp-connector A63")
async def test_sessions_may_have_links_of_the_same_name(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    await client.sender("a", name="x")
    client._channel = 1
    await client.begin()
    assert (await client.sender("b", name="x")).answer.target is not None


@pytest.mark.fact("amqp-connector A64")
@pytest.mark.parametrize("closed", [True, False])
async def test_detach_is_answered(amqp: AmqpBroker, closed: bool) -> None:
    client = await amqp.client()
    sender = await client.sender("queue://a")
    assert (await sender.detach(closed=closed)).closed is closed


@pytest.mark.fact("amqp-connector A61", "amqp-connector A72")
async def test_rights(amqp_broker: StartAmqp) -> None:
    entry = {"destination": ">", "read": "r", "write": "w", "admin": "r"}
    rights = AuthorizationSettings.model_validate({"entries": [entry]})
    users = simple(user("ann", password="x", groups="r"))
    async with amqp_broker(plugins=[users, rights]) as amqp:
        client = await amqp.client("c", ("ann", "x"))
        link = Attach("x", 9, SENDER, source=Source(), target=Target("a"), initial_delivery_count=0)
        assert (await client.attach(link)).target is None
        error = (await client.receive(Detach)).error
        assert error is not None
        assert error.condition == "amqp:unauthorized-access"
        assert error.description == "User ann is not authorized to write to: queue://a"
        sender = await client.sender(None)
        state = await sender.send(text("1", properties=Properties(to="a")))
        assert isinstance(state, Rejected)
        assert state.error is not None
        assert state.error.condition == "amqp:unauthorized-access"
        assert (await client.receiver("a")).answer.source is not None


@pytest.mark.fact("amqp-connector A76", "amqp-connector A135", "amqp-connector A137")
async def test_the_client_id_is_kept_as_text(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    sender = await client.sender("queue://a")
    assert await sender.send(text("1", properties=Properties(message_id="mine"))) == ACCEPTED
    async with amqp.jms() as session:
        consumer = await session.create_consumer(session.create_queue("a"))
        message = await consumer.receive(5)
        assert message is not None
        assert message.message_id == "ID:mine"


@pytest.mark.fact("amqp-connector A129")
@pytest.mark.parametrize("name", ["delay", "time"])
async def test_a_delayed_message_comes_later(amqp_broker: StartAmqp, name: str) -> None:
    async with amqp_broker(scheduler_support=True) as amqp:
        client = await amqp.client()
        sender = await client.sender("queue://a")
        value = Long(200 if name == "delay" else clock.time_ms() + 200)
        annotations = {Symbol(f"x-opt-delivery-{name}"): value}
        assert await sender.send(text("1", message_annotations=annotations)) == ACCEPTED
        receiver = await client.receiver("queue://a")
        assert await receiver.drained() == []
        await receiver.flow(1)
        assert (await receiver.next()).body == "1"


@pytest.mark.fact("amqp-connector A129")
@pytest.mark.parametrize("name", ["delay", "time", "period"])
async def test_a_delay_without_end_is_refused(amqp_broker: StartAmqp, name: str) -> None:
    async with amqp_broker(scheduler_support=True) as amqp:
        client = await amqp.client()
        sender = await client.sender("queue://a")
        annotations = {Symbol(f"x-opt-delivery-{name}"): ULong(2**64 - 1)}
        state = await sender.send(text("1", message_annotations=annotations))
        assert isinstance(state, Rejected)
        assert state.error is not None
        assert "is too large" in (state.error.description or "")
        assert await left(amqp, "queue://a") == []


class NoTemporaries(BrokerFilter):
    """Refuses temporary destinations: to some as a right that they do not have."""

    def add_destination_info(self, context: ConnectionContext, info: DestinationInfo) -> None:
        if context.client_id == "no right":
            raise JMSSecurityException("no temporary destinations")
        raise JMSException("no temporary destinations")


@pytest.mark.fact("amqp-connector A60")
@pytest.mark.parametrize(
    ("client_id", "condition"),
    [("no right", "amqp:unauthorized-access"), ("no luck", "amqp:internal-error")],
)
async def test_a_dynamic_node_cannot_be_created(
    amqp_broker: StartAmqp, client_id: str, condition: str
) -> None:
    async with amqp_broker(plugins=[NoTemporaries]) as amqp:
        client = await amqp.client(client_id)
        for handle, role in enumerate((SENDER, RECEIVER)):
            source, target = Source(dynamic=True), Target(dynamic=True)
            answer = await client.attach(Attach("x", handle, role, source=source, target=target))
            assert (answer.source if role is RECEIVER else answer.target) is None
            detach = await client.receive(Detach)
            assert detach == Detach(handle, True, Error(condition, "no temporary destinations"))


@pytest.mark.fact("amqp-connector A10")
async def test_a_message_that_is_too_long_ends_the_link(amqp_broker: StartAmqp) -> None:
    async with amqp_broker("?transport.maxFrameSize=1000") as amqp:
        client = await amqp.client()
        sender = await client.sender("queue://a")
        for more in (True, True, False):
            transfer = Transfer(sender.handle, 0, b"0", 0, more=more)
            await client.send(transfer, payload=bytes(500))
        error = (await client.answer(Detach)).error
        assert error is not None
        assert error.condition == "amqp:link:message-size-exceeded"


@pytest.mark.fact("amqp-connector A77")
async def test_what_cannot_be_decoded_is_stored_as_bytes(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    sender = await client.sender("queue://a")
    assert await sender.send(b"\0\x53\x77\xff") == ACCEPTED
    receiver = await client.receiver("queue://a", credit=1)
    assert (await receiver.next()).payload == b"\0\x53\x77\xff"


def full(**policy: Any) -> PolicyMap:
    """The policy of a queue that has room for one message."""
    return PolicyMap([PolicyEntry(destination=Queue("full"), memory_limit=1, **policy)])


@pytest.mark.fact("amqp-connector A72")
async def test_a_full_queue_may_refuse(amqp_broker: StartAmqp) -> None:
    async with amqp_broker(policies=full(send_fail_if_no_space=True)) as amqp:
        client = await amqp.client()
        sender = await client.sender("queue://full")
        assert await sender.send(text("1")) == ACCEPTED
        state = await sender.send(text("2"))
        assert isinstance(state, Rejected)
        assert state.error is not None
        assert state.error.condition == "amqp:resource-limit-exceeded"


@pytest.mark.fact("amqp-connector A73")
async def test_a_full_queue_delays_the_answer(amqp_broker: StartAmqp) -> None:
    async with amqp_broker(policies=full()) as amqp:
        client = await amqp.client()
        sender = await client.sender("queue://full")
        assert await sender.send(text("1")) == ACCEPTED
        number = await sender.transfer(text("2"))
        await client.nothing_comes()
        receiver = await client.receiver("queue://full", credit=1)
        await client.settle(await receiver.next())
        answer = await client.answer(Disposition)
        assert (answer.first, answer.state) == (number, ACCEPTED)
