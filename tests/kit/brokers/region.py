"""A region broker without filters, and clients that record what is sent to them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination, Queue
from pyjms.runtime import clock as _clock
from pyjms.selector.budget import SelectorMeter
from pyjms.wire.openwire.commands import (
    AckType,
    ActiveMQMessage,
    ActiveMQTextMessage,
    Command,
    ConnectionId,
    ConsumerControl,
    ConsumerId,
    ConsumerInfo,
    LocalTransactionId,
    MessageAck,
    MessageDispatch,
    MessageId,
    MessagePull,
    ProducerId,
    RemoveSubscriptionInfo,
    Throwable,
)
from pyjms.wire.openwire.primitives import encode_map, encode_text
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.context import ConnectionContext, ConsumerExchange, ProducerExchange
from pyjms_broker.api.message import (
    MessageReference,
    OperationContext,
    Position,
    StoredMessage,
    SubscriptionKey,
)
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.api.transaction import Transaction
from pyjms_broker.filters.transactions import LocalTransaction
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.region.queue import Queue as BrokerQueue
from pyjms_broker.region.region_broker import RegionBroker
from pyjms_broker.region.system_usage import SystemUsage
from pyjms_broker.region.topic import Topic as BrokerTopic
from pyjms_broker.store.api import PersistenceAdapter, Positions, StoreState
from pyjms_broker.store.memory import (
    MemoryMessageStore,
    MemoryPersistenceAdapter,
    MemoryTopicMessageStore,
)
from pyjms_broker.store.temp import TempStore


class ManualClock:
    """A clock that only `advance` moves; it wakes the sleepers that are due."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0
        self._sleepers: list[tuple[float, anyio.Event]] = []

    def now(self) -> float:
        return self.seconds

    def time_ms(self) -> int:
        return int(self.seconds * 1000)

    async def sleep(self, seconds: float) -> None:
        event = anyio.Event()
        self._sleepers.append((self.seconds + seconds, event))
        await event.wait()

    def timeout(self, seconds: float | None) -> AbstractContextManager[anyio.CancelScope]:
        return anyio.move_on_after(seconds)

    async def advance(self, seconds: float) -> None:
        await anyio.wait_all_tasks_blocked()
        self.seconds += seconds
        due = [(at, event) for at, event in self._sleepers if at <= self.seconds]
        self._sleepers = [s for s in self._sleepers if s not in due]
        for _, event in sorted(due, key=lambda sleeper: sleeper[0]):
            event.set()
        await anyio.wait_all_tasks_blocked()


@pytest.fixture
def clock() -> Iterator[ManualClock]:
    manual = ManualClock()
    previous = _clock.install(manual)
    yield manual
    _clock.install(previous)


class Client:
    """One connection: records dispatches, sends and acknowledges."""

    remote_address = "tcp://client:1"
    is_lost = False

    def __init__(self, broker: RegionBroker, name: str) -> None:
        self.broker = broker
        self.name = name
        self.context = ConnectionContext(self)  # type: ignore[arg-type]  # the part of a connection that is used
        self.context.client_id = name
        self.context.connection_id = ConnectionId(name)
        self.dispatches: list[MessageDispatch] = []
        self.errors: list[Exception] = []
        self.controls: list[ConsumerControl] = []
        self.orphans: list[ConsumerId] = []
        """The consumers whose destinations were removed."""
        self.on_dispatch: Callable[[MessageDispatch], object] | None = None
        self.run_limit = 0
        """How many messages are sent in one step at most; 0: each is sent by itself."""
        self.runs: list[int] = []
        """How many messages were sent in one step, each time."""
        self._consumers = 0
        self._transactions = 0
        self._messages = 0
        self._infos: dict[ConsumerId, ConsumerInfo] = {}
        self.exchange = ProducerExchange(self.context)
        self.producer_id = ProducerId(name, 1, 1)

    # ClientConnection
    def dispatch(self, dispatch: MessageDispatch) -> None:
        self.dispatches.append(dispatch)
        if self.on_dispatch is not None:
            self.on_dispatch(dispatch)

    runs_are_raw = True

    @property
    def run_room(self) -> int:
        return 1 << 20 if self.run_limit else 0

    def dispatch_run(self, dispatches: list[MessageDispatch]) -> int:
        sent = dispatches[: self.run_limit]
        self.dispatches += sent
        self.runs.append(len(sent))
        return len(sent)

    def send_command(self, command: Command) -> None:
        if not isinstance(command, ConsumerControl):
            raise AssertionError(command)
        self.controls.append(command)

    def service_exception(self, error: Exception) -> None:
        self.errors.append(error)

    def on_destination_removed(self, consumer_id: ConsumerId) -> None:
        self.orphans.append(consumer_id)

    def stop_soon(self, error: Exception | None = None) -> None:
        raise AssertionError(error)

    # sending
    def message(
        self,
        destination: Destination,
        text: str,
        *,
        persistent: bool = False,
        properties: dict[str, object] | None = None,
        priority: int = 4,
        group: str | None = None,
        group_sequence: int = 0,
        expiration: int = 0,
    ) -> ActiveMQMessage:
        self._messages += 1
        message = ActiveMQTextMessage(
            producer_id=self.producer_id,
            destination=destination,
            message_id=MessageId(None, self.producer_id, self._messages),
            persistent=persistent,
            priority=priority,
            group_id=group,
            group_sequence=group_sequence,
            expiration=expiration,
            type=text,
            content=encode_text(text),
            marshalled_properties=encode_map(properties) if properties else None,
        )
        message.timestamp = _clock.time_ms()
        message.response_required = persistent
        return message

    def send(
        self,
        destination: Destination,
        text: str,
        *,
        tx: Transaction | None = None,
        message: ActiveMQMessage | None = None,
        **options: Any,
    ) -> Completion:
        return self.broker.send(
            self.exchange if tx is None else self.exchange.within(tx),
            message or self.message(destination, text, **options),
        )

    def begin(self) -> LocalTransaction:
        self._transactions += 1
        xid = LocalTransactionId(self._transactions, self.context.connection_id)
        return LocalTransaction(xid, self.broker.store.transaction_store(), lambda _: None)

    # consuming
    def consume(
        self, destination: Destination, prefetch: int = 1000, **options: Any
    ) -> Subscription:
        self._consumers += 1
        info = ConsumerInfo(
            ConsumerId(self.name, 1, self._consumers),
            destination=destination,
            prefetch_size=prefetch,
            client_id=self.name,
            **options,
        )
        assert info.consumer_id is not None
        self._infos[info.consumer_id] = info
        return self.broker.add_consumer(self.context, info)

    def close(self, consumer: Subscription, last_delivered: int = -2) -> None:
        assert consumer.consumer_id is not None
        info = self._infos[consumer.consumer_id]
        self.broker.remove_consumer(self.context, info, last_delivered)

    def received(self, consumer: Subscription) -> list[str | None]:
        """Return the texts that a consumer got so far; None is a dispatch without a message."""
        return [
            None if dispatch.message is None else dispatch.message.type
            for dispatch in self.dispatches_of(consumer)
        ]

    def dispatches_of(self, consumer: Subscription) -> list[MessageDispatch]:
        own = consumer.consumer_id
        return [d for d in self.dispatches if d.consumer_id is own or d.consumer_id == own]

    def ack(
        self,
        consumer: Subscription,
        last: int = -1,
        *,
        first: int | None = None,
        count: int = 1,
        kind: int = AckType.STANDARD,
        tx: Transaction | None = None,
        cause: Throwable | None = None,
    ) -> Completion:
        """Acknowledge by index into the consumer's dispatches; `first` None: only `last`."""
        got = [d for d in self.dispatches_of(consumer) if d.message is not None]
        last_message = got[last].message
        assert last_message is not None
        if kind == AckType.INDIVIDUAL:
            first_id = None
        else:
            first_message = got[last if first is None else first].message
            assert first_message is not None
            first_id = first_message.message_id
        ack = MessageAck(
            destination=got[last].destination,
            consumer_id=consumer.consumer_id,
            ack_type=kind,
            first_message_id=first_id,
            last_message_id=last_message.message_id,
            message_count=count,
            poison_cause=cause,
            transaction_id=None if tx is None else tx.xid,
        )
        return self.acknowledge(ack, tx)

    def acknowledge(self, ack: MessageAck, tx: Transaction | None = None) -> Completion:
        return self.broker.acknowledge(ConsumerExchange(self.context, None, tx), ack)

    def pull(self, consumer: Subscription, timeout_ms: int) -> None:
        self.broker.message_pull(
            self.context, MessagePull(consumer.consumer_id, consumer.requested, timeout_ms)
        )

    def set_prefetch(self, consumer: Subscription, prefetch: int) -> None:
        self.broker.process_consumer_control(
            ConsumerExchange(self.context, None),
            ConsumerControl(consumer_id=consumer.consumer_id, prefetch=prefetch),
        )

    def unsubscribe(self, name: str) -> None:
        self.broker.remove_subscription(
            self.context, RemoveSubscriptionInfo(self.context.connection_id, name, self.name)
        )


class _QueueStore(MemoryMessageStore):
    """Store calls that complete later, or fail, as their adapter is set to."""

    adapter: PagedAdapter

    def add_message(self, context: OperationContext, reference: MessageReference) -> Completion:
        self.adapter.check("add_message")
        super().add_message(context, reference)
        return self.adapter.answer()

    def remove_message(self, context: OperationContext, reference: MessageReference) -> Completion:
        self.adapter.check("remove_message")
        super().remove_message(context, reference)
        return self.adapter.answer()

    def update_message(self, reference: MessageReference) -> Completion:
        self.adapter.check("update_message")
        super().update_message(reference)
        return self.adapter.answer()

    def get_message(self, message_id: MessageId) -> StoredMessage | None:
        self.adapter.check("get_message")
        return super().get_message(message_id)

    def next_messages(
        self, after: Position | None, limit: int, skip: Positions = ()
    ) -> list[StoredMessage]:
        self.adapter.check("next_messages")
        page = super().next_messages(after, limit, skip)
        self.adapter.paged += len(page)
        return page


class _TopicStore(_QueueStore, MemoryTopicMessageStore):
    def acknowledge(
        self, context: OperationContext, key: SubscriptionKey, reference: MessageReference
    ) -> Completion:
        self.adapter.check("acknowledge")
        super().acknowledge(context, key, reference)
        return self.adapter.answer()

    def next_subscription_messages(
        self, key: SubscriptionKey, after: Position | None, limit: int, skip: Positions = ()
    ) -> list[StoredMessage]:
        self.adapter.check("next_messages")
        return super().next_subscription_messages(key, after, limit, skip)


class PagedAdapter(MemoryPersistenceAdapter):
    """A store that counts as durable: its messages may leave the broker's memory."""

    concurrent_store_and_dispatch_queues = True
    concurrent_store_and_dispatch_topics = False

    def __init__(self) -> None:
        super().__init__()
        self.is_volatile = False
        self.answers_later = False
        self.unanswered: list[Completion] = []
        self.broken: set[str] = set()
        self.paged = 0
        self.bytes = 0
        self.current_state = StoreState.RUNNING

    def check(self, call: str) -> None:
        if call in self.broken:
            raise JMSException(f"{call} failed")

    def answer(self) -> Completion:
        if not self.answers_later:
            return COMPLETED
        self.unanswered.append(Completion())
        return self.unanswered[-1]

    def complete(self, error: Exception | None = None) -> None:
        """Complete the oldest call."""
        self.unanswered.pop(0).complete(error)

    def change(self, state: StoreState) -> None:
        self.current_state = state
        if self.on_state is not None:
            self.on_state(state, None)

    @property
    def state(self) -> StoreState:
        return self.current_state

    @property
    def size(self) -> int:
        return self.bytes

    def _made(
        self, kind: Any, there: dict[Destination, Any], destination: Destination, prioritized: bool
    ) -> Any:
        if destination not in there:
            there[destination] = kind(destination, self, prioritized)
            there[destination].adapter = self
        return there[destination]

    def queue_message_store(
        self, destination: Destination, prioritized: bool = False
    ) -> _QueueStore:
        store: _QueueStore = self._made(_QueueStore, self._queues, destination, prioritized)
        return store

    def topic_message_store(
        self, destination: Destination, prioritized: bool = False
    ) -> _TopicStore:
        store: _TopicStore = self._made(_TopicStore, self._topics, destination, prioritized)
        return store


class Broker:
    """A region broker and its clients."""

    def __init__(
        self,
        *policies: PolicyEntry,
        usage: SystemUsage | None = None,
        store: PersistenceAdapter | None = None,
        temp_store: TempStore | None = None,
        selector_meter: SelectorMeter | None = None,
    ) -> None:
        self.store: Any = store or MemoryPersistenceAdapter()  # with what the given one adds
        self.region = RegionBroker(
            self.store,
            PolicyMap(policies),
            "b",
            system_usage=usage,
            temp_store=temp_store,
            selector_meter=selector_meter,
        )
        self._clients = 0

    def client(self, name: str | None = None) -> Client:
        self._clients += 1
        return Client(self.region, name or f"c{self._clients}")

    def queue(self, destination: Destination) -> BrokerQueue:
        found = self.region.add_destination(self.region.context, destination)
        assert isinstance(found, BrokerQueue)
        return found

    def topic(self, destination: Destination) -> BrokerTopic:
        found = self.region.add_destination(self.region.context, destination)
        assert isinstance(found, BrokerTopic)
        return found

    def texts(self, destination: Destination) -> list[str | None]:
        """Return the texts of a queue's messages."""
        return [r.message.type for r in self.queue(destination).browse()]

    @property
    def dead_letters(self) -> list[ActiveMQMessage]:
        return [r.message for r in self.queue(Queue("ActiveMQ.DLQ")).browse()]


@pytest.fixture
def make_broker() -> type[Broker]:
    return Broker


@pytest.fixture
def paged() -> PagedAdapter:
    """A store that a broker need not keep in memory."""
    return PagedAdapter()


@pytest.fixture
async def temp_store(tmp_path: Path) -> AsyncIterator[TempStore]:
    store = TempStore(tmp_path / "tmp_storage")
    await store.start()
    yield store
    await store.stop()


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def client(broker: Broker) -> Client:
    return broker.client()
