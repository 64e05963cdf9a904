"""Queues read by numbers: lease, stat, hold, range, trim, release, on every store."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from pyjms.enums import DeliveryMode
from pyjms.errors import JMSException
from pyjms.jms.destination import Queue
from pyjms.jms.message import BytesMessage, TextMessage
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.policy.entry import PolicyMap
from pyjms_broker.region.queue import Queue as BrokerQueue
from tests.kit.brokers.internal_messages import store_internal
from tests.kit.clients.messages import text_of
from tests.kit.stores.ranges import Broker, MakeBroker
from tests.kit.values import present
from tests.kit.waiting import until

RANGES = Queue("PyJMS.Ranges")
STORES = ("memory", "kahadb", "jdbc")
every_store = pytest.mark.parametrize("kind", STORES)
lasting = pytest.mark.parametrize("kind", ["kahadb", "jdbc"])


def there(broker: Broker, name: str = "IN") -> BrokerQueue:
    queue = broker.service.region_broker.destinations()[Queue(name)]
    assert isinstance(queue, BrokerQueue)
    return queue


@every_store
async def test_what_is_there_and_what_comes_is_read_again_and_again_until_trimmed(
    make_broker: MakeBroker, kind: str
) -> None:
    broker = await make_broker(kind)
    await broker.send("IN", "a", "b", "c")
    reader = await broker.client()
    lease = await reader.ask("lease", queue="IN", owner="q1")
    first, following, token = lease["first"], lease["next"], lease["token"]
    assert following == first + 3
    assert await reader.range(token, first, following) == {
        first: "a",
        first + 1: "b",
        first + 2: "c",
    }
    await reader.send("stat", token=token, gt=following, wait=10)
    await broker.send("IN", "d")
    stat = await reader.answer()
    assert isinstance(stat, TextMessage)
    assert f'"next": {following + 1}' in (stat.text or "")
    assert await reader.range(token, first + 1, following + 1) == {
        first + 1: "b",
        first + 2: "c",
        first + 3: "d",
    }
    assert (await reader.ask("trim", token=token, to=first + 2))["first"] == first + 2
    assert (await reader.ask("trim", token=token, to=first + 2))["first"] == first + 2
    assert (await reader.ask("trim", token=token, to=first))["first"] == first + 2
    assert there(broker).statistics.messages == 2
    assert list((await reader.range(token, first + 2, following + 1)).values()) == ["c", "d"]
    await reader.send("range", token=token, **{"from": first, "to": following})
    assert '"code": "trimmed"' in present(text_of(await reader.answer()))
    times = [(await reader.ask("stat", token=token, at=first + n)).get("sent") for n in (0, 2, 9)]
    assert times[0] is times[2] is None, "it was removed, or is not there yet"
    assert isinstance(times[1], int)
    assert (await reader.ask("range", token=token, from_=first + 2, to=following + 9))[
        "code"
    ] == "ahead"
    assert (await reader.ask("trim", token=token, to=following + 9))["code"] == "ahead"


@every_store
async def test_consumers_get_nothing_of_a_leased_queue_and_all_that_is_left_afterwards(
    make_broker: MakeBroker, kind: str
) -> None:
    broker = await make_broker(kind)
    reader = await broker.client()
    token = (await reader.ask("lease", queue="IN", owner="q1"))["token"]
    session = await (await broker.connect()).create_session()
    consumer = await session.create_consumer(Queue("IN"))
    await broker.send("IN", "a", "b")
    await broker.send("IN", "c", delivery_mode=DeliveryMode.NON_PERSISTENT)
    stat = await reader.ask("stat", token=token, gt=3, wait=5)
    assert await consumer.receive(0.05) is None
    await reader.ask("trim", token=token, to=stat["next"] - 2)
    assert (await reader.ask("release", token=token)) == {"released": True}
    assert [text_of(await consumer.receive(5)) for _ in range(2)] == ["b", "c"]
    assert (await reader.ask("stat", token=token))["code"] == "unknown_token"
    assert there(broker).statistics.messages == 0


@every_store
async def test_one_owner_at_a_time_and_his_newest_lease_counts(
    make_broker: MakeBroker, kind: str
) -> None:
    broker = await make_broker(kind)
    one, two = await broker.client(), await broker.client()
    old = (await one.ask("lease", queue="IN", owner="q1"))["token"]
    refused = await two.ask("lease", queue="IN", owner="q2")
    assert refused["code"] == "leased"
    assert "q1" in refused["error"]
    new = (await two.ask("lease", queue="IN", owner="q1"))["token"]
    assert (await one.ask("stat", token=old))["code"] == "replaced"
    assert (await one.ask("lease", queue="IN", owner="q1", token=old))["code"] == "replaced"
    assert "next" in await two.ask("stat", token=new)
    await two.connection.close()
    assert "token" in await one.ask("lease", queue="IN", owner="q3")


@every_store
async def test_a_lost_connection_frees_the_queue(make_broker: MakeBroker, kind: str) -> None:
    broker = await make_broker(kind)
    await broker.send("IN", "a")
    reader, other = await broker.client(), await broker.client()
    token = (await reader.ask("lease", queue="IN", owner="q1", token="t" * 16))["token"]
    assert token == "t" * 16
    await reader.connection.transport.stop()
    session = await (await broker.connect()).create_session()
    consumer = await session.create_consumer(Queue("IN"))
    assert text_of(await consumer.receive(5)) == "a"
    await consumer.close()
    # with the same token, executors go on where they were
    assert (await other.ask("lease", queue="IN", owner="q1", token=token))["token"] == token


@every_store
async def test_a_queue_whose_consumers_hold_messages_is_not_leased(
    make_broker: MakeBroker, kind: str
) -> None:
    broker = await make_broker(kind)
    await broker.send("IN", "a", "b")
    session = await (await broker.connect()).create_session(transacted=True)
    consumer = await session.create_consumer(Queue("IN"))
    assert text_of(await consumer.receive(5)) == "a"
    reader = await broker.client()
    refused = await reader.ask("lease", queue="IN", owner="q1")
    assert refused["code"] == "in_flight"
    await reader.send("lease", queue="IN", owner="q1", wait=10)
    await session.rollback()
    await consumer.close()
    assert '"next"' in present(text_of(await reader.answer()))
    await broker.send("IN", "c")


@every_store
async def test_messages_that_need_no_store_are_stored_for_a_reader(
    make_broker: MakeBroker, kind: str
) -> None:
    broker = await make_broker(kind)
    session = await (await broker.connect()).create_session(transacted=True)
    quick = {"delivery_mode": DeliveryMode.NON_PERSISTENT}
    await broker.send("IN", "x", session=session, **quick)
    await broker.send("IN", "a", "b", **quick)
    await broker.send("IN", "c")
    reader = await broker.client()
    lease = await reader.ask("lease", queue="IN", owner="q1")
    await session.commit()
    await broker.send("IN", "d", **quick)
    stat = await reader.ask("stat", token=lease["token"], gt=lease["next"] + 1, wait=10)
    found = await reader.range(lease["token"], lease["first"], stat["next"])
    assert sorted(map(str, found.values())) == ["a", "b", "c", "d", "x"]
    statistics = there(broker).statistics
    assert (statistics.messages, statistics.enqueues, statistics.dequeues) == (5, 5, 0)
    if kind != "memory":
        assert present(there(broker).store).message_count == 5


@lasting
async def test_numbers_and_marks_stay_over_a_restart(make_broker: MakeBroker, kind: str) -> None:
    broker = await make_broker(kind)
    await broker.send("IN", *"abcdef")
    reader = await broker.client()
    lease = await reader.ask("lease", queue="IN", owner="q1")
    first, token = lease["first"], lease["token"]
    await reader.ask("trim", token=token, to=first + 2)
    assert (await reader.ask("hold", token=token, to=first + 4))["held"] == first + 4
    before = await reader.range(token, first + 2, lease["next"])
    await broker.restart()
    again = await broker.client()
    after = await again.ask("lease", queue="IN", owner="q1", token=token)
    assert after == {**lease, "first": first + 2}
    assert await again.range(token, first + 2, lease["next"]) == before
    await broker.send("IN", "g")
    stat = await again.ask("stat", token=token, gt=lease["next"], wait=10)
    assert await again.range(token, lease["next"], stat["next"]) == {lease["next"]: "g"}


@every_store
async def test_what_was_read_does_not_expire_and_is_not_purged_while_leased(
    make_broker: MakeBroker, kind: str
) -> None:
    broker = await make_broker(kind)
    await broker.send("IN", "short", time_to_live=0.2)
    await broker.send("IN", "shorter", time_to_live=0.2)
    reader = await broker.client()
    lease = await reader.ask("lease", queue="IN", owner="q1")
    first, token = lease["first"], lease["token"]
    await reader.ask("hold", token=token, to=first + 1)
    queue = there(broker)
    await anyio.sleep(0.3)  # the messages' time, nobody's who is waited for
    queue.expire_messages()
    assert queue.purge(ConnectionContext()) == 0
    assert len(await reader.range(token, first, first + 2)) == 2
    await reader.connection.close()
    if kind != "memory":
        await broker.restart()
        queue = there(broker)
    queue.expire_messages()
    assert [present(reference.position).arrival for reference in queue.messages()] == [first]
    again = await broker.client()
    after = await again.ask("lease", queue="IN", owner="q2")
    assert (after["first"], after["epoch"]) == (first, lease["epoch"])


@every_store
async def test_a_purge_and_a_new_queue_of_the_name_are_another_epoch(
    make_broker: MakeBroker, kind: str
) -> None:
    broker = await make_broker(kind)
    await broker.send("IN", "a")
    reader = await broker.client()
    lease = await reader.ask("lease", queue="IN", owner="q1")
    await reader.ask("release", token=lease["token"])
    assert there(broker).purge(ConnectionContext()) == 1
    if kind != "memory":
        await broker.restart()
        reader = await broker.client()
    purged = await reader.ask("lease", queue="IN", owner="q1")
    assert purged["epoch"] != lease["epoch"]
    root, context = broker.service.broker, broker.service.region_broker.context
    with pytest.raises(JMSException, match="read by its numbers"):
        root.remove_destination(context, Queue("IN"), 0)
    await reader.ask("release", token=purged["token"])
    root.remove_destination(context, Queue("IN"), 0)
    await broker.send("IN", "b")
    fresh = await reader.ask("lease", queue="IN", owner="q1")
    assert fresh["epoch"] not in (lease["epoch"], purged["epoch"])


@every_store
async def test_a_transaction_is_seen_whole_or_not_at_all(
    make_broker: MakeBroker, kind: str
) -> None:
    broker = await make_broker(kind)
    reader = await broker.client()
    lease = await reader.ask("lease", queue="IN", owner="q1")
    token = lease["token"]
    session = await (await broker.connect()).create_session(transacted=True)
    await broker.send("IN", "t1", "t2", session=session)
    await broker.send("IN", "between")
    assert (await reader.ask("stat", token=token))["next"] == lease["next"] + 1
    await session.commit()
    after = await reader.ask("stat", token=token, gt=lease["next"] + 2, wait=5)
    found = await reader.range(token, lease["first"], after["next"])
    assert list(found.values()) == ["between", "t1", "t2"]
    await broker.send("IN", "never", session=session)
    await session.rollback()
    assert (await reader.ask("stat", token=token))["next"] == after["next"]


@every_store
async def test_priorities_make_no_order_here(
    make_broker: MakeBroker, kind: str, prioritized: PolicyMap
) -> None:
    broker = await make_broker(kind, policies=prioritized)
    for number in range(30):
        await broker.send("IN", str(number), priority=number % 10)
    reader = await broker.client()
    lease = await reader.ask("lease", queue="IN", owner="q1")
    first, token = lease["first"], lease["token"]
    found = await reader.range(token, first, lease["next"])
    assert list(found.values()) == [str(number) for number in range(30)]
    await reader.ask("trim", token=token, to=first + 13)
    found = await reader.range(token, first + 13, lease["next"])
    assert list(found.values()) == [str(number) for number in range(13, 30)]
    assert there(broker).statistics.messages == 17


@every_store
async def test_a_selector_leaves_messages_out_and_they_are_trimmed_too(
    make_broker: MakeBroker, kind: str
) -> None:
    broker = await make_broker(kind)
    for number in range(6):
        await broker.send("IN", str(number), properties={"n": number})
    reader = await broker.client()
    lease = await reader.ask("lease", queue="IN", owner="q1", selector="n > 2 AND n < 5")
    found = await reader.range(lease["token"], lease["first"], lease["next"])
    assert list(found.values()) == ["3", "4"]
    await reader.ask("trim", token=lease["token"], to=lease["next"])
    assert there(broker).statistics.messages == 0
    assert (await reader.ask("lease", queue="X", owner="q", selector="n >"))[
        "code"
    ] == "bad_request"


@every_store
async def test_many_senders_and_a_reader_that_keeps_up_miss_nothing(
    make_broker: MakeBroker, kind: str
) -> None:
    broker = await make_broker(kind)
    reader = await broker.client()
    lease = await reader.ask("lease", queue="IN", owner="q1")
    token, at = lease["token"], lease["first"]
    sent: set[str] = set()

    async def send(name: str, transacted: bool) -> None:
        session = await (await broker.connect()).create_session(transacted)
        for number in range(40):
            some = [f"{name}-{number}-{i}" for i in range(3)]
            sent.update(some)
            await broker.send("IN", *some, session=session)
            if transacted:
                await session.commit()

    seen: list[str] = []
    async with anyio.create_task_group() as tasks:
        for number in range(4):
            tasks.start_soon(send, f"s{number}", number % 2 == 0)
        while len(seen) < 480:
            stat = await reader.ask("stat", token=token, gt=at, wait=10)
            assert stat["next"] > at
            seen += map(str, (await reader.range(token, at, stat["next"])).values())
            at = stat["next"]
            await reader.ask("trim", token=token, to=at)
    assert sorted(seen) == sorted(sent)
    assert there(broker).statistics.messages == 0


@pytest.mark.parametrize("count", [20_000, pytest.param(200_000, marks=pytest.mark.nightly)])
async def test_big_queues_need_no_more_memory_than_a_page(
    make_broker: MakeBroker, count: int
) -> None:
    broker = await make_broker("kahadb")
    broker.service.system_usage.memory.limit = 4 * 1024 * 1024
    session = await (await broker.connect()).create_session(transacted=True)
    for start in range(0, count, 1000):
        texts = [f"{number:0200d}" for number in range(start, start + 1000)]
        await broker.send("IN", *texts, session=session)
        await session.commit()
    reader = await broker.client()
    lease = await reader.ask("lease", queue="IN", owner="q1")
    at, following, token = lease["first"], lease["next"], lease["token"]
    assert following - at == count
    seen = 0
    while at < following:
        some, message = await reader.chunk(token, at, following)
        assert isinstance(message, BytesMessage)
        assert len(message.data) <= 1024 * 1024
        seen += len(some)
        at = message.properties["next"]
        assert broker.service.system_usage.memory.used < 5 * 1024 * 1024
    assert seen == count
    await reader.ask("trim", token=token, to=following)
    assert there(broker).statistics.messages == 0
    assert present(there(broker).store).message_count == 0


@every_store
async def test_looking_takes_nothing_and_needs_no_lease(make_broker: MakeBroker, kind: str) -> None:
    broker = await make_broker(kind)
    await broker.send("IN", "a", "b", "c")
    reader = await broker.client()
    seen = await reader.ask("look", queue="IN")
    assert seen["next"] - seen["first"] == 3
    session = await (await broker.connect()).create_session()
    consumer = await session.create_consumer(Queue("IN?consumer.prefetchSize=1"))
    assert text_of(await consumer.receive(5)) == "a"
    await consumer.close()
    await reader.send("range", queue="IN", **{"from": seen["first"], "to": seen["next"]})
    message = await reader.answer()
    assert message.properties["last"] is True
    assert [text for _, text in reader.texts(message)] == ["b", "c"]
    assert there(broker).statistics.messages == 2
    assert (await reader.ask("range", from_=1, to=2))["code"] == "bad_request"


async def test_one_request_waits_for_several_queues(make_broker: MakeBroker) -> None:
    broker = await make_broker("memory")
    reader = await broker.client()
    one = await reader.ask("lease", queue="IN", owner="q")
    other = await reader.ask("lease", queue="OTHER", owner="q")
    more = [[other["token"], other["next"]]]
    await reader.send("stat", token=one["token"], gt=one["next"], wait=30, more=more)
    await broker.send("OTHER", "a")
    await broker.send("OTHER", "b")
    found = json.loads(present(text_of(await reader.answer(10))))
    assert found["next"] == one["next"]
    assert [state["next"] > other["next"] for state in found["more"]] == [True]
    more.append(["0" * 32, 0])
    assert (await reader.ask("stat", token=one["token"], more=more))["code"] == "unknown_token"


async def test_queues_are_found_by_a_pattern(make_broker: MakeBroker) -> None:
    broker = await make_broker("memory")
    for queue in ("orders.new", "orders.old.1", "other", "PyJMS.Stage.q"):
        await broker.send(queue, "a")
    reader = await broker.client()
    for pattern, queues in (
        ("orders.>", ["orders.new", "orders.old.1"]),
        ("orders.*,other", ["orders.new", "other"]),
        (">", ["orders.new", "orders.old.1", "other"]),
        ("PyJMS.>", ["PyJMS.Stage.q"]),
        ("nothing.>", []),
    ):
        assert await reader.ask("find", pattern=pattern) == {"queues": queues}


async def test_a_pattern_may_match_a_thousand_queues(make_broker: MakeBroker) -> None:
    queues = [Queue(f"many.{number}") for number in range(1001)]
    broker = await make_broker("memory", destinations=queues)
    reader = await broker.client()
    assert (await reader.ask("find", pattern="many.>"))["code"] == "bad_request"
    assert (await reader.ask("find", pattern="many.1"))["queues"] == ["many.1"]


async def test_wrong_requests_are_answered(make_broker: MakeBroker) -> None:
    broker = await make_broker("memory")
    reader = await broker.client()
    for op, fields in (
        ("nonsense", {}),
        ("lease", {"queue": "IN"}),
        ("lease", {"queue": 3, "owner": "q"}),
        ("lease", {"queue": "A,B", "owner": "q"}),
        ("lease", {"queue": "A.>", "owner": "q"}),
        ("lease", {"queue": "PyJMS.Ranges", "owner": "q"}),
        ("lease", {"queue": "IN", "owner": "q", "token": "short"}),
        ("range", {"token": "t", "to": 3}),
        ("trim", {"token": "t", "to": True}),
        ("stat", {"token": "t", "more": {"t": 1}}),
        ("stat", {"token": "t", "more": [["t"]]}),
        ("stat", {"token": "t", "more": [["t", "1"]]}),
        ("find", {"pattern": 3}),
        ("find", {"pattern": " "}),
    ):
        answer = await reader.ask(op, **fields)
        assert answer["code"] == "bad_request", (op, fields)
    for wait in (float("nan"), float("inf"), 2**63, -(2**63) - 1, 10**4000):
        answer = await reader.ask("lease", queue="IN", owner="q", wait=wait)
        assert answer["code"] == "bad_request", wait
    assert (await reader.ask("trim", token="t", to=1))["code"] == "unknown_token"


async def test_requests_need_a_reply_and_no_transaction_and_are_not_too_many(
    make_broker: MakeBroker,
) -> None:
    broker = await make_broker("memory")
    reader = await broker.client()
    session = await (await broker.connect()).create_session()
    producer = await session.create_producer(RANGES)
    with pytest.raises(JMSException, match="needs a reply destination"):
        await producer.send(TextMessage("{}"))
    transacted = await (await broker.connect()).create_session(True)
    producer = await transacted.create_producer(RANGES)
    message = TextMessage("{}")
    message.reply_to = reader.answers
    await producer.send(message)
    with pytest.raises(JMSException):
        await transacted.commit()
    token = (await reader.ask("lease", queue="IN", owner="q"))["token"]
    for _ in range(33):
        await reader.send("stat", token=token, gt=10, wait=60)
    assert "at a time" in present(text_of(await reader.answer()))
    await reader.connection.close()


async def test_damaged_marks_are_passed_over(make_broker: MakeBroker) -> None:
    broker = await make_broker("kahadb")
    for text in ("no mark", '{"queue": 1}'):
        store_internal(broker.service, "PyJMS.Ranges.Marks", text)
    await broker.send("IN", "a")
    reader = await broker.client()
    await reader.ask("lease", queue="IN", owner="q")
    await broker.restart()
    reader = await broker.client()
    assert (await reader.ask("lease", queue="IN", owner="q"))["next"] == 2
    assert there(broker, "PyJMS.Ranges.Marks").statistics.messages == 3


@pytest.mark.parametrize("failing", [2, 250])
async def test_a_store_that_fails_when_a_lease_begins_loses_nothing(
    make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    broker = await make_broker("kahadb", memory_limit=10_000)
    texts = [f"{n:03}" for n in range(300)]
    await broker.send("IN", *texts, delivery_mode=DeliveryMode.NON_PERSISTENT)
    queue = there(broker)
    await until(lambda: queue.statistics.messages == 300)
    assert 50 < queue.contents.paged_out_count < 298
    store = queue.store
    calls = 0
    assert store is not None
    add_message = store.add_message

    def fail_once(context: Any, reference: Any) -> Completion:
        nonlocal calls
        calls += 1
        if calls == failing:
            raise JMSException("the disk is full")
        return add_message(context, reference)

    monkeypatch.setattr(store, "add_message", fail_once)
    reader = await broker.client()
    assert (await reader.ask("lease", queue="IN", owner="q"))["code"] == "failed"
    await until(lambda: queue.statistics.messages == 300)
    lease = await reader.ask("lease", queue="IN", owner="q")
    found = await reader.range(lease["token"], lease["first"], lease["next"])
    assert sorted(map(str, found.values())) == texts
    statistics = queue.statistics
    assert (statistics.messages, statistics.enqueues, statistics.dequeues) == (300, 300, 0)


async def test_a_trim_is_answered_when_it_is_on_the_disk(
    make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await make_broker("kahadb")
    await broker.send("IN", *"abc")
    reader = await broker.client()
    lease = await reader.ask("lease", queue="IN", owner="q")
    store = there(broker, "PyJMS.Ranges.Marks").store
    assert store is not None
    add_message = store.add_message
    synced = Completion()

    def add_unsynced(context: Any, reference: Any) -> Completion:
        add_message(context, reference)
        return synced

    monkeypatch.setattr(store, "add_message", add_unsynced)
    await reader.send("trim", token=lease["token"], to=lease["next"])
    await until(lambda: there(broker).statistics.messages == 0)
    for _ in range(2):  # requests behind it are answered before it
        await reader.send("look", queue="IN")
        assert "epoch" in present(text_of(await reader.answer()))
    synced.complete()
    assert text_of(await reader.answer()) == json.dumps({"first": lease["next"]})
