"""The history of a broker: what is recorded, of which destinations, and its file."""

from __future__ import annotations

import gzip
import json
import logging
import tracemalloc
from collections.abc import AsyncIterator, Callable
from math import isnan
from pathlib import Path
from typing import Final

import anyio
import pytest
from anyio.lowlevel import checkpoint

from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.testing.clock import VirtualClock
from pyjms_broker.api.statistics import DestinationStatistics
from pyjms_broker.management.errors import InstanceNotFoundException, InvalidArgumentException
from pyjms_broker.management.history import BROKER_COLUMNS, History
from pyjms_broker.service import BrokerService
from tests.kit.waiting import until

ORDERS, BILLS, NEWS = Queue("orders"), Queue("bills"), Topic("news")


@pytest.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    """A clock that stands at the beginning of a minute."""
    async with VirtualClock(time_ms=1_700_000_040_000) as clock:
        yield clock


@pytest.fixture
async def service(clock: VirtualClock) -> AsyncIterator[BrokerService]:
    service = BrokerService(
        "recorded", persistent=False, destinations=[ORDERS, BILLS, NEWS], advisory_support=False
    )
    async with service:
        yield service


@pytest.fixture
def history(service: BrokerService) -> History:
    return History(service, 2, None, 60.0)


def counters(service: BrokerService, destination: Destination) -> DestinationStatistics:
    return service.region_broker.destinations()[destination].statistics


def known(
    history: History, column: str, destination: Destination | None = None, name: str = "hour"
) -> list[float]:
    """Return the numbers of a column without those that are not known."""
    found = history.read(name, destination)
    assert found is not None
    return [round(each, 3) for each in found.columns[column] if not isnan(each)]


async def test_a_rate_is_the_average_since_the_sample_before(
    service: BrokerService, history: History, clock: VirtualClock
) -> None:
    orders = counters(service, ORDERS)
    for enqueues, dequeues in ((10, 5), (30, 6), (30, 6)):
        orders.enqueues, orders.dequeues = enqueues, dequeues
        await clock.advance(5)
        await history.sample()
    assert known(history, "in", ORDERS) == [2.0, 4.0, 0.0]
    assert known(history, "out", ORDERS) == [1.0, 0.2, 0.0]
    assert known(history, "in") == [2.0, 4.0, 0.0]
    assert history.rates(service.region_broker.destinations()[ORDERS]) == (0.0, 0.0)


async def test_a_reset_gives_no_negative_rate(
    service: BrokerService, history: History, clock: VirtualClock
) -> None:
    orders = counters(service, ORDERS)
    for enqueues in (100, 20):
        orders.enqueues = enqueues
        await clock.advance(5)
        await history.sample()
    assert known(history, "in", ORDERS) == [20.0, 4.0]


async def test_depth_consumers_and_memory_are_those_of_the_moment(
    service: BrokerService, history: History, clock: VirtualClock
) -> None:
    orders = counters(service, ORDERS)
    for orders.messages, orders.consumers in ((3, 1), (70_000, 2)):
        await clock.advance(5)
        await history.sample()
    assert known(history, "depth", ORDERS) == [3, 70_000]
    assert known(history, "consumers", ORDERS) == [1, 2]
    assert known(history, "depth") == [3, 70_000]
    assert known(history, "connections") == [0, 0]
    found = history.read("hour")
    assert found is not None
    assert [*found.columns] == [*BROKER_COLUMNS]


async def test_a_minute_has_the_highest_depth_and_the_average_rate(
    service: BrokerService, history: History, clock: VirtualClock
) -> None:
    orders = counters(service, ORDERS)
    for second in range(0, 65, 5):
        orders.messages = 900 if second == 20 else 1
        orders.enqueues += 60 if second == 30 else 0
        await history.sample()
        await clock.advance(5)
    assert known(history, "depth", ORDERS, "day") == [900]
    assert known(history, "in", ORDERS, "day") == [1.0]
    found = history.read("day", ORDERS)
    assert found is not None
    assert found.start + 1439 * 60_000 == 1_700_000_040_000


async def test_what_is_older_than_an_hour_is_forgotten(
    service: BrokerService, history: History, clock: VirtualClock
) -> None:
    orders = counters(service, ORDERS)
    orders.messages = 5
    await history.sample()
    await clock.advance(3595)
    await history.sample()
    assert known(history, "depth", ORDERS) == [5, 5]
    await clock.advance(5)
    orders.messages = 6
    await history.sample()
    assert known(history, "depth", ORDERS) == [5, 6]


async def test_a_time_without_samples_is_not_known(
    service: BrokerService, history: History, clock: VirtualClock
) -> None:
    await history.sample()
    await clock.advance(15)
    await history.sample()
    found = history.read("hour")
    assert found is not None
    assert [isnan(each) for each in found.columns["depth"]][-4:] == [False, True, True, False]
    last = found.as_item()["depth"]
    assert isinstance(last, list)
    assert last[-4:] == [0, None, None, 0]


async def test_a_day_has_the_minutes_before_and_after_a_pause(
    service: BrokerService, history: History, clock: VirtualClock
) -> None:
    orders = counters(service, ORDERS)
    for orders.messages, pause in ((5, 2 * 3600), (6, 60), (7, 5)):
        await history.sample()
        await clock.advance(pause)
    assert known(history, "depth", ORDERS, "day") == [5, 6]
    found = history.read("day", ORDERS)
    assert found is not None
    depth = [isnan(each) for each in found.columns["depth"]]
    assert [index for index, is_unknown in enumerate(depth) if not is_unknown] == [1319, 1439]


async def test_a_clock_that_is_set_back_forgets_what_was_recorded_after(
    service: BrokerService,
) -> None:
    history = History(service, 2, None, 60.0)
    for time_ms in (1_700_000_000_000, 1_700_000_030_000, 1_700_000_010_000):
        async with VirtualClock(time_ms=time_ms):
            await history.sample()
    found = history.read("hour")
    assert found is not None
    assert found.start + 719 * 5000 == 1_700_000_010_000
    assert [not isnan(each) for each in found.columns["depth"]][-3:] == [True, False, True]


async def test_the_busiest_destinations_have_a_history(
    service: BrokerService, history: History, clock: VirtualClock
) -> None:
    counters(service, ORDERS).enqueues = 100
    counters(service, BILLS).enqueues = 10
    await clock.advance(5)
    await history.sample()
    counters(service, NEWS).enqueues = 15
    await clock.advance(5)
    await history.sample()
    assert history.read("hour", NEWS) is None  # not twice as busy as the least busy one
    counters(service, NEWS).enqueues = 25
    await clock.advance(5)
    await history.sample()
    assert known(history, "in", NEWS) == [2.0]
    assert history.read("hour", BILLS) is None
    assert known(history, "in", ORDERS) == [20.0, 0.0, 0.0]


async def test_messages_of_an_hour_ago_count_half(
    service: BrokerService, history: History, clock: VirtualClock
) -> None:
    counters(service, ORDERS).enqueues = 100
    counters(service, BILLS).enqueues = 50
    await history.sample()
    await clock.advance(2 * 3600)
    counters(service, NEWS).enqueues = 30  # 50 of two hours ago count 12.5
    await history.sample()
    assert history.read("hour", BILLS) is None
    assert history.read("hour", NEWS) is not None


async def test_a_deleted_destination_keeps_its_history(
    service: BrokerService, history: History, clock: VirtualClock
) -> None:
    counters(service, ORDERS).enqueues = 100
    await history.sample()
    service.broker.remove_destination(service.management.context.client, ORDERS, 1.0)
    await clock.advance(5)
    await history.sample()
    assert len(known(history, "in", ORDERS)) == 1


async def test_temporary_destinations_and_unknown_ranges_have_none(
    service: BrokerService, history: History
) -> None:
    await history.sample()
    with pytest.raises(InstanceNotFoundException, match="not among the 2 busiest"):
        history.item("hour", Queue("unknown"))
    with pytest.raises(InvalidArgumentException, match="hour or day"):
        history.item("week")


async def test_a_history_outlives_its_broker(
    service: BrokerService, clock: VirtualClock, tmp_path: Path
) -> None:
    file = tmp_path / "history.gz"
    history = History(service, 2, file, 60.0)
    counters(service, ORDERS).messages = 7
    await history.sample()
    await history.save()
    counters(service, ORDERS).messages = 8
    await clock.advance(20)
    again = History(service, 2, file, 60.0)
    again.start()
    await until(lambda: again.read("hour", ORDERS) is not None)
    await clock.advance(5)
    await again.stop()
    assert known(again, "depth", ORDERS) == [7, 8]
    found = gzip.decompress(file.read_bytes())
    assert b'["queue", "orders", ' in found
    assert file.stat().st_mode & 0o777 == 0o600


async def test_a_history_is_saved_at_each_interval(
    service: BrokerService, clock: VirtualClock, tmp_path: Path
) -> None:
    history = History(service, 2, tmp_path / "history.gz", 60.0)
    history.start()
    await clock.advance(55)
    assert [*tmp_path.iterdir()] == []
    await until(
        lambda: [each.name for each in tmp_path.iterdir()] == ["history.gz"],
        turn=lambda: clock.advance(5),
    )
    await history.stop()


async def test_a_file_that_cannot_be_written_is_reported_once(
    service: BrokerService, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    history = History(service, 2, tmp_path / "missing" / "history.gz", 60.0)
    await history.sample()
    with caplog.at_level(logging.WARNING, "pyjms_broker"):
        await history.save()
        await history.save()
    assert caplog.text.count("The history cannot be saved to") == 1


def _cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :]


def _of_another_version(content: bytes) -> bytes:
    header, _, rest = gzip.decompress(content).partition(b"\n")
    changed = json.dumps({**json.loads(header), "format": ["of", "old"]}).encode()
    return gzip.compress(changed + b"\n" + rest)


def _with_last(last: str) -> Callable[[bytes], bytes]:
    """Return what replaces the numbers of the last rows in the header."""

    def changed(content: bytes) -> bytes:
        whole = gzip.decompress(content)
        header = json.loads(whole.partition(b"\n")[0])
        written = f'"last": {json.dumps(header["last"])}'.encode()
        assert written in whole
        return gzip.compress(whole.replace(written, f'"last": {last}'.encode(), 1))

    return changed


_DAMAGES: Final[dict[str, Callable[[bytes], bytes]]] = {
    "cut": _cut,
    "flipped": _flipped,
    "of another version": _of_another_version,
    "empty": lambda _: b"",
    "another file": lambda _: b"nothing like it",
    "without last rows": _with_last("[]"),
    "an infinite number": _with_last("[1e999, 1]"),
    "nested": lambda _: gzip.compress(b"[" * 100_000),
}


@pytest.mark.parametrize("damage", _DAMAGES.values(), ids=_DAMAGES)
async def test_a_damaged_file_is_reported_and_begins_anew(
    damage: Callable[[bytes], bytes],
    service: BrokerService,
    clock: VirtualClock,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    file = tmp_path / "history.gz"
    history = History(service, 2, file, 60.0)
    counters(service, ORDERS).messages = 7
    await history.sample()
    await history.save()
    file.write_bytes(damage(file.read_bytes()))
    with caplog.at_level(logging.WARNING, "pyjms_broker"):
        again = History(service, 2, file, 60.0)
        again.start()
        await until(lambda: f"The history in {file} begins anew" in caplog.text)
        await clock.advance(5)
        await again.stop()
    assert known(again, "depth", ORDERS) == [7]
    assert known(again, "depth") == [7]


async def test_three_hundred_destinations_take_less_than_16_megabytes(clock: VirtualClock) -> None:
    queues = [Queue(f"q{number}") for number in range(310)]
    service = BrokerService("full", persistent=False, advisory_support=False, destinations=queues)
    async with service:
        for each in queues:
            counters(service, each).enqueues = 1
        tracemalloc.start()
        try:
            history = History(service, 300, None, 60.0)
            await history.sample()
            size, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert sum(history.read("day", each) is not None for each in queues) == 300
    assert 12 << 20 < size < 16 << 20


async def test_ten_thousand_destinations_are_visited_in_slices(clock: VirtualClock) -> None:
    service = BrokerService(
        "many",
        persistent=False,
        advisory_support=False,
        destinations=[Queue(f"q{number}") for number in range(10_000)],
        maximum_destinations=20_000,
    )
    async with service:
        history = History(service, 200, None, 60.0)
        turns = 0
        async with anyio.create_task_group() as tasks:

            async def count() -> None:
                nonlocal turns
                while True:
                    await checkpoint()
                    turns += 1

            tasks.start_soon(count)
            await history.sample()
            tasks.cancel_scope.cancel()
    assert turns >= 4  # a slice less where a turn of the loop came in between
