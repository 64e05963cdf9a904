"""Links by which a client receives: credit, drain, browsing, filters, outcomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.errors import JMSException
from pyjms.jms import TextMessage
from pyjms.wire.amqp.format import Frame
from pyjms.wire.amqp.message import encode_message
from pyjms.wire.amqp.performatives import (
    ACCEPTED,
    RECEIVER,
    RELEASED,
    SENDER,
    Attach,
    Close,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Header,
    Modified,
    Rejected,
    Source,
    State,
    Target,
    Transfer,
)
from pyjms.wire.amqp.values import Described, Symbol, ULong
from pyjms.wire.openwire.commands import ConsumerControl, MessageAck
from pyjms_broker.api.broker import BrokerFilter
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConsumerExchange
from tests.kit.amqp.client import SETTLED, AmqpBroker, Receiver, Sender, StartAmqp, left, text

SELECTOR = Symbol("apache.org:selector-filter:string")
NO_LOCAL = Symbol("apache.org:no-local-filter:list")


async def pair(amqp: AmqpBroker, address: str) -> tuple[Sender, Receiver]:
    """Links of two clients."""
    sender = await (await amqp.client("sends")).sender(address)
    return sender, await (await amqp.client("receives")).receiver(address)


@pytest.mark.fact("amqp-connector A84", "activemq-edges AM4")
async def test_credit_lets_messages_out(amqp: AmqpBroker) -> None:
    sender, receiver = await pair(amqp, "queue://a")
    await sender.texts("1", "2", "3", "4")
    await receiver.client.nothing_comes()
    await receiver.flow(2)
    assert [each.body for each in await receiver.messages(2)] == ["1", "2"]
    await receiver.client.nothing_comes()
    await receiver.flow(1)
    assert (await receiver.next()).body == "3"


@pytest.mark.fact("amqp-connector A84")
async def test_credit_can_be_taken_back(amqp: AmqpBroker) -> None:
    sender, receiver = await pair(amqp, "queue://a")
    await receiver.flow(10)
    await sender.texts("1")
    assert (await receiver.next()).body == "1"
    await receiver.flow(0)
    await receiver.client.nothing_comes()
    await sender.texts("2")
    await receiver.client.nothing_comes()


@pytest.mark.fact("amqp-connector A84")
async def test_an_acknowledgement_is_no_credit(amqp: AmqpBroker) -> None:
    sender, receiver = await pair(amqp, "queue://a")
    await sender.texts("1", "2")
    await receiver.flow(1)
    await receiver.bodies(1)
    await receiver.client.nothing_comes()


@pytest.mark.fact("amqp-connector A85")
@pytest.mark.parametrize("address", ["topic://a", "topic://a.>"])
async def test_messages_of_a_topic_wait_for_credit(amqp: AmqpBroker, address: str) -> None:
    receiver = await (await amqp.client("receives")).receiver(address)
    sender = await (await amqp.client("sends")).sender("topic://a")
    await sender.texts("1", "2")
    await receiver.client.nothing_comes()
    await receiver.flow(5)
    assert await receiver.bodies(2) == ["1", "2"]


@pytest.mark.fact("amqp-connector A86", "activemq-edges AM4")
@pytest.mark.parametrize("count", [0, 1, 3])
async def test_drain_sends_what_there_is(amqp: AmqpBroker, count: int) -> None:
    sender, receiver = await pair(amqp, "queue://a")
    await sender.texts(*map(str, range(count)))
    assert [each.body for each in await receiver.drained(5)] == [*map(str, range(count))]
    assert receiver.count == 5
    await sender.texts("later")
    await receiver.client.nothing_comes()
    assert [each.body for each in await receiver.drained(1)] == ["later"]
    await receiver.flow(0, drain=True)
    assert (await receiver.client.receive(Flow)).link_credit == 0


@pytest.mark.fact("amqp-connector A86")
async def test_a_drain_gets_what_the_client_has_just_sent(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    sender, receiver = await client.sender("queue://a"), await client.receiver("queue://a")
    transfers = [
        Frame(0, Transfer(sender.handle, number, b"t", 0, True), encode_message(text(number)))
        for number in range(3)
    ]
    drain = Flow(1, 100, 0, 100, receiver.handle, 0, 5, drain=True)
    await client.send_items(*transfers, Frame(0, drain))
    assert [each.body for each in await receiver.messages(3)] == [0, 1, 2]
    flow = await client.receive(Flow)
    assert (flow.drain, flow.delivery_count, flow.link_credit) == (True, 5, 0)


@pytest.mark.fact("amqp-connector A86")
async def test_a_drain_waits_until_the_client_reads(amqp: AmqpBroker) -> None:
    count, long = 150, b"x" * 100_000
    async with amqp.jms() as session:
        producer = await session.create_producer(session.create_queue("a"))
        for _ in range(count):
            await producer.send(session.create_bytes_message(long))
    receiver = await (await amqp.client()).receiver("queue://a")
    found = await receiver.drained(2 * count)
    assert [len(each.body[0]) for each in found] == [len(long)] * count
    assert receiver.count == 2 * count


@pytest.mark.fact("amqp-connector A83", "activemq-edges AM3")
async def test_copies_are_browsed(amqp: AmqpBroker) -> None:
    sender, _ = await pair(amqp, "queue://a")
    await sender.texts("1", "2")
    browser = await (await amqp.client("browses")).receiver("queue://a", distribution_mode="copy")
    await browser.flow(1)
    assert await browser.bodies(1) == ["1"]
    await sender.texts("3")
    found = [each.body for each in await browser.drained()]
    assert found[:1] == ["2"]
    consumer = await (await amqp.client("consumes")).receiver("queue://a", credit=5)
    assert await consumer.bodies(3) == ["1", "2", "3"]


@pytest.mark.fact("amqp-connector A83", "amqp-connector A86")
async def test_a_drain_waits_until_the_whole_queue_has_been_browsed(amqp: AmqpBroker) -> None:
    async with amqp.jms("jms.useAsyncSend=true") as session:
        producer = await session.create_producer(session.create_queue("a"))
        producer.delivery_mode = DeliveryMode.NON_PERSISTENT
        for number in range(5100):  # more than the broker looks at in a turn
            message = session.create_text_message(str(number))
            message.properties["is_end"] = number in {0, 5099}
            await producer.send(message)
    client = await amqp.client()
    given = {SELECTOR: Described(SELECTOR, "is_end")}
    browser = await client.receiver("queue://a", distribution_mode="copy", filter=given)
    assert [each.body for each in await browser.drained(10)] == ["0", "5099"]
    assert await browser.drained(10) == []


@pytest.mark.fact("amqp-connector A80", "amqp-connector A82", "activemq-edges AM3")
@pytest.mark.parametrize("descriptor", [SELECTOR, ULong(0x0000468C00000004)])
async def test_a_selector_filters(amqp: AmqpBroker, descriptor: Symbol | ULong) -> None:
    client = await amqp.client()
    selector = Described(descriptor, "color = 'red'")
    unknown = Described(Symbol("x:unknown"), "y")
    given = {Symbol("mine"): selector, Symbol("other"): unknown, Symbol("plain"): "z"}
    receiver = await client.receiver("queue://a", credit=5, filter=given)
    source = receiver.answer.source
    assert source is not None
    assert source.filter == {"mine": selector}
    sender = await (await amqp.client("sends")).sender("queue://a")
    await sender.texts("1", application_properties={"color": "blue"})
    await sender.texts("2", application_properties={"color": "red"})
    assert (await receiver.next()).body == "2"


@pytest.mark.fact("amqp-connector A51", "amqp-connector A80")
async def test_a_bad_selector_refuses_the_link(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    given = {SELECTOR: Described(SELECTOR, "not a selector")}
    receiver = await client.receiver("queue://a", filter=given)
    assert receiver.answer.source is None
    detach = await client.receive(Detach)
    assert detach.closed
    assert detach.error is not None
    assert detach.error.condition == "amqp:invalid-field"
    assert detach.error.description == "not a selector"


@pytest.mark.fact("amqp-connector A81")
async def test_no_local(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    given = {NO_LOCAL: Described(NO_LOCAL, [])}
    receiver = await client.receiver("topic://a", credit=5, filter=given)
    await (await client.sender("topic://a")).texts("own")
    await client.nothing_comes()
    await (await (await amqp.client("sends")).sender("topic://a")).texts("other")
    assert (await receiver.next()).body == "other"


@pytest.mark.fact("amqp-connector A87", "amqp-connector A90")
async def test_settled_messages_are_acknowledged_when_written(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    receiver = await client.receiver("queue://a", credit=5, mode=SETTLED)
    await (await (await amqp.client("sends")).sender("queue://a")).texts("1", "2")
    found = await receiver.messages(2)
    assert [(each.transfer.settled, each.transfer.delivery_tag) for each in found] == [
        (True, b""), (True, b""),
    ]  # fmt: skip
    await receiver.detach()
    other = await client.receiver("queue://a")
    assert await other.drained() == []


@pytest.mark.fact("amqp-connector A87")
async def test_tags_count(amqp: AmqpBroker) -> None:
    sender, receiver = await pair(amqp, "queue://a")
    await sender.texts(*map(str, range(3)))
    await receiver.flow(3)
    tags = [each.transfer.delivery_tag for each in await receiver.messages(3)]
    assert tags == [b"\0", b"\1", b"\2"]


@pytest.mark.fact("amqp-connector A91", "activemq-edges AM4")
@pytest.mark.parametrize("settled", [True, False])
async def test_accepted_messages_are_gone(amqp: AmqpBroker, settled: bool) -> None:
    sender, receiver = await pair(amqp, "queue://a")
    await sender.texts("1", "2")
    await receiver.flow(1)
    await receiver.client.settle(await receiver.next(), settled=settled)
    if not settled:
        answer = await receiver.client.receive(Disposition)
        assert (answer.state, answer.settled, answer.first) == (ACCEPTED, True, 0)
    await receiver.detach()
    assert await left(amqp, "queue://a") == [("2", 0)]


@pytest.mark.fact("amqp-connector A92", "amqp-connector A94", "activemq-edges AM4")
@pytest.mark.parametrize(
    "state", [Rejected(), Modified(undeliverable_here=True), Modified(True, True)]
)
async def test_rejected_messages_are_dead_letters(amqp: AmqpBroker, state: State) -> None:
    sender, receiver = await pair(amqp, "queue://a")
    message = text("1", header=Header(durable=True))
    assert await sender.send(message) == ACCEPTED
    await receiver.flow(1)
    await receiver.client.settle(await receiver.next(), state=state)
    await receiver.detach()
    assert await left(amqp, "queue://a") == []
    dead = await (await amqp.client("looks")).receiver("queue://ActiveMQ.DLQ")
    (found,) = await dead.drained()
    assert (found.body, found.count) == ("1", 0)


@pytest.mark.fact(
    "amqp-connector A93",
    "amqp-connector A94",
    "amqp-connector A95",
    "activemq-edges AM4",
)
@pytest.mark.parametrize(
    ("state", "count"),
    [(RELEASED, 0), (Modified(), 0), (Modified(delivery_failed=True), 1), (None, 0)],
)
@pytest.mark.parametrize("address", ["queue://a", "topic://a"])
async def test_released_messages_come_again(
    amqp: AmqpBroker, state: State | None, count: int, address: str
) -> None:
    receiver = await (await amqp.client("receives")).receiver(address)
    sender = await (await amqp.client("sends")).sender(address)
    await sender.texts("1", "2")
    await receiver.flow(1)
    await receiver.client.settle(await receiver.next(), state=state)
    await receiver.client.nothing_comes()
    await receiver.flow(2)
    found = await receiver.messages(2)
    assert [(each.body, each.count) for each in found] == [("1", count), ("2", 0)]


@pytest.mark.fact("amqp-connector A93", "amqp-connector A94")
async def test_released_messages_come_to_other_consumers(amqp: AmqpBroker) -> None:
    sender, receiver = await pair(amqp, "queue://a")
    await sender.texts("1")
    await receiver.flow(1)
    first = await receiver.next()
    other = await (await amqp.client("other")).receiver("queue://a", credit=5)
    await receiver.client.settle(first, state=Modified(delivery_failed=True))
    found = await other.next()
    assert (found.body, found.count) == ("1", 1)


@pytest.mark.fact("amqp-connector A88")
async def test_what_cannot_be_converted_is_a_dead_letter(amqp: AmqpBroker) -> None:
    async with amqp.jms() as session:
        producer = await session.create_producer(session.create_queue("a"))
        for body in ("1", "2"):
            message = session.create_text_message(body)
            message.properties["JMS_AMQP_NATIVE"] = body == "1"
            await producer.send(message)
        receiver = await (await amqp.client()).receiver("queue://a", credit=1)
        assert (await receiver.next()).body == "2"
        dead = await session.create_consumer(session.create_queue("ActiveMQ.DLQ"))
        found = await dead.receive(5)
        assert isinstance(found, TextMessage)
        assert found.text == "1"
        assert "JMS_AMQP_NATIVE" in str(found.properties["dlqDeliveryFailureCause"])


@pytest.mark.fact("amqp-connector A96")
async def test_a_range_settles_each_message(amqp: AmqpBroker) -> None:
    sender, receiver = await pair(amqp, "queue://a")
    await sender.texts(*"12345")
    await receiver.flow(4)
    found = await receiver.messages(4)
    await receiver.client.send(Disposition(True, found[0].id, found[2].id, True, ACCEPTED))
    await receiver.detach()
    assert [body for body, _ in await left(amqp, "queue://a")] == ["4", "5"]


@pytest.mark.fact("amqp-connector A97")
@pytest.mark.parametrize("closed", [True, False])
async def test_a_closed_link_returns_messages_uncounted(amqp: AmqpBroker, closed: bool) -> None:
    sender, receiver = await pair(amqp, "queue://a")
    await sender.texts("1", "2", "3")
    await receiver.flow(2)
    await receiver.messages(2)
    assert (await receiver.detach(closed=closed)).closed is closed
    assert await left(amqp, "queue://a") == [("1", 0), ("2", 0), ("3", 0)]


@pytest.mark.fact("amqp-connector A97")
async def test_messages_return_in_order(amqp: AmqpBroker) -> None:
    sender, receiver = await pair(amqp, "queue://a")
    await sender.texts("1", "2", "3")
    await receiver.flow(3)
    first, _ = await receiver.messages(2)
    await receiver.client.settle(first, state=Modified(delivery_failed=True))
    await receiver.flow(5)
    assert [each.body for each in await receiver.messages(2)] == ["3", "1"]
    await receiver.detach()
    assert await left(amqp, "queue://a") == [("1", 1), ("2", 0), ("3", 0)]


@pytest.mark.fact("amqp-connector A97")
async def test_a_lost_connection_counts(amqp: AmqpBroker) -> None:
    sender, receiver = await pair(amqp, "queue://a")
    await sender.texts("1", "2")
    await receiver.flow(1)
    await receiver.next()
    await receiver.client.lose()
    other = await (await amqp.client("other")).receiver("queue://a", credit=2)
    found = {each.body: each.count for each in await other.messages(2)}
    assert found == {"1": 1, "2": 0}


@pytest.mark.fact("amqp-connector A57")
async def test_a_source_needs_an_address(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    receiver = await client.receiver(None)
    assert receiver.answer.source is None
    error = (await client.receive(Detach)).error
    assert error is not None
    assert (error.condition, error.description) == (
        "amqp:invalid-field", "source address not set",
    )  # fmt: skip


@pytest.mark.fact("amqp-connector A55")
async def test_options_of_the_consumer(amqp: AmqpBroker) -> None:
    exclusive = await (await amqp.client("one")).receiver(
        "queue://a?consumer.exclusive=true", credit=5
    )
    other = await (await amqp.client("two")).receiver("queue://a", credit=5)
    await (await (await amqp.client("sends")).sender("queue://a")).texts("1", "2")
    assert await exclusive.bodies(2) == ["1", "2"]
    await other.client.nothing_comes()
    refused = await other.client.receiver("queue://a?consumer.foo=5")
    assert refused.answer.source is None
    error = (await other.client.receive(Detach)).error
    assert error is not None
    assert error.condition == "amqp:invalid-field"
    assert "Unknown parameters=[{foo=5}]" in (error.description or "")


@pytest.mark.fact("amqp-connector A54")
async def test_wildcards_and_lists(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    some = await client.receiver("topic://a.*", credit=5)
    sender = await (await amqp.client("sends")).sender("topic://a.b,queue://c")
    await sender.texts("1")
    assert await some.bodies(1) == ["1"]
    assert await left(amqp, "c") == [("1", 0)]


@pytest.mark.fact("amqp-connector A65")
async def test_the_broker_closes_a_consumer(amqp_broker: StartAmqp) -> None:
    async with amqp_broker() as amqp:
        client = await amqp.client()
        receiver = await client.receiver("queue://a", credit=1)
        (subscription,) = amqp.broker.service.region_broker.subscriptions.all()
        connection = subscription.context.connection
        assert connection is not None
        connection.send_command(ConsumerControl(close=True, consumer_id=subscription.consumer_id))
        detach = await client.receive(Detach)
        assert detach.closed
        assert detach.error is not None
        assert detach.error.description == "Receiver forcably closed"
        assert detach.handle == receiver.handle


@pytest.mark.fact("amqp-connector A66")
async def test_an_operator_removes_a_queue(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    receiver = await client.receiver("queue://a", credit=1)
    pattern = await client.receiver("queue://>", credit=1)
    (view,) = amqp.broker.service.management.find("*:type=Broker,brokerName=amqp")
    await view.invoke("removeQueue", "a")
    detach = await client.receive(Detach)
    assert (detach.handle, detach.closed) == (receiver.handle, True)
    assert detach.error == Error("amqp:resource-deleted", "queue://a was removed")
    await (await client.sender("queue://b")).texts("1")
    assert await pattern.bodies(1) == ["1"]


class RefusesAcks(BrokerFilter):
    """Refuses each acknowledgement."""

    def acknowledge(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion:
        raise JMSException("not now")


@pytest.mark.fact("amqp-connector A98")
async def test_the_broker_refuses_an_acknowledgement(amqp_broker: StartAmqp) -> None:
    async with amqp_broker(plugins=[RefusesAcks]) as amqp:
        sender, receiver = await pair(amqp, "queue://a")
        await sender.texts("1", "2")
        await receiver.flow(2)
        first, _second = await receiver.messages(2)
        await receiver.client.settle(first, settled=False)
        assert await receiver.client.receive(Detach) == Detach(receiver.handle, True)
        other = await receiver.client.receiver("queue://a", credit=1)
        await other.client.settle(await other.next())
        close = await receiver.client.receive(Close)
        assert close.error == Error("amqp:internal-error", "not now")


@pytest.mark.fact("amqp-connector A159")
async def test_compressed_bodies_are_expanded(amqp: AmqpBroker) -> None:
    receiver = await (await amqp.client()).receiver("queue://a", credit=2)
    async with amqp.jms("jms.useCompression=true") as session:
        producer = await session.create_producer(session.create_queue("a"))
        await producer.send(session.create_text_message("x" * 5000))
        await producer.send(session.create_bytes_message(b"y" * 5000))
    assert await receiver.bodies(2) == ["x" * 5000, [b"y" * 5000]]


@pytest.mark.fact("amqp-connector A47")
async def test_long_messages_are_split(amqp_broker: StartAmqp) -> None:
    long = "x" * 1_000_000
    async with amqp_broker() as amqp:
        client = await amqp.client(max_frame_size=100_000)
        receiver = await client.receiver("queue://a", credit=1)
        async with amqp.jms() as session:
            producer = await session.create_producer(session.create_queue("a"))
            await producer.send(session.create_text_message(long))
        found = await receiver.next()
        assert found.transfer.more
        assert found.body == long


@pytest.mark.fact("amqp-connector A46")
async def test_the_end_of_a_session_returns_messages(amqp: AmqpBroker) -> None:
    sender, receiver = await pair(amqp, "queue://a")
    await sender.texts("1")
    await receiver.flow(1)
    await receiver.next()
    await receiver.client.send(End())
    await receiver.client.receive(End)
    assert await left(amqp, "queue://a") == [("1", 1)]


async def test_a_jms_client_gets_what_is_returned(amqp: AmqpBroker) -> None:
    sender, receiver = await pair(amqp, "queue://a")
    await sender.texts("1")
    await receiver.flow(1)
    await receiver.client.settle(await receiver.next(), state=Modified(delivery_failed=True))
    await receiver.detach()
    async with amqp.jms(mode=AcknowledgeMode.CLIENT) as session:
        consumer = await session.create_consumer(session.create_queue("a"))
        message = await consumer.receive(5)
        assert isinstance(message, TextMessage)
        assert (message.text, message.redelivered) == ("1", True)


async def test_a_client_without_window_is_not_sent_all_messages(amqp: AmqpBroker) -> None:
    """What waits for its session's window is bounded, whatever its credit."""
    sender = await (await amqp.client("sends")).sender("queue://a")
    body = "x" * 100_000
    await sender.texts(*[body] * 40)
    client = await amqp.client("receives")
    receiver = await client.receiver("queue://a")
    await client.send(Flow(1, 0, 0, 1000))  # no window
    await client.send(Flow(1, 0, 0, 1000, receiver.handle, 0, 1000))
    await client.send(Flow(1, 0, 0, 1000, echo=True))
    await client.next_item()
    assert 10 < amqp.broker.queue_statistics("a").inflight < 20
    await client.send(Flow(1, 5, 0, 1000))
    await receiver.messages(5)
    await client.send(Flow(6, 1000, 0, 1000))
    assert len(await receiver.messages(35)) == 35


@pytest.mark.fact("amqp-connector A84")
async def test_messages_that_come_together_use_the_credit_singly(amqp: AmqpBroker) -> None:
    """A chunk of input goes through the broker as a run, which ends with the credit."""
    sender, receiver = await pair(amqp, "queue://a")
    await receiver.flow(3)
    frames = [
        Frame(0, Transfer(sender.handle, number, b"%d" % number, 0), encode_message(text(number)))
        for number in range(10)
    ]
    await sender.client.send_items(*frames)
    found = [each.body for each in await receiver.messages(3)]
    await receiver.client.nothing_comes()
    await receiver.flow(100)
    assert [*found, *(each.body for each in await receiver.messages(7))] == list(range(10))


@pytest.mark.fact("amqp-connector A71", "amqp-connector A45")
async def test_messages_that_come_together_precede_what_follows(amqp: AmqpBroker) -> None:
    """They are sent, and answered, before the detach, or the close, in the same chunk."""
    client = await amqp.client()
    sender = await client.sender("queue://a")
    frames = [
        Frame(0, Transfer(sender.handle, number, b"%d" % number, 0), encode_message(text(number)))
        for number in range(10)
    ]
    await client.send_items(*frames, Frame(0, Detach(sender.handle, True)))
    answer = await client.receive(Disposition)
    assert (answer.first, answer.last, answer.state) == (0, 9, ACCEPTED)
    await client.receive(Detach)
    assert [body for body, _ in await left(amqp, "queue://a")] == list(range(10))


@pytest.mark.fact("amqp-connector A91")
async def test_what_was_accepted_may_be_settled_before_the_answer(
    amqp_broker: StartAmqp, tmp_path: Path
) -> None:
    async with amqp_broker(persistent=True, data_directory=tmp_path) as amqp:
        sender, receiver = await pair(amqp, "queue://a")
        await sender.texts("1", "2", header=Header(durable=True))
        await receiver.flow(2)
        first, last = await receiver.messages(2)
        dispositions = [
            Frame(0, Disposition(RECEIVER, first.id, last.id, settled, ACCEPTED))
            for settled in (False, True)
        ]
        await receiver.client.send_items(*dispositions)
        await receiver.client.close()
        assert await left(amqp, "queue://a") == []


@pytest.mark.fact("amqp-connector A61")
@pytest.mark.parametrize("role", [SENDER, RECEIVER])
async def test_the_node_of_a_refused_link_is_removed(amqp: AmqpBroker, role: bool) -> None:
    service = amqp.broker.service
    client = await amqp.client()
    connector = service.connectors[-1]
    connector.maximum_consumers_per_connection = connector.maximum_producers_per_connection = 0
    node = Source(dynamic=True), Target(dynamic=True)
    await client.attach(Attach("r", 0, role, source=node[0], target=node[1]))
    assert (await client.receive(Detach)).error is not None
    assert not [each for each in service.region_broker.destinations() if each.is_temporary]


async def test_a_topic_waits_for_a_client_that_settles_nothing(amqp: AmqpBroker) -> None:
    receiver = await (await amqp.client("receives")).receiver("topic://a", credit=1000)
    body = b"x" * 4_000_000
    async with amqp.jms() as jms:
        producer = await jms.create_producer(jms.create_topic("a"))
        for _ in range(17):
            await producer.send(jms.create_bytes_message(body))
            last = await receiver.next()
        for number in range(3):
            await producer.send(jms.create_text_message(str(number)))
    await receiver.client.nothing_comes()
    await receiver.client.send(Disposition(RECEIVER, 0, last.id, True, RELEASED))
    assert all([body in (await receiver.next()).payload for _ in range(17)])
    await receiver.client.nothing_comes()
    await receiver.client.send(Disposition(RECEIVER, 0, 2 * last.id + 1, True, ACCEPTED))
    assert await receiver.bodies(3) == ["0", "1", "2"]


@pytest.mark.parametrize("mode", [None, "copy"])
async def test_a_dead_letter_that_cannot_be_converted_stays(
    amqp: AmqpBroker, mode: str | None
) -> None:
    address = "queue://ActiveMQ.DLQ"
    async with amqp.jms() as jms:
        producer = await jms.create_producer(jms.create_queue("ActiveMQ.DLQ"))
        message = jms.create_text_message("1")
        message.properties["JMS_AMQP_NATIVE"] = True
        await producer.send(message)
        await producer.send(jms.create_text_message("2"))
        client = await amqp.client()
        receiver = await client.receiver(address, credit=5, distribution_mode=mode)
        assert await receiver.bodies(1) == ["2"]
        await client.close()
        consumer = await jms.create_consumer(jms.create_queue("ActiveMQ.DLQ"))
        kept = await consumer.receive(10)
        assert isinstance(kept, TextMessage)
        assert kept.text == "1"
