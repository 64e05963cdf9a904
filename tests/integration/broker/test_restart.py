"""What a broker with the default store has after a stop, and after a crash."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.enums import DeliveryMode
from pyjms.errors import InvalidDestinationException, XAException
from pyjms.jms.destination import Queue, Topic
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import (
    AckType,
    ActiveMQMessage,
    ConnectionId,
    ConnectionInfo,
    DataArrayResponse,
    MessageId,
    ProducerId,
    ProducerInfo,
    RemoveSubscriptionInfo,
    SessionId,
    SessionInfo,
    TransactionInfo,
    TransactionType,
    XATransactionId,
)
from pyjms.wire.openwire.primitives import decode_text
from pyjms_broker.connector.vm import registry as vm_registry
from pyjms_broker.service import BrokerService, PersistenceFactory
from pyjms_broker.settings.persistence import (
    JDBCPersistenceSettings,
    JournaledJDBCPersistenceSettings,
    KahaDBPersistenceSettings,
    MultiKahaDBPersistenceSettings,
)
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.raw import RawClient
from tests.kit.waiting import until

Q, OUT, NEWS = Queue("q"), Queue("out"), Topic("news")
XA = XATransactionId(4660, b"global", b"branch")


SMALL = {"max_file_length": "256kb"}
STORES: dict[str, PersistenceFactory] = {
    "kahadb": KahaDBPersistenceSettings.model_validate({"journal": SMALL}),
    "multi_kahadb": MultiKahaDBPersistenceSettings.model_validate(
        {
            "type": "multi_kahadb",
            "filtered_kahadb": [{"queue": "out", "journal": SMALL}, {"journal": SMALL}],
            "transaction_journal": SMALL,
        }
    ),
    "jdbc": JDBCPersistenceSettings(type="jdbc"),
    "journaled_jdbc": JournaledJDBCPersistenceSettings.model_validate(
        {"type": "journaled_jdbc", "journal_log_file_size": 256 * 1024}
    ),
}


def text_of(message: ActiveMQMessage) -> str:
    assert message.content is not None
    text = decode_text(message.content)
    assert text is not None
    return text


class Data:
    """A data directory, and changes of it between two runs."""

    def __init__(self, path: Path, raw_client: Any, store: str, *, crash: bool) -> None:
        self.path = path
        self.store = store
        self.raw_client = raw_client
        self.crash = crash
        self.runs = 0

    @asynccontextmanager
    async def broker(self, **attributes: Any) -> AsyncIterator[EmbeddedTestBroker]:
        """Run the broker; at the end stop it, or continue with the data written before it "crashed"."""
        directory = self.path / f"run-{self.runs}"
        self.runs += 1
        attributes.setdefault("persistence", STORES[self.store])
        service = BrokerService(f"kept-{self.runs}", store_directory=directory / "store",
                                data_directory=directory, **attributes)  # fmt: skip
        following = self.path / f"run-{self.runs}"
        async with EmbeddedTestBroker(service) as broker:
            yield broker
            if self.crash:
                shutil.copytree(directory, following)
        if not self.crash:
            directory.rename(following)

    @asynccontextmanager
    async def client(self, broker: EmbeddedTestBroker, client_id: str | None = None) -> Any:
        client = self.raw_client(create_transport(broker.url))
        await client.open(client_id)
        try:
            yield client
        finally:
            await client.close()


@pytest.fixture(params=["stop", "crash"])
def data(request: pytest.FixtureRequest, tmp_path: Path, raw_client: type[RawClient]) -> Data:
    return Data(tmp_path, raw_client, "kahadb", crash=request.param == "crash")


@pytest.fixture(
    params=[*((store, "stop") for store in STORES), *((store, "crash") for store in STORES)]
)
def any_data(request: pytest.FixtureRequest, tmp_path: Path, raw_client: type[RawClient]) -> Data:
    store, end = request.param
    return Data(tmp_path, raw_client, store, crash=end == "crash")


async def received(client: Any, count: int) -> list[str]:
    texts = []
    for _ in range(count):
        dispatch = await client.dispatched()
        await client.ack(dispatch)
        texts.append(text_of(dispatch.message))
    return texts


async def test_persistent_messages_and_durable_subscriptions_are_there_again(
    any_data: Data,
) -> None:
    async with any_data.broker() as broker, any_data.client(broker, "reader") as client:
        durable = await client.consumer(NEWS, subscription_name="all", selector="JMSPriority = 4")
        await client.remove(durable)
        await client.send(Q, "1", "2", "3")
        lost = client.text(await client.producer(), Q, "not persistent")
        lost.persistent = False
        await client.request(lost)
        await client.send(NEWS, "a", "b")
        await client.consumer(Q)
        assert await received(client, 1) == ["1"]
    for _ in range(2):
        async with any_data.broker() as broker:
            assert broker.queue_statistics("q").messages == 2
    async with any_data.broker() as broker, any_data.client(broker, "reader") as client:
        await client.consumer(Q)
        assert await received(client, 2) == ["2", "3"]
        await client.consumer(NEWS, subscription_name="all", selector="JMSPriority = 4")
        assert await received(client, 2) == ["a", "b"]
    async with any_data.broker() as broker, any_data.client(broker, "reader") as client:
        assert broker.queue_statistics("q").messages == 0
        await client.consumer(NEWS, subscription_name="all", selector="JMSPriority = 4")
        await client.nothing_dispatched()


async def test_what_was_committed_after_the_subscription_is_there_again(any_data: Data) -> None:
    async with (
        any_data.broker() as broker,
        any_data.client(broker) as sender,
        any_data.client(broker, "reader") as client,
    ):
        local = sender.local(1)
        await sender.transaction(TransactionType.BEGIN, local)
        await sender.send(NEWS, "before", transaction_id=local)
        await client.consumer(NEWS, subscription_name="all")
        await sender.send(NEWS, "behind", transaction_id=local)
        await sender.transaction(TransactionType.COMMIT_ONE_PHASE, local)
        assert [text_of((await client.dispatched()).message) for _ in "12"] == ["before", "behind"]
    async with any_data.broker() as broker, any_data.client(broker, "reader") as client:
        await client.consumer(NEWS, subscription_name="all")
        assert await received(client, 2) == ["before", "behind"]


async def prepared(client: Any) -> None:
    """Send, and acknowledge on a queue and a durable subscription, in a prepared branch."""
    await client.consumer(NEWS, subscription_name="all")
    await client.send(NEWS, "headline")
    headline = await client.dispatched()
    await client.send(Q, "taken", "left")
    await client.consumer(Q, prefetch_size=1)
    taken = await client.dispatched()
    await client.transaction(TransactionType.BEGIN, XA)
    await client.send(OUT, "answer", transaction_id=XA)
    await client.ack(taken, transaction_id=XA)
    await client.ack(headline, transaction_id=XA)
    await client.transaction(TransactionType.END, XA)
    answer = await client.transaction(TransactionType.PREPARE, XA)
    assert answer.result == 0
    begun = XATransactionId(4660, b"global", b"other")
    await client.transaction(TransactionType.BEGIN, begun)
    await client.send(OUT, "never", transaction_id=begun)
    local = client.local(1)
    await client.transaction(TransactionType.BEGIN, local)
    await client.send(OUT, "never", transaction_id=local)


async def check_hidden(broker: EmbeddedTestBroker, client: Any) -> None:
    """Of the prepared branch nothing is seen, neither sent nor acknowledged."""
    answer = await client.transaction(TransactionType.RECOVER, None)
    assert isinstance(answer, DataArrayResponse)
    assert answer.data == [XA]
    assert broker.queue_statistics("out").messages == 0
    assert broker.queue_statistics("q").messages == 1
    queue = await client.consumer(Q)
    left = await client.dispatched()
    assert text_of(left.message) == "left"
    durable = await client.consumer(NEWS, subscription_name="all")
    await client.nothing_dispatched()
    await client.remove(queue)
    await client.remove(durable)


@pytest.mark.fact("activemq-broker X6", "activemq-broker T25")
@pytest.mark.parametrize("commit", [True, False])
async def test_a_prepared_branch_waits_for_its_end(any_data: Data, commit: bool) -> None:
    async with any_data.broker() as broker, any_data.client(broker, "reader") as client:
        await prepared(client)
    for _ in range(2):
        async with any_data.broker() as broker, any_data.client(broker, "reader") as client:
            await check_hidden(broker, client)
    async with any_data.broker() as broker, any_data.client(broker, "reader") as client:
        await check_hidden(broker, client)
        kind = TransactionType.COMMIT_TWO_PHASE if commit else TransactionType.ROLLBACK
        await client.transaction(kind, XA)
        with pytest.raises(XAException, match="has not been started"):
            await client.transaction(kind, XA)
        await check_the_end(broker, client, commit)
    async with any_data.broker() as broker, any_data.client(broker, "reader") as client:
        await check_the_end(broker, client, commit)


async def check_the_end(broker: EmbeddedTestBroker, client: Any, commit: bool) -> None:
    answer = await client.transaction(TransactionType.RECOVER, None)
    assert not answer.data
    assert broker.queue_statistics("out").messages == (1 if commit else 0)
    assert broker.queue_statistics("q").messages == (1 if commit else 2)
    queue = await client.consumer(Q)
    wanted = ["left"] if commit else ["left", "taken"]
    found = [text_of((await client.dispatched()).message) for _ in wanted]
    assert sorted(found) == sorted(wanted)
    durable = await client.consumer(NEWS, subscription_name="all")
    if not commit:
        assert text_of((await client.dispatched()).message) == "headline"
    await client.nothing_dispatched()
    await client.remove(queue)
    await client.remove(durable)


@pytest.mark.fact("activemq-broker X11")
async def test_recover_follows_the_prepares_that_were_sent_before_it(data: Data) -> None:
    async with data.broker() as broker, data.client(broker, "reader") as client:
        branches = [XATransactionId(4660, b"global", b"%d" % n) for n in range(5)]
        for branch in branches:
            await client.transaction(TransactionType.BEGIN, branch)
            await client.send(OUT, "x", transaction_id=branch)
        for branch in branches:
            client.send_command(
                TransactionInfo(client.connection_id, branch, TransactionType.PREPARE)
            )
        answer = await client.transaction(TransactionType.RECOVER, None)
        assert sorted(answer.data, key=str) == branches


@pytest.mark.fact("activemq-broker X6")
@pytest.mark.parametrize(("strategy", "answers"), [("commit", 1), ("rollback", 0)])
async def test_recovered_branches_may_be_ended_at_the_start(
    data: Data, strategy: str, answers: int
) -> None:
    async with data.broker() as broker, data.client(broker, "reader") as client:
        await prepared(client)
    settings = KahaDBPersistenceSettings.model_validate(
        {"purge_recovered_xa_transaction_strategy": strategy, "journal": SMALL}
    )
    async with data.broker(persistence=settings) as broker, data.client(broker, "reader") as client:
        answer = await client.transaction(TransactionType.RECOVER, None)
        assert not answer.data
        assert broker.queue_statistics("out").messages == answers
        assert broker.queue_statistics("q").messages == 2 - answers
        await client.consumer(NEWS, subscription_name="all")
        if strategy == "rollback":
            assert text_of((await client.dispatched()).message) == "headline"
        await client.nothing_dispatched()


@pytest.mark.fact("activemq-broker X6", "activemq-broker T25")
@pytest.mark.parametrize("commit", [True, False])
async def test_a_subscription_gets_what_a_prepared_branch_sent_when_it_is_committed(
    any_data: Data, commit: bool
) -> None:
    async with any_data.broker() as broker, any_data.client(broker, "reader") as client:
        await client.consumer(NEWS, subscription_name="all")
        await client.send(NEWS, "first", "second")
        first = await client.dispatched()
        await client.transaction(TransactionType.BEGIN, XA)
        await client.send(NEWS, "prepared", transaction_id=XA)
        await client.ack(first, transaction_id=XA)
        await client.transaction(TransactionType.PREPARE, XA)
        await client.send(NEWS, "third")
    async with any_data.broker() as broker, any_data.client(broker, "reader") as client:
        await client.consumer(NEWS, subscription_name="all")
        hidden = [text_of((await client.dispatched()).message) for _ in range(2)]
        assert hidden == ["second", "third"]
        await client.nothing_dispatched()
        async with any_data.client(broker, "manager") as manager:
            kind = TransactionType.COMMIT_TWO_PHASE if commit else TransactionType.ROLLBACK
            await manager.transaction(kind, XA)
        ended = text_of((await client.dispatched()).message)
        assert ended == ("prepared" if commit else "first")
        await client.nothing_dispatched()
    async with any_data.broker() as broker, any_data.client(broker, "reader") as client:
        await client.consumer(NEWS, subscription_name="all")
        expected = ["prepared", "second", "third"] if commit else ["first", "second", "third"]
        assert sorted(await received(client, 3)) == expected
        await client.nothing_dispatched()


@pytest.mark.fact("activemq-broker T4", "activemq-broker T18")
async def test_a_subscription_without_its_own_connections_messages_is_there_again(
    any_data: Data,
) -> None:
    own = {"subscription_name": "others", "no_local": True}
    async with any_data.broker() as broker, any_data.client(broker, "reader") as client:
        consumer = await client.consumer(NEWS, **own)
        await client.remove(consumer)
        await client.send(NEWS, "own")
        async with any_data.client(broker, "other") as other:
            await other.send(NEWS, "first")
    async with any_data.broker() as broker, any_data.client(broker, "reader") as client:
        async with any_data.client(broker, "other") as other:
            await other.send(NEWS, "second")
        consumer = await client.consumer(NEWS, **own)
        await client.send(NEWS, "own again")
        assert await received(client, 2) == ["first", "second"]
        await client.nothing_dispatched()
        await client.remove(consumer)
        await client.send(NEWS, "own, while nobody listens")
        await client.send(Q, "stored after it")
    async with any_data.broker() as broker, any_data.client(broker, "reader") as client:
        await client.consumer(NEWS, **own)
        await client.nothing_dispatched()


@pytest.mark.fact("activemq-broker T19")
async def test_a_crash_brings_no_message_that_the_selector_does_not_match(any_data: Data) -> None:
    chosen = {"subscription_name": "chosen", "selector": "JMSType = 'x'"}
    async with any_data.broker() as broker, any_data.client(broker, "reader") as client:
        await client.remove(await client.consumer(NEWS, **chosen))
        await client.send(NEWS, "does not match")
    for _ in range(2):
        async with any_data.broker() as broker, any_data.client(broker, "reader") as client:
            await client.consumer(NEWS, **chosen)
            await client.nothing_dispatched()
            message = client.text(await client.producer(), NEWS, "matches")
            message.type = "x"
            await client.request(message)
            assert await received(client, 1) == ["matches"]


@pytest.mark.fact("activemq-broker C10")
@pytest.mark.parametrize("commit", [True, False])
async def test_a_subscription_is_removed_whose_messages_a_prepared_branch_acknowledged(
    any_data: Data, commit: bool
) -> None:
    async with any_data.broker() as broker, any_data.client(broker, "reader") as client:
        await prepared(client)
        own = client.connection_id
    async with any_data.broker() as broker, any_data.client(broker, "manager") as manager:
        removal = RemoveSubscriptionInfo(own, "all", "reader")
        await manager.request(removal)
        with pytest.raises(InvalidDestinationException, match="No durable subscription exists"):
            await manager.request(removal)
        kind = TransactionType.COMMIT_TWO_PHASE if commit else TransactionType.ROLLBACK
        await manager.transaction(kind, XA)
    async with any_data.broker() as broker, any_data.client(broker, "reader") as client:
        answer = await client.transaction(TransactionType.RECOVER, None)
        assert not answer.data
        assert broker.queue_statistics("out").messages == (1 if commit else 0)
        await client.consumer(NEWS, subscription_name="all")
        await client.nothing_dispatched()


async def test_what_a_client_had_sent_before_the_restart_is_not_stored_again(
    any_data: Data,
) -> None:
    producer = ProducerId("ID:steady:1", 1, 1)

    async def send(client: Any, *numbers: int, reconnect: bool) -> None:
        info = ConnectionInfo(ConnectionId("ID:steady:1"), "steady", fault_tolerant=True)
        info.failover_reconnect = reconnect
        await client.request(info)
        client.send_command(SessionInfo(SessionId("ID:steady:1", 1)))
        await client.request(ProducerInfo(producer))
        for number in numbers:
            message = client.text(producer, Q, f"m{number}")
            message.message_id = MessageId(None, producer, number)
            await client.request(message)

    async with any_data.broker() as broker:
        client = any_data.raw_client(create_transport(broker.url))
        await client.transport.start()
        await send(client, 1, 2, 3, reconnect=False)
        await client.cut()
    async with any_data.broker() as broker:
        client = any_data.raw_client(create_transport(broker.url))
        await client.transport.start()
        await send(client, 2, 3, 4, reconnect=True)
        assert broker.queue_statistics("q").messages == 4
        await client.cut()


async def test_an_open_transaction_is_replayed_after_a_failover(data: Data) -> None:
    """What was sent in it before was rolled back, so that its messages are new ones (activemq-broker X9, T27)."""
    producer = ProducerId("ID:steady:1", 1, 1)

    async def begin_and_send(broker: EmbeddedTestBroker, *, reconnect: bool) -> Any:
        client = data.raw_client(create_transport(broker.url))
        await client.transport.start()
        client.connection_id = ConnectionId("ID:steady:1")
        info = ConnectionInfo(client.connection_id, "steady", fault_tolerant=True)
        info.failover_reconnect = reconnect
        await client.request(info)
        client.send_command(SessionInfo(SessionId("ID:steady:1", 1)))
        await client.request(ProducerInfo(producer))
        await client.transaction(TransactionType.BEGIN, client.local(1))
        message = client.text(producer, Q, "m", client.local(1))
        message.message_id = MessageId(None, producer, 1)
        await client.request(message)
        return client

    async with data.broker() as broker:
        await begin_and_send(broker, reconnect=False)
        again = await begin_and_send(broker, reconnect=True)
        await again.cut()
    async with data.broker() as broker:
        client = await begin_and_send(broker, reconnect=True)
        await client.transaction(TransactionType.COMMIT_ONE_PHASE, client.local(1))
        assert broker.queue_statistics("q").messages == 1
        await client.cut()


async def test_everything_may_be_deleted_at_the_start(any_data: Data) -> None:
    async with any_data.broker() as broker, any_data.client(broker) as client:
        await client.send(Q, "1")
    async with any_data.broker(delete_all_messages_on_startup=True) as broker:
        assert broker.queue_statistics("q").messages == 0
    async with any_data.broker() as broker:
        assert broker.queue_statistics("q").messages == 0


async def test_vm_makes_a_broker_that_keeps_its_messages(
    tmp_path: Path, raw_client: type[RawClient]
) -> None:
    url = f"vm://remembers?broker.dataDirectory={tmp_path}"
    client = raw_client(create_transport(url))
    await client.open()
    await client.send(Q, "1")
    await client.close()
    assert vm_registry.find("remembers") is None
    assert (tmp_path / "remembers" / "KahaDB" / "db-1.log").exists()
    client = raw_client(create_transport(url))
    await client.open()
    await client.consumer(Q)
    assert text_of(await client.message()) == "1"
    await client.close()


@pytest.mark.fact("activemq-persistence H3")
async def test_a_slave_takes_over(tmp_path: Path, raw_client: Any) -> None:
    settings = KahaDBPersistenceSettings.model_validate(
        {"lock_acquire_sleep_interval": "10ms", "journal": SMALL}
    )
    master, slave = (
        BrokerService(name, store_directory=tmp_path, data_directory=tmp_path, persistence=settings)
        for name in ("master", "slave")
    )
    door = slave.add_connector("tcp://127.0.0.1:0")
    await master.start()
    client = raw_client(create_transport(master.vm_uri))
    await client.open()
    await client.send(Q, "1")
    async with anyio.create_task_group() as group:
        group.start_soon(slave.start)
        await until(lambda: slave.slave)
        assert not slave.started
        assert door.connect_uri.endswith(":0")  # it is not bound
        await client.cut()
        await master.stop()
    assert slave.started
    client = raw_client(create_transport(door.connect_uri))
    await client.open()
    await client.consumer(Q)
    dispatch = await client.dispatched()
    assert text_of(dispatch.message) == "1"
    await client.ack(dispatch, AckType.STANDARD)
    await client.close()
    await slave.stop()


@pytest.mark.fact("jms-api 10.3")
async def test_persistent_messages_survive_the_broker_and_are_delivered_once(
    tmp_path: Path,
) -> None:
    queue, topic = Queue("q"), Topic("t")

    async def received(consumer: Any, count: int) -> list[str]:
        texts = [(await consumer.receive(30)).text for _ in range(count)]
        assert await consumer.receive(0.1) is None
        return texts

    async with EmbeddedTestBroker(data_directory=tmp_path) as broker:
        factory = ConnectionFactory(broker.url)
        async with await factory.create_connection() as connection:
            await connection.start()
            session = await connection.create_session()
            subscriber = await session.create_consumer(topic)
            producer = await session.create_producer()
            for target in (queue, topic):
                for mode in DeliveryMode:
                    message = session.create_text_message(mode.name)
                    await producer.send(message, destination=target, delivery_mode=mode)
            names = [mode.name for mode in DeliveryMode]
            assert await received(subscriber, 2) == names
            browser = await session.create_browser(queue)  # it lives, so it has both
            assert [m.text async for m in browser] == names  # type: ignore[attr-defined]
        await broker.restart()
        async with await factory.create_connection() as connection:
            await connection.start()
            session = await connection.create_session()
            assert await received(await session.create_consumer(topic), 0) == []
            consumer = await session.create_consumer(queue)
            assert await received(consumer, 1) == ["PERSISTENT"]
        await broker.restart()
        async with await factory.create_connection() as connection:
            await connection.start()
            session = await connection.create_session()
            assert await received(await session.create_consumer(queue), 0) == []
