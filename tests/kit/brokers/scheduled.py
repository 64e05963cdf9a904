"""A broker with a scheduler, in memory and virtual time or on disk, and a client of it."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from pyjms.aio import ConnectionFactory
from pyjms.client.connection import ActiveMQConnection
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.jms.message import Message, TextMessage
from pyjms.runtime import clock as _clock
from pyjms.testing.clock import VirtualClock
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ProducerExchange
from pyjms_broker.filters.scheduler.filter import SchedulerBroker
from pyjms_broker.filters.scheduler.schedule_properties import SCHEDULED
from pyjms_broker.service import BrokerService
from tests.kit.stores.small import SMALL_SEGMENTS

_numbers = itertools.count(1)

Send = Callable[[ProducerExchange, ActiveMQMessage], Completion]


class Scheduling:
    """A broker, one connection to it, and what tests do with jobs."""

    def __init__(self, folder: Path, persistent: bool, **attributes: Any) -> None:
        self._folder, self._persistent, self._attributes = folder, persistent, attributes
        self._name = f"scheduling-{next(_numbers)}"
        self._stack = AsyncExitStack()
        self.arrivals: list[float] = []
        """When the last received messages arrived, in seconds from the start."""

    async def start(self) -> None:
        how = {"scheduler_support": True, "persistence": SMALL_SEGMENTS, **self._attributes}
        self.service = BrokerService(
            self._name, persistent=self._persistent, data_directory=self._folder, **how
        )
        await self.service.start()
        self.connection = await self.connect()
        self.session = await self.connection.create_session()
        self.began = _clock.time_ms()

    async def connect(self) -> ActiveMQConnection:
        factory = ConnectionFactory(f"{self.service.vm_uri}?create=false")
        connection = await factory.create_connection()
        self._stack.push_async_callback(connection.close)
        await connection.start()
        return connection

    async def stop(self) -> None:
        await self._stack.aclose()
        self._stack = AsyncExitStack()
        await self.service.stop()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    @property
    def jobs(self) -> list[Any]:
        store = self.service.stores.job_store
        assert store is not None
        return list(store.scheduler().jobs())

    def count(self, name: str) -> int:
        there = self.service.region_broker.destinations().get(Queue(name))
        return 0 if there is None else there.statistics.messages

    async def until(self, condition: Callable[[], Any], seconds: float = 10) -> None:
        """Wait until a condition holds that the broker meets in the background."""
        for _ in range(int(seconds * 100)):
            if condition():
                return
            await _clock.sleep(0.01)
        raise AssertionError("the condition did not become true")

    async def send(
        self,
        to: str | Destination = "Q",
        text: str = "x",
        *,
        session: Any = None,
        reply_to: Destination | None = None,
        how: Any = None,
        **properties: Any,
    ) -> Message:
        session = session or self.session
        producer = await session.create_producer(Queue(to) if isinstance(to, str) else to)
        message = TextMessage(text)
        message.reply_to = reply_to
        for name, value in properties.items():
            message.properties[name] = value
        await producer.send(message, **(how or {}))
        await producer.close()
        return message

    async def order(self, text: str = "x", to: str | Destination = "Q", **orders: Any) -> Message:
        properties = {f"AMQ_SCHEDULED_{name.upper()}": value for name, value in orders.items()}
        return await self.send(to, text, **properties)

    async def manage(self, action: str, **properties: Any) -> None:
        topic = Topic("activemq.scheduler.MANAGEMENT")
        await self.send(topic, AMQ_SCHEDULER_ACTION=action, **properties)

    async def receive(self, seconds: float, queue: str | Destination = "Q") -> list[Message]:
        """Receive from a queue until nothing arrives for so long."""
        where = Queue(queue) if isinstance(queue, str) else queue
        consumer = await self.session.create_consumer(where)
        found, self.arrivals = [], []
        while (message := await consumer.receive(seconds)) is not None:
            self.arrivals.append((_clock.time_ms() - self.began) / 1000)
            found.append(message)
        await consumer.close()
        return found


Make = Callable[..., Awaitable[Scheduling]]


def scheduler_of(broker: Scheduling) -> SchedulerBroker:
    """Return the scheduler's filter of a running broker."""
    link: Any = broker.service.broker
    while not isinstance(link, SchedulerBroker):
        link = link.next
    return link


def replace_deliveries(broker: Scheduling, monkeypatch: pytest.MonkeyPatch, deliver: Send) -> None:
    """Call `deliver` instead of sending what is due; new requests are sent as before."""
    chain = scheduler_of(broker).next
    pass_on = chain.send

    def send(exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        accept = pass_on if message.destination == SCHEDULED else deliver
        return accept(exchange, message)

    monkeypatch.setattr(chain, "send", send)


def deliver_without_end(broker: Scheduling, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send what is due, but never tell the scheduler that it is stored, as if the broker crashed."""
    pass_on = scheduler_of(broker).next.send

    def deliver(exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        pass_on(exchange, message)
        return Completion()

    replace_deliveries(broker, monkeypatch, deliver)


@pytest.fixture
async def make_broker(tmp_path: Path) -> AsyncIterator[Make]:
    made: list[Scheduling] = []

    async def make(*, persistent: bool = False, **attributes: Any) -> Scheduling:
        broker = Scheduling(tmp_path, persistent, **attributes)
        made.append(broker)
        await broker.start()
        return broker

    yield make
    for broker in made:
        await broker.stop()


@pytest.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    async with VirtualClock(autojump=True) as clock:
        yield clock


@pytest.fixture
async def broker(clock: VirtualClock, make_broker: Make) -> Scheduling:
    return await make_broker()
