"""The index against a plain model, with freezing, writing and restarts at any moment."""

from __future__ import annotations

import tempfile
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pyjms.wire.kahadb.commands import DestinationType, KahaDestination
from pyjms.wire.kahadb.journal import Location
from pyjms_broker.api.message import Position
from pyjms_broker.store.kahadb.index import IndexCheckpoint, IndexEntry, StoreIndex, TopicIndex
from tests.kit.properties import examples

TOPIC = KahaDestination(DestinationType.TOPIC, "t")
QUEUE = KahaDestination(DestinationType.QUEUE, "q")
IDS = [f"ID:p-{n}:1:1:1:{m}" for n in range(3) for m in range(12)] + ["foreign", "x:007", "y:-1"]

numbers = st.integers(0, 10_000)
keys = st.sampled_from(["a:1", "b:2", "c:3"])
destinations = st.sampled_from([QUEUE, TOPIC])
seldom = st.sampled_from([False, False, False, False, True])


@dataclass
class ModelMessage:
    message_id: str
    file_id: int
    offset: int
    size: int


@dataclass
class ModelDestination:
    last_arrival: int = 0
    epoch: int = 0
    messages: dict[Position, ModelMessage] = field(default_factory=dict)
    hidden: set[int] = field(default_factory=set)
    subscriptions: dict[str, set[Position]] = field(default_factory=dict)
    """What each still has to get."""
    gone: list[Position] = field(default_factory=list)


@dataclass
class Model:
    queue: ModelDestination = field(default_factory=ModelDestination)
    topic: ModelDestination = field(default_factory=ModelDestination)

    def of(self, destination: KahaDestination) -> ModelDestination:
        return self.queue if destination is QUEUE else self.topic


class IndexMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.index = StoreIndex(Path(self.directory.name) / "index.sqlite")
        self.index.open()
        self.index.destination(QUEUE)
        self.index.destination(TOPIC)
        self.model = Model()
        self.frozen: IndexCheckpoint | None = None
        self.frozen_model = Model()
        self.written: Model | None = None
        self.is_written = False
        self.end = 0

    @initialize(key=keys)
    def something_at_first(self, key: str) -> None:
        self.subscribe(key, True)
        for destination in (QUEUE, TOPIC):
            for message_id in IDS[:16]:
                self.add(destination, message_id, 0, 1, False, 0)
        self.flush()

    @rule(
        destination=destinations,
        message_id=st.sampled_from(IDS),
        level=st.sampled_from([0, 0, 0, 5, 9]),
        file_id=st.integers(1, 4),
        hidden=st.sampled_from([False, False, True]),
        skip=st.sampled_from([0, 0, 0, 3, 5000]),
    )
    def add(
        self,
        destination: KahaDestination,
        message_id: str,
        level: int,
        file_id: int,
        hidden: bool,
        skip: int,
    ) -> None:
        model = self.model.of(destination)
        part = self.index.destination(destination)
        arrival = model.last_arrival + 1 + skip
        self.end += 1
        got = part.add(message_id, level, file_id, self.end, 100, hidden, arrival if skip else None)
        if destination is TOPIC and not model.subscriptions:
            assert got is None
            model.last_arrival = arrival
        elif any(message.message_id == message_id for message in model.messages.values()):
            assert got is None
        else:
            position = Position(level, arrival)
            assert got is not None
            assert got.position == position
            model.last_arrival = arrival
            model.messages[position] = ModelMessage(message_id, file_id, self.end, 100)
            if hidden:
                model.hidden.add(arrival)
            for waiting in model.subscriptions.values():
                waiting.add(position)

    def pick(self, destination: KahaDestination, number: int) -> Position:
        """A message that is there, or (one time out of five) that was."""
        model = self.model.of(destination)
        messages = sorted(model.messages)
        if number % 5 == 4 or not messages:
            messages = model.gone
        return messages[number // 5 % len(messages)] if messages else Position(0, number)

    def forget(self, destination: KahaDestination, position: Position) -> None:
        model = self.model.of(destination)
        del model.messages[position]
        model.gone.append(position)
        model.hidden.discard(position.arrival)
        for waiting in model.subscriptions.values():
            waiting.discard(position)

    @rule(destination=destinations, number=numbers)
    def remove(self, destination: KahaDestination, number: int) -> None:
        position = self.pick(destination, number)
        got = self.index.destination(destination).remove(position)
        expected = self.model.of(destination).messages.get(position)
        assert same(got, position, expected)
        if expected is not None:
            self.forget(destination, position)

    @rule(destination=destinations, numbers=st.lists(numbers, min_size=3, max_size=20))
    def remove_many(self, destination: KahaDestination, numbers: list[int]) -> None:
        for number in numbers:
            self.remove(destination, number)

    @rule(destination=destinations, number=numbers, file_id=st.integers(1, 4))
    def relocate(self, destination: KahaDestination, number: int, file_id: int) -> None:
        position = self.pick(destination, number)
        self.end += 1
        got = self.index.destination(destination).relocate(position, file_id, self.end, 70)
        message = self.model.of(destination).messages.get(position)
        if message is not None:
            message.file_id, message.offset, message.size = file_id, self.end, 70
        assert same(got, position, message)

    @rule(destination=destinations, number=numbers, hide=st.booleans())
    def hide(self, destination: KahaDestination, number: int, hide: bool) -> None:
        position = self.pick(destination, number)
        part = self.index.destination(destination)
        model = self.model.of(destination)
        if position in model.messages:
            if hide:
                part.hide(position)
                model.hidden.add(position.arrival)
            else:
                part.mark_visible(position)
                model.hidden.discard(position.arrival)
            assert part.is_hidden(position) == hide

    @precondition(lambda self: self.frozen is None)
    @rule()
    def flush(self) -> None:
        self.freeze()
        self.write(False)
        self.thaw()

    @rule(destination=destinations, number=numbers)
    def get(self, destination: KahaDestination, number: int) -> None:
        position = self.pick(destination, number)
        got = self.index.destination(destination).get(position)
        assert same(got, position, self.model.of(destination).messages.get(position))

    @rule(destination=destinations, really=seldom)
    def clear(self, destination: KahaDestination, really: bool) -> None:
        if not really:
            return
        self.index.destination(destination).clear()
        model = self.model.of(destination)
        for position in list(model.messages):
            self.forget(destination, position)

    @rule(really=seldom)
    def remove_queue(self, really: bool) -> None:
        if not really:
            return
        assert self.index.remove_destination(QUEUE)
        assert self.index.lookup(QUEUE) is None
        self.index.destination(QUEUE)
        self.model.queue = ModelDestination()

    @rule(key=keys, retroactive=st.booleans())
    def subscribe(self, key: str, retroactive: bool) -> None:
        topic, model = self.index.topic(TOPIC), self.model.topic
        found = topic.subscribe(key, key.encode(), (1, self.end), retroactive)
        assert found.info == key.encode()
        if key not in model.subscriptions:
            # what nobody needs any more may be here still, but is not for new ones
            needed = set().union(*model.subscriptions.values())
            model.subscriptions[key] = needed if retroactive else set()

    @rule(key=keys, really=seldom)
    def unsubscribe(self, key: str, really: bool) -> None:
        if not really and len(self.model.topic.subscriptions) == 1:
            return
        topic, model = self.index.topic(TOPIC), self.model.topic
        assert topic.unsubscribe(key) == (key in model.subscriptions)
        if model.subscriptions.pop(key, None) is not None and not model.subscriptions:
            for position in list(model.messages):
                self.forget(TOPIC, position)

    @rule(limit=st.integers(1, 5))
    def reclaim(self, limit: int) -> None:
        topic, model = self.index.topic(TOPIC), self.model.topic
        for entry in topic.reclaim(limit):
            assert same(entry, entry.position, model.messages[entry.position])
            assert not any(entry.position in waiting for waiting in model.subscriptions.values())
            self.forget(TOPIC, entry.position)

    @rule()
    def reclaim_all(self) -> None:
        topic, model = self.index.topic(TOPIC), self.model.topic
        while topic.is_reclaiming:
            self.reclaim(3)
        needed = set().union(*model.subscriptions.values())
        assert set(model.messages) == needed

    @rule(key=keys, number=numbers)
    def acknowledge(self, key: str, number: int) -> None:
        topic, model = self.index.topic(TOPIC), self.model.topic
        position = self.pick(TOPIC, number)
        waiting = model.subscriptions.get(key, set())
        was_pending = position in waiting
        assert topic.is_pending(key, position) == was_pending
        waiting.discard(position)
        last = was_pending and not any(position in w for w in model.subscriptions.values())
        assert topic.acknowledge(key, position) == last
        if last:
            assert topic.remove(position) is not None
            self.forget(TOPIC, position)

    @rule(
        destination=destinations,
        after=st.none() | st.tuples(st.sampled_from([0, 5, 9]), st.integers(0, 60)),
        limit=st.integers(0, 30),
        skip=st.lists(numbers, max_size=5),
    )
    def page(
        self,
        destination: KahaDestination,
        after: tuple[int, int] | None,
        limit: int,
        skip: list[int],
    ) -> None:
        model = self.model.of(destination)
        left_out = {self.pick(destination, number) for number in skip}
        begin = None if after is None else Position(*after)
        wanted = [
            position
            for position in sorted(model.messages)
            if position.arrival not in model.hidden
            and position not in left_out
            and (begin is None or position > begin)
        ]
        part = self.index.destination(destination)
        got = part.page(begin, limit, left_out)
        assert [entry.position for entry in got] == wanted[:limit]
        for entry in got:
            assert same(entry, entry.position, model.messages[entry.position])
        for key, waiting in model.subscriptions.items():
            assert isinstance(part, TopicIndex)
            pending = part.page_for_subscription(key, begin, limit, left_out)
            expected = [position for position in wanted if position in waiting]
            assert [entry.position for entry in pending] == expected[:limit]

    @rule(destination=destinations, message_id=st.sampled_from(IDS))
    def find(self, destination: KahaDestination, message_id: str) -> None:
        model = self.model.of(destination)
        got = self.index.destination(destination).find(message_id)
        found = [p for p, message in model.messages.items() if message.message_id == message_id]
        if found:
            assert same(got, found[0], model.messages[found[0]])
        else:
            assert got is None

    @precondition(lambda self: self.frozen is None)
    @rule()
    def freeze(self) -> None:
        self.frozen = self.index.begin_checkpoint(Location(1, self.end), -self.end)
        self.frozen_model = deepcopy(self.model)
        self.is_written = False

    @precondition(lambda self: self.frozen is not None)
    @rule(sync=st.booleans())
    def write(self, sync: bool) -> None:
        assert self.frozen is not None
        self.index.write_checkpoint(self.frozen, sync=sync)
        self.is_written = True
        self.written = self.frozen_model
        assert self.index.check() == []

    @precondition(lambda self: self.is_written)
    @rule()
    def thaw(self) -> None:
        assert self.frozen is not None
        self.index.complete_checkpoint(self.frozen)
        assert self.index.coverage() == (self.frozen.covered, self.frozen.digest)
        self.frozen = None
        self.is_written = False

    @rule()
    def restart(self) -> None:
        self.index.close()
        self.index = StoreIndex(self.index.path)
        self.index.open()
        self.frozen = None
        self.is_written = False
        assert self.written is not None
        self.model = deepcopy(self.written)
        self.model.queue.hidden.clear()
        self.model.topic.hidden.clear()

    @invariant()
    def counts(self) -> None:
        for destination in (QUEUE, TOPIC):
            model, part = self.model.of(destination), self.index.destination(destination)
            assert part.last_arrival == model.last_arrival
            assert part.count == len(model.messages)
            assert part.size == sum(message.size for message in model.messages.values())
            files: dict[int, int] = {}
            for message in model.messages.values():
                files[message.file_id] = files.get(message.file_id, 0) + 1
            assert part.files == files
            if isinstance(part, TopicIndex):
                assert part.subscriptions.keys() == model.subscriptions.keys()
                for key, waiting in model.subscriptions.items():
                    assert part.subscriptions[key].pending_count == len(waiting)

    def teardown(self) -> None:
        for destination in (QUEUE, TOPIC):
            entries = list(self.index.destination(destination).entries())
            assert [e.position for e in entries] == sorted(self.model.of(destination).messages)
        self.index.close()
        self.directory.cleanup()


def same(entry: IndexEntry | None, position: Position, message: ModelMessage | None) -> bool:
    if entry is None or message is None:
        return entry is None and message is None
    return (entry.position, *entry[1:5]) == (
        position,
        message.message_id,
        message.file_id,
        message.offset,
        message.size,
    )


IndexMachine.TestCase.settings = examples(20, stateful_step_count=50)
TestIndexModel = IndexMachine.TestCase
