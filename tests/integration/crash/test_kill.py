"""A broker killed at any instant under load: what it acknowledged is there, whole, and once.

Every round goes on with the data that the rounds before left. Eight clients send, in and out of
transactions, some of which they roll back; eight receive, in and out of transactions. Then
SIGKILL, a restart on the same data, and everything is drained and compared with what the clients
know: an answered send, commit or rollback is a promise; an unanswered one may have happened,
whole, or not at all. With a scheduler half of the messages are delayed: the same holds, but that
one whose delivery was not noted is delivered again (activemq-persistence E3).
"""

from __future__ import annotations

import logging
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from pyjms.aio import ConnectionFactory, DeliveryMode, TextMessage
from pyjms.client.producer import ActiveMQMessageProducer
from pyjms.client.session import ActiveMQSession
from pyjms.errors import JMSException
from tests.kit.processes.forked_python import ForkedPython

QUEUES = ("crash.a", "crash.b")
SENDERS = RECEIVERS = 8
READY_WITHIN = 30.0


class Broker:
    """The broker's process, on one port's data."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.options = options
        self.process: ForkedPython | None = None
        self.url = ""

    def start(self) -> None:
        data = self.folder / "data"
        self.log = (self.folder / "broker.log").open("a")
        command = ["-m", "pyjms_broker", "--data", str(data), *self.options]
        self.process = ForkedPython(
            [*command, "--openwire", "127.0.0.1:0"], stderr=self.log, cwd=self.folder
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "tcp://" in line:
                self.url = "tcp://" + line.split("tcp://", 1)[1].split()[0].split("?")[0]
                return
        pytest.fail("the broker did not start: " + (self.folder / "broker.log").read_text()[-3000:])

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.end()

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.end()

    def end(self) -> None:
        assert self.process is not None
        self.process.wait(READY_WITHIN)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.log.close()


class IndexUpdater:
    """What the clients know."""

    def __init__(self, *, delays: bool = False) -> None:
        self.delays = delays
        self.delayed: set[str] = set()  # sent to be delivered later
        self.number = 0
        self.promised: set[str] = set()  # sends and commits that were answered
        self.possible: set[str] = set()  # sent, not answered
        self.never: set[str] = set()  # rolled back, or left open
        self.groups: list[
            frozenset[str]
        ] = []  # commits that were not answered: whole or not at all
        self.received: Counter[str] = Counter()
        self.consumed: set[str] = set()  # acknowledged, and the commit was answered
        self.rolled_back: set[str] = set()  # received in transactions that were rolled back

    def name(self) -> str:
        self.number += 1
        return f"m{self.number}"

    def message(self, session: ActiveMQSession, name: str, rng: random.Random) -> TextMessage:
        made: TextMessage = session.create_text_message(name)
        if self.delays and rng.random() < 0.5:
            made.properties["AMQ_SCHEDULED_DELAY"] = rng.randint(1, 150)
            self.delayed.add(name)
        return made


async def _send_alone(
    session: ActiveMQSession,
    producer: ActiveMQMessageProducer,
    ledger: IndexUpdater,
    rng: random.Random,
) -> None:
    name = ledger.name()
    ledger.possible.add(name)
    await producer.send(ledger.message(session, name, rng))
    ledger.possible.discard(name)
    ledger.promised.add(name)


async def _send_together(
    session: ActiveMQSession,
    producer: ActiveMQMessageProducer,
    ledger: IndexUpdater,
    rng: random.Random,
) -> None:
    names = [ledger.name() for _ in range(rng.randint(1, 12))]
    ledger.never.update(names)
    other = await session.create_producer(session.create_queue(rng.choice(QUEUES)))
    for name in names:
        await rng.choice((producer, other)).send(ledger.message(session, name, rng))
    if rng.random() < 0.2:
        await session.rollback()
    else:
        ledger.never.difference_update(names)
        ledger.groups.append(frozenset(names))
        await session.commit()
        ledger.groups.pop(ledger.groups.index(frozenset(names)))
        ledger.promised.update(names)
    await other.close()


async def sender(url: str, ledger: IndexUpdater, rng: random.Random, transacted: bool) -> None:
    async with await ConnectionFactory(url).create_connection() as connection:
        session = await connection.create_session(transacted)
        producer = await session.create_producer(session.create_queue(rng.choice(QUEUES)))
        producer.delivery_mode = DeliveryMode.PERSISTENT
        send = _send_together if transacted else _send_alone
        while True:
            await send(session, producer, ledger, rng)


async def receiver(url: str, ledger: IndexUpdater, rng: random.Random, transacted: bool) -> None:
    factory = ConnectionFactory(url + "?jms.redeliveryPolicy.maximumRedeliveries=-1")
    async with await factory.create_connection() as connection:
        session = await connection.create_session(transacted)
        consumer = await session.create_consumer(session.create_queue(rng.choice(QUEUES)))
        await connection.start()
        while True:
            batch = []
            for _ in range(rng.randint(1, 8)):
                message = await consumer.receive(0.05)
                if message is None:
                    break
                assert isinstance(message, TextMessage)
                batch.append(message.text or "")
                if not transacted:
                    ledger.received[message.text or ""] += 1
            if transacted and batch:
                if rng.random() < 0.2:
                    ledger.rolled_back.update(batch)
                    await session.rollback()
                    continue
                ledger.received.update(batch)
                await session.commit()
                ledger.consumed.update(batch)


async def until_it_dies(client: Callable[..., Awaitable[None]], *args: Any) -> None:
    try:
        await client(*args)
    except JMSException:
        logging.getLogger(__name__).debug("the broker is gone", exc_info=True)


async def load_and_kill(broker: Broker, ledger: IndexUpdater, rng: random.Random) -> None:
    async with anyio.create_task_group() as group:
        for number in range(SENDERS):
            one = random.Random(rng.random())
            group.start_soon(until_it_dies, sender, broker.url, ledger, one, number % 2 == 0)
        for number in range(RECEIVERS):
            one = random.Random(rng.random())
            group.start_soon(until_it_dies, receiver, broker.url, ledger, one, number % 2 == 0)
        await anyio.sleep(rng.uniform(0.05, 0.7))
        await anyio.to_thread.run_sync(broker.kill)


async def drain(url: str, wait: float) -> list[str]:
    """Consume all messages that arrive within this time; the queues are empty afterwards."""
    found = []
    async with await ConnectionFactory(url).create_connection() as connection:
        session = await connection.create_session(transacted=True)
        await connection.start()
        for queue in QUEUES:
            consumer = await session.create_consumer(session.create_queue(queue))
            while (message := await consumer.receive(wait)) is not None:
                assert isinstance(message, TextMessage)
                found.append(message.text or "")
                if not len(found) % 8:  # a transaction's messages stay in memory
                    await session.commit()
            await session.commit()
            await consumer.close()
    return found


def check(ledger: IndexUpdater, found: list[str]) -> None:
    there = set(found)
    twice = {name for name, count in Counter(found).items() if count > 1} - ledger.delayed
    assert not twice, f"twice in the queues: {twice}"
    seen = there | set(ledger.received)
    assert not ledger.promised - seen, f"lost: {sorted(ledger.promised - seen)}"
    again = ledger.consumed & there - ledger.delayed
    assert not again, f"back again: {sorted(again)}"
    assert not ledger.never & (seen | ledger.rolled_back), "seen, and never committed"
    for group in ledger.groups:
        assert not group & seen or group <= seen, f"half a transaction: {sorted(group & seen)}"
    known = ledger.promised | ledger.possible | {n for g in ledger.groups for n in g}
    assert seen <= known, f"out of nowhere: {sorted(seen - known)}"


async def rounds(folder: Path, count: int, *options: str, delays: bool = False) -> None:
    seed = int(os.environ.get("TEST_CRASH_SEED", time.time_ns() % 1_000_000))
    print(f"TEST_CRASH_SEED={seed}")
    rng = random.Random(seed)
    broker = Broker(folder, *options)
    total = 0
    await anyio.to_thread.run_sync(broker.start)
    for number in range(count):
        ledger = IndexUpdater(delays=delays)
        await load_and_kill(broker, ledger, rng)
        await anyio.to_thread.run_sync(broker.start)
        found = await drain(broker.url, 0.8 if delays else 0.3)
        try:
            check(ledger, found)
        except AssertionError as error:
            broker.stop()
            pytest.fail(f"round {number}, seed {seed}: {error}; data in {folder}")
        total += len(ledger.promised)
    await anyio.to_thread.run_sync(broker.stop)
    assert broker.process is not None and broker.process.returncode == 0
    assert total > count, "hardly anything was sent"
    print(f"{count} rounds, {total} answered messages, nothing lost")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("count", [4, pytest.param(200, marks=pytest.mark.nightly)])
async def test_kills_lose_nothing(tmp_path: Path, count: int) -> None:
    await rounds(tmp_path, count)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("count", [3, pytest.param(100, marks=pytest.mark.nightly)])
async def test_kills_lose_nothing_that_is_to_be_delivered_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setenv("PYJMS_BROKER__SCHEDULER_SUPPORT", "true")
    await rounds(tmp_path, count, delays=True)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("count", [2, pytest.param(100, marks=pytest.mark.nightly)])
async def test_kills_lose_nothing_while_memory_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """What is in flight has left memory, so that acknowledgements know only its place."""
    monkeypatch.setenv("PYJMS_BROKER__SYSTEM_USAGE__MEMORY_LIMIT", "32kb")
    await rounds(tmp_path, count)
