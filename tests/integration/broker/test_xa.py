"""XA over the wire: prepared work outlives its connection, everything else does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyjms.errors import IllegalStateException, XAException
from pyjms.jms.destination import Queue, Topic
from pyjms.transport.registry import create_transport
from pyjms.wire.limits import MAX_COUNT
from pyjms.wire.openwire.commands import (
    DataArrayResponse,
    IntegerResponse,
    TransactionType,
    XATransactionId,
)
from pyjms.wire.openwire.primitives import decode_text
from pyjms_broker.api.broker import BrokerFilter
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.raw import Connect, RawClient
from tests.kit.values import present


@pytest.mark.fact("activemq-broker X5")
async def test_two_phases_one_phase_recover_and_forget(
    connect: Connect, test_broker: EmbeddedTestBroker
) -> None:
    client, other = await connect(), await connect()
    xid = XATransactionId(4660, bytes([1, 2, 3]), b"\x09")
    branch = XATransactionId(4660, bytes([1, 2, 3]), b"\x0a")
    empty = XATransactionId(4660, bytes([1, 2, 4]), b"\x09")

    for each in (xid, branch, empty):
        await client.transaction(TransactionType.BEGIN, each)
    await client.send(Queue("q"), "x", transaction_id=xid)
    await client.send(Queue("q"), "y", transaction_id=branch)
    for each in (xid, branch, empty):
        await client.transaction(TransactionType.END, each)
    assert test_broker.queue_statistics("q").messages == 0
    answer = await client.transaction(TransactionType.PREPARE, empty)
    assert isinstance(answer, IntegerResponse)
    assert answer.result == 3
    with pytest.raises(XAException, match=r"xaErrorCode:-4$"):
        await client.transaction(TransactionType.COMMIT_TWO_PHASE, empty)
    unprepared = XATransactionId(4660, bytes([1, 2, 6]), b"\x09")
    await client.transaction(TransactionType.BEGIN, unprepared)
    with pytest.raises(XAException, match=r"xaErrorCode:-6$"):
        await client.transaction(TransactionType.COMMIT_TWO_PHASE, unprepared)
    for over in (empty, unprepared):
        with pytest.raises(IllegalStateException, match="previously returned XA_RDONLY: XID:"):
            await client.transaction(TransactionType.PREPARE, over)
    answer = await client.transaction(TransactionType.PREPARE, xid)
    assert isinstance(answer, IntegerResponse)
    assert answer.result == 0
    recovered = await other.transaction(TransactionType.RECOVER, None)
    assert isinstance(recovered, DataArrayResponse)
    assert recovered.data == [xid]
    await other.transaction(TransactionType.COMMIT_TWO_PHASE, xid)
    assert test_broker.queue_statistics("q").messages == 1
    await client.transaction(TransactionType.COMMIT_ONE_PHASE, branch)
    assert test_broker.queue_statistics("q").messages == 2

    third = XATransactionId(4660, bytes([1, 2, 5]), b"\x09")
    await client.transaction(TransactionType.BEGIN, third)
    await client.send(Queue("q"), "z", transaction_id=third)
    await client.transaction(TransactionType.FORGET, third)
    with pytest.raises(XAException, match="has not been started"):
        await client.transaction(TransactionType.ROLLBACK, third)
    assert test_broker.queue_statistics("q").messages == 2
    recovered = await client.transaction(TransactionType.RECOVER, None)
    assert isinstance(recovered, DataArrayResponse)
    assert not recovered.data


@pytest.mark.fact("activemq-broker X5")
async def test_recover_lists_what_one_answer_can_carry(
    raw_client: Callable[..., RawClient], caplog: pytest.LogCaptureFixture
) -> None:
    many = [XATransactionId(1, b"%d" % number, b"b") for number in range(MAX_COUNT + 2)]

    class Prepared(BrokerFilter):
        """Has more branches than could be prepared in a test."""

        def prepared_transactions(self, context: ConnectionContext) -> list[XATransactionId]:
            return many

    async with BrokerService("many", persistent=False, plugins=[Prepared]) as service:
        door = service.add_connector("tcp://127.0.0.1:0?wireFormat.tightEncodingEnabled=true")
        await door.start()
        client = raw_client(
            create_transport(f"{door.connect_uri}?wireFormat.tightEncodingEnabled=true")
        )
        await client.open()
        for _ in range(2):  # the connection stays
            recovered = await client.transaction(TransactionType.RECOVER, None)
            assert isinstance(recovered, DataArrayResponse)
            assert recovered.data == many[:MAX_COUNT]
        del many[:10]
        recovered = await client.transaction(TransactionType.RECOVER, None)
        assert isinstance(recovered, DataArrayResponse)
        assert recovered.data == many
        assert f"told of {MAX_COUNT} of {MAX_COUNT + 2} prepared transactions" in caplog.text


async def test_prepared_branches_survive_their_connection(
    connect: Connect, test_broker: EmbeddedTestBroker
) -> None:
    client, other = await connect(), await connect()
    prepared, begun = (XATransactionId(1, bytes([n]), b"b") for n in (1, 2))
    await client.send(Queue("q"), "taken")
    await client.consumer(Queue("q"))
    taken = await client.dispatched()
    for xid, text in ((prepared, "p"), (begun, "b")):
        await client.transaction(TransactionType.BEGIN, xid)
        await client.send(Queue("out"), text, transaction_id=xid)
    await client.ack(taken, transaction_id=prepared)
    await client.transaction(TransactionType.PREPARE, prepared)
    await client.close()

    await other.consumer(Queue("q"))
    await other.nothing_dispatched()
    recovered = await other.transaction(TransactionType.RECOVER, None)
    assert isinstance(recovered, DataArrayResponse)
    assert recovered.data == [prepared]
    with pytest.raises(XAException, match=r"xaErrorCode:-4$"):
        await other.transaction(TransactionType.COMMIT_ONE_PHASE, begun)
    await other.transaction(TransactionType.COMMIT_TWO_PHASE, prepared)
    assert test_broker.queue_statistics("out").messages == 1
    assert test_broker.queue_statistics("q").messages == 0


@pytest.mark.parametrize("where", [Queue("q"), Topic("t")])
async def test_work_prepared_by_a_closed_connection_is_redelivered_after_a_rollback_by_another(
    connect: Connect, test_broker: EmbeddedTestBroker, where: Queue | Topic
) -> None:
    fields = {"client_id": "me", "subscription_name": "s"} if where.is_topic else {}
    client, again = await connect(), await connect()
    await client.consumer(where, **fields)
    await client.send(where, *"012")
    taken, *_ = [await client.dispatched() for _ in range(3)]
    xid = XATransactionId(1, b"g", b"b")
    await client.transaction(TransactionType.BEGIN, xid)
    await client.ack(taken, transaction_id=xid)
    await client.transaction(TransactionType.PREPARE, xid)
    await client.close()

    await again.consumer(where, **fields)
    found = [await again.dispatched() for _ in range(2)]
    await again.nothing_dispatched()
    await again.transaction(TransactionType.ROLLBACK, xid)
    found.append(await again.dispatched())
    assert [decode_text(present(present(each.message).content)) for each in found] == [
        "1",
        "2",
        "0",
    ]
    assert [each.redelivery_counter for each in found] == [1, 1, 1]


async def test_an_id_used_again_after_another_connection_ended_its_branch_is_a_new_branch(
    connect: Connect, test_broker: EmbeddedTestBroker
) -> None:
    client, other = await connect(), await connect()
    xid = XATransactionId(1, b"g", b"b")
    for count in (1, 2):
        await client.transaction(TransactionType.BEGIN, xid)
        await client.send(Queue("q"), "x", transaction_id=xid)
        await client.transaction(TransactionType.PREPARE, xid)
        again = await client.transaction(TransactionType.PREPARE, xid)
        assert isinstance(again, IntegerResponse)
        assert again.result == 0
        await other.transaction(TransactionType.COMMIT_TWO_PHASE, xid)
        assert test_broker.queue_statistics("q").messages == count


@pytest.fixture
def few_per_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyjms_broker.connector.base.MAXIMUM_PER_CONNECTION", 3)


async def test_branches_that_other_connections_have_ended_do_not_count_towards_the_limit(
    few_per_connection: None, connect: Connect, test_broker: EmbeddedTestBroker
) -> None:
    client, other = await connect(), await connect()

    producer = await client.producer()

    async def prepare(number: int) -> XATransactionId:
        xid = XATransactionId(1, bytes([number]), b"b")
        await client.transaction(TransactionType.BEGIN, xid)
        await client.request(client.text(producer, Queue("q"), "x", xid))
        await client.transaction(TransactionType.PREPARE, xid)
        return xid

    for number in range(5):
        await other.transaction(TransactionType.COMMIT_TWO_PHASE, await prepare(number))
    assert test_broker.queue_statistics("q").messages == 5
    for number in range(5, 8):
        await prepare(number)
    with pytest.raises(IllegalStateException, match="at maximum limit: 3"):
        await prepare(8)
