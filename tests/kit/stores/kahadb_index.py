"""An index in a temporary directory, and short names for what tests do with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyjms.wire.kahadb.commands import KahaDestination
from pyjms.wire.kahadb.journal import Location
from pyjms_broker.store.kahadb.index import DestinationIndex, StoreIndex, TopicIndex

QUEUE = KahaDestination(0, "orders")
TOPIC = KahaDestination(1, "prices")
END = Location(3, 500)


class IndexKit:
    def __init__(self, path: Path) -> None:
        self.index = StoreIndex(path, duplicates_limit=5)
        self.index.open()

    @property
    def queue(self) -> DestinationIndex:
        return self.index.destination(QUEUE)

    @property
    def topic(self) -> TopicIndex:
        return self.index.topic(TOPIC)

    def flush(self, times: int = 1) -> None:
        for _ in range(times):
            frozen = self.index.begin_checkpoint(END, 77)
            self.index.write_checkpoint(frozen)
            self.index.complete_checkpoint(frozen)

    def restart(self) -> None:
        path = self.index.path
        self.index.close()
        self.index = StoreIndex(path, duplicates_limit=5)
        self.index.open()

    def fill(self, part: DestinationIndex, count: int, level: int = 0, file_id: int = 1) -> None:
        for number in range(count):
            sequence = part.last_arrival + 1
            entry = part.add(f"ID:h-1-1:1:1:1:{sequence}", level, file_id, number, 10, False)
            assert entry is not None


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[IndexKit]:
    kit = IndexKit(tmp_path / "index.sqlite")
    yield kit
    kit.index.close()
