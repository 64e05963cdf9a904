"""Messages moved between two queues in transactions while connections are cut, and the account.

Nothing may be lost, and nothing committed twice.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from pyjms.client.connection import ActiveMQConnection
from pyjms.client.factory import ConnectionFactory
from pyjms.errors import TransactionRolledBackException
from pyjms.jms.message import TextMessage
from pyjms.wire.openwire.commands import (
    ActiveMQTextMessage,
    ConnectionInfo,
    ConsumerInfo,
    MessageAck,
    MessageDispatch,
    ProducerInfo,
    RemoveInfo,
    SessionInfo,
    ShutdownInfo,
    TransactionInfo,
    TransactionType,
    WireFormatInfo,
)
from tests.kit.failures.cutting_proxy import (
    DIRECTIONS,
    TO_BROKER,
    TO_CLIENT,
    CuttingProxy,
    FrameTest,
    of_type,
)
from tests.kit.waiting import LONGEST_WAIT, until

logger = logging.getLogger(__name__)

DEAD_LETTERS = "ActiveMQ.DLQ"
FAST = "initialReconnectDelay=5&maxReconnectDelay=20"


def factory_of(proxy: CuttingProxy, query: str = FAST) -> ConnectionFactory:
    """Return a factory of connections through the proxy, which survive cuts."""
    return ConnectionFactory(f"failover:({proxy.url})?{query}")


async def texts(factory: Any, queue: str) -> list[str]:
    """Consume a queue and return its texts."""
    async with await factory.create_connection() as connection:
        await connection.start()
        session = await connection.create_session()
        consumer = await session.create_consumer(session.create_queue(queue))
        found = []
        while (message := await consumer.receive(0.3)) is not None:
            found.append(message.text)
        return found


def _transaction(kind: TransactionType) -> FrameTest:
    return lambda frame: frame[4] == TransactionInfo.TYPE and frame[-1] == kind


_POINTS: dict[str, FrameTest] = {
    "connect": of_type(WireFormatInfo.TYPE, ConnectionInfo.TYPE),
    "open": of_type(SessionInfo.TYPE, ProducerInfo.TYPE, ConsumerInfo.TYPE),
    "send": of_type(ActiveMQTextMessage.TYPE),
    "acknowledge": of_type(MessageAck.TYPE),
    "close": of_type(RemoveInfo.TYPE, ShutdownInfo.TYPE),
}
POINTS: dict[str, FrameTest] = {
    **_POINTS,
    "commit": _transaction(TransactionType.COMMIT_ONE_PHASE),
}
"""What a client does -> its commands. Cuts come at them, and in what the broker sends next."""
BRANCH_POINTS: dict[str, FrameTest] = {
    **_POINTS,
    "start": _transaction(TransactionType.BEGIN),
    "end": _transaction(TransactionType.END),
    "prepare": _transaction(TransactionType.PREPARE),
    "commit": _transaction(TransactionType.COMMIT_TWO_PHASE),
}
"""The same, for work in XA branches with two phases."""
_DISPATCH = of_type(MessageDispatch.TYPE)


@dataclass
class Account:
    """The outcome for the messages and for the clients that moved them."""

    cuts: Counter[str] = field(default_factory=Counter)
    """By point and direction."""
    sent: list[str] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    """Committed for certain."""
    in_doubt: int = 0
    """Commits that ended in TransactionRolledBackException."""
    slowest: float = 0.0
    """Seconds that the slowest call took."""
    lost: set[str] = field(default_factory=set)
    doubled: list[str] = field(default_factory=list)
    dead: list[str] = field(default_factory=list)
    tasks_left: list[str] = field(default_factory=list)
    descriptors_left: int = 0

    def figures(self) -> dict[str, object]:
        """Return the account in numbers."""
        sizes = {
            name: len(value) if isinstance(value, list | set) else value
            for name, value in vars(self).items()
        }
        return {
            **sizes,
            "tasks_left": self.tasks_left,
            "cuts": dict(sorted(self.cuts.items())),
            "all_cuts": self.cuts.total(),
        }

    @contextmanager
    def call(self) -> Iterator[None]:
        """Measure a call, which must end."""
        began = anyio.current_time()
        with anyio.fail_after(LONGEST_WAIT):
            yield
        self.slowest = max(self.slowest, anyio.current_time() - began)


@asynccontextmanager
async def connected(factory: Any, account: Account) -> AsyncIterator[ActiveMQConnection]:
    """Open and close a connection, both in time."""
    with account.call():
        connection = await factory.create_connection()
    try:
        yield connection
    finally:
        with account.call():
            await connection.close()


async def transfer(connection: ActiveMQConnection, count: int, account: Account) -> None:
    """Move messages from one queue to another, each in a separate transaction.

    Ends when `count` have been moved altogether, or none comes.
    """
    session = await connection.create_session(True)
    consumer = await session.create_consumer(session.create_queue("in"))
    producer = await session.create_producer(session.create_queue("out"))
    while len(account.moved) < count:
        with account.call():
            message = await consumer.receive(1)
        if message is None:
            return
        assert isinstance(message, TextMessage)
        try:
            with account.call():
                await producer.send(session.create_text_message(message.text))
                await session.commit()
        except TransactionRolledBackException:
            account.in_doubt += 1
            continue
        account.moved.append(str(message.text))


def _plan_cut(proxy: CuttingProxy, chance: random.Random, points: dict[str, FrameTest]) -> str:
    """Have the proxy cut at a random one of these points, or anywhere; return which."""
    inside = chance.choice((0, 0, 1, 5, 40))
    kind = chance.randrange(4)
    if kind == 0:
        direction = chance.choice(DIRECTIONS)
        proxy.cut_at(direction, chance.randrange(12), inside)
        return f"anything {direction}"
    if kind == 1 and chance.random() < 0.3:
        proxy.cut_at(TO_CLIENT, chance.randrange(3), inside, at=_DISPATCH)
        return f"dispatch {TO_CLIENT}"
    point = chance.choice([*points])
    if chance.random() < 0.5:
        proxy.cut_at(TO_BROKER, chance.choice((0, 0, 1)), inside, at=points[point])
        return f"{point} {TO_BROKER}"
    proxy.cut_at(TO_CLIENT, chance.choice((0, 0, 1)), inside, after=points[point])
    return f"{point} {TO_CLIENT}"


async def keep_cutting(
    proxy: CuttingProxy,
    cuts: int,
    chance: random.Random,
    points: dict[str, FrameTest],
    account: Account,
) -> None:
    """Cut so many connections at random points.

    Raises:
        TimeoutError: no connection came to the next point.
    """
    while proxy.cuts < cuts:
        before = proxy.cuts
        point = _plan_cut(proxy, chance, points)
        with anyio.fail_after(LONGEST_WAIT):
            await proxy.wait_for_cuts(before + 1)
        account.cuts[point] += 1


class Remains:
    """The tasks and descriptors of this process at one time, to detect leaks later."""

    @classmethod
    async def note(cls) -> Remains:
        """Return those of now."""
        await anyio.wait_all_tasks_blocked()  # those that are starting count, too
        return cls()

    def __init__(self) -> None:
        self._tasks, self._descriptors = _task_names(), _open_descriptors()

    async def count(self, account: Account) -> None:
        """Record leaks in `account`; closing may take a moment."""
        with anyio.move_on_after(5):
            await until(
                lambda: (
                    not _task_names() - self._tasks and _open_descriptors() <= self._descriptors
                ),
                turn=lambda: anyio.sleep(0.01),
            )
        account.tasks_left = [*(_task_names() - self._tasks).elements()]
        account.descriptors_left = _open_descriptors() - self._descriptors


async def cut_while_transferring(
    proxy: CuttingProxy,
    url: str,
    cuts: int,
    count: int,
    seed: int,
    dead_letters: str = DEAD_LETTERS,
) -> Account:
    """Cut connections at random points of a client's work, and return the account.

    Raises:
        TimeoutError: a call did not end, or no connection came to the next point.
    """
    chance = random.Random(seed)
    query = f"{FAST}&jms.redeliveryPolicy.maximumRedeliveries=-1&jms.closeTimeout=500"
    factory = factory_of(proxy, query)
    account = Account()
    remains = await Remains.note()

    async def send() -> None:
        number = 0
        while proxy.cuts < cuts or number < count:
            async with connected(factory, account) as connection:
                session = await connection.create_session()
                producer = await session.create_producer(session.create_queue("in"))
                for _ in range(10):
                    text = f"m{number}"
                    number += 1
                    with account.call():
                        await producer.send(session.create_text_message(text))
                    account.sent.append(text)

    async def receive() -> None:
        while proxy.cuts < cuts or len(account.moved) < len(account.sent):
            async with connected(factory, account) as connection:
                await connection.start()
                before = len(account.moved)
                await transfer(connection, before + 15, account)
                if proxy.cuts >= cuts and len(account.moved) == before:
                    return

    async with anyio.create_task_group() as group:
        group.start_soon(keep_cutting, proxy, cuts, chance, POINTS, account)
        group.start_soon(send)
        group.start_soon(receive)
    await until(lambda: not proxy.links, turn=lambda: anyio.sleep(0.01))
    direct = ConnectionFactory(url)
    left = await texts(direct, "in")
    out = await texts(direct, "out")
    account.dead = await texts(direct, dead_letters)
    account.lost = set(account.sent) - set(out) - set(left)
    account.doubled = [text for text, times in Counter(out).items() if times > 1]
    assert set(account.moved) <= set(out)
    await remains.count(account)
    return account


def check(account: Account, cuts: int) -> None:
    """Check that nothing was lost or committed twice, and that nothing is left."""
    logger.info("%s", account.figures())
    assert account.cuts.total() >= cuts
    if cuts >= 1000:  # so many that none of the points is left out
        assert len(account.cuts) > 2 * len(_POINTS)
    assert not account.lost
    assert not account.doubled
    assert not account.dead
    assert not account.tasks_left
    assert account.descriptors_left <= 0


def _task_names() -> Counter[str]:
    """Return the names of the running tasks, without those of Trio itself."""
    names = [task.name or "" for task in anyio.get_running_tasks()]
    return Counter(name for name in names if not name.startswith("<"))


def _open_descriptors() -> int:
    """Return the number of open descriptors of this process; 0 if it is unknown."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0
