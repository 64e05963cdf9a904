"""What it was like an hour ago: depth, rates and use of a broker and its busiest destinations.

Theory of operation: every 5 s, at multiples of 5 s of the wall clock, all destinations are visited
in slices, which costs the loop about a microsecond each. The visit yields the rates of all
destinations, the sums of the broker, and which destinations are the busiest. Of the broker and of
those, a row of numbers is written into a ring with a slot for each 5 s of an hour. When a minute
is over, its twelve rows become one in a ring with a slot for each minute of a day: rates are
averages, all others the highest numbers, so that no peak is lost. A slot without a row, because
the broker was not running, is NaN.

A destination is as busy as the messages that it has sent and received, of which those an hour ago
count half. Another one takes the place of the least busy only if it is twice as busy, so that equal
ones do not take turns. What is deleted keeps its place until another needs it.

The rings are saved to a file now and then, and at the end of the broker; a crash loses what is
newer. The file is replaced as a whole. One that cannot be read is reported, and begins anew.

A destination takes 43 KB, 300 of them 13 MB, and the visit of 10,000 about 3 MB.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import zlib
from array import array
from collections.abc import Sequence
from math import isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import anyio.to_thread

from pyjms.errors import JMSException
from pyjms.jms.destination import ADVISORY_PREFIX, Destination, Queue, Topic
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms.runtime.slices import Slices
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.names import is_internal
from pyjms_broker.api.statistics import DestinationStatistics
from pyjms_broker.management.errors import InstanceNotFoundException, InvalidArgumentException

if TYPE_CHECKING:
    from pyjms_broker.management.host import ManagedBroker

logger = get_logger(__name__)


class Range(NamedTuple):
    """A range of time: seconds of a slot, and the number of slots."""

    step: int
    slots: int


RANGES: Final = {"hour": Range(5, 720), "day": Range(60, 1440)}
_HOUR, _DAY = RANGES.values()
_PER_MINUTE: Final = _DAY.step // _HOUR.step
COLUMNS: Final = ("depth", "in", "out", "consumers", "memory")
"""The numbers of a destination: messages, messages a second (`in`, `out`), consumers, bytes."""
BROKER_COLUMNS: Final = (*COLUMNS, "store", "connections")
_RATES: Final = frozenset((COLUMNS.index("in"), COLUMNS.index("out")))

_HALF_LIFE: Final = 3600.0
_LARGEST: Final = 1e100
"""The weight of a message at which all scores are divided by it."""
_VISITED: Final = 200
"""The number of destinations that are visited at a time, in a fifth of a millisecond."""
_MOST_NEW: Final = 20
"""The maximum number of destinations that are replaced at a time."""

_LONGEST_HEADER: Final = 32 << 20
"""Bytes: more than the longest names of destinations take."""
_DAMAGES: Final = (
    ValueError,
    TypeError,
    LookupError,
    OverflowError,
    RecursionError,
    JMSException,
    zlib.error,
)
"""What reading raises if the file has something else than was written."""
_KINDS: Final[dict[str, type[Queue | Topic]]] = {"queue": Queue, "topic": Topic}


class Recorded(NamedTuple):
    """What was recorded of the broker or of a destination in a range of time.

    Args:
        start: the time of the first number, in ms since 1970.
        step: seconds between two numbers.
        columns: the numbers by name, the oldest first; NaN: the broker was not running.
    """

    start: int
    step: int
    columns: dict[str, Sequence[float]]

    def as_item(self) -> dict[str, object]:
        """Return it for JSON: null instead of NaN, numbers with at most one decimal."""
        columns = {
            name: [None if isnan(each) else round(each, 1) for each in values]
            for name, values in self.columns.items()
        }
        return {"start": self.start, "step": self.step, **columns}


class _Series:
    """The rings of the broker or of one destination, in the order of `RANGES`."""

    __slots__ = ("rings", "score", "width")

    def __init__(self, width: int, score: float = 0.0) -> None:
        self.width = width
        self.score = score
        self.rings = [array("f", [nan]) * (each.slots * width) for each in RANGES.values()]

    def put(self, ring: int, slot: int, row: Sequence[float]) -> None:
        """Write the row of a slot."""
        data, width = self.rings[ring], self.width
        start = slot * width % len(data)
        data[start : start + width] = array("f", row)

    def clear(self, ring: int, slots: range) -> None:
        """Mark slots as unknown."""
        data = self.rings[ring]
        unknown = array("f", [nan]) * min(len(slots) * self.width, len(data))
        start = slots.start * self.width % len(data)
        end = min(start + len(unknown), len(data))
        data[start:end] = unknown[: end - start]
        data[: len(unknown) - (end - start)] = unknown[end - start :]

    def column(self, ring: int, slots: range, column: int) -> array[float]:
        """Return the numbers of a column in consecutive slots."""
        data, width = self.rings[ring], self.width
        every = data[column::width]
        first = slots.start % len(every)
        return (every[first:] + every[:first])[: len(slots)]

    def sum_up(self, minute: int) -> None:
        """Make the row of a minute of its rows in the ring of the hour."""
        slots = range(minute * _PER_MINUTE, (minute + 1) * _PER_MINUTE)
        row = []
        for column in range(self.width):
            known = [each for each in self.column(0, slots, column) if not isnan(each)]
            if not known:
                return
            row.append(sum(known) / len(known) if column in _RATES else max(known))
        self.put(1, minute, row)


class _Activity:
    """The counters of a destination at the last visit, and its rates since the one before."""

    __slots__ = ("dequeues", "enqueues", "rate_in", "rate_out", "score")

    def __init__(self) -> None:
        self.enqueues = self.dequeues = 0
        self.rate_in = self.rate_out = self.score = 0.0

    def count(self, enqueues: int, dequeues: int, seconds: float) -> int:
        """Take the counters, and return how many messages there were; after a reset those since."""
        came, went = _grown(enqueues, self.enqueues), _grown(dequeues, self.dequeues)
        self.enqueues, self.dequeues = enqueues, dequeues
        self.rate_in, self.rate_out = came / seconds, went / seconds
        return came + went


def _grown(now: int, before: int) -> int:
    return now - before if now >= before else now


class History:
    """The history of one broker. Use it on the broker's event loop.

    Args:
        host: the broker, which has started.
        most: the maximum number of destinations.
        file: where the history is saved; None: nowhere.
        save_interval: seconds between two times that it is saved.
    """

    def __init__(
        self, host: ManagedBroker, most: int, file: Path | None, save_interval: float
    ) -> None:
        self._host = host
        self._most = most
        self._file = file
        self._save_interval = save_interval
        self._broker = _Series(len(BROKER_COLUMNS))
        self._kept: dict[Destination, _Series] = {}
        self._last = [-1] * len(RANGES)
        """The last slot of each ring that has a row."""
        self._activities: dict[DestinationStatistics, _Activity | None] = {}
        """None: a destination that is not shown, such as a temporary one."""
        self._total = _Activity()
        self._weight = 1.0
        self._sampled = self._saved = _clock.now()
        self._has_rates = self._has_failed = False
        self._task: BackgroundTask | None = None

    def start(self) -> None:
        """Begin to record, after what the file has is read."""
        self._task = spawn(self._run, name=f"history of broker {self._host.broker_name}")

    async def stop(self) -> None:
        """End recording, and save. Idempotent."""
        task, self._task = self._task, None
        await end_tasks(task)
        if task is not None:
            await self.save()

    async def _run(self) -> None:
        await self._load()
        while True:
            await _clock.sleep(_HOUR.step - _clock.time_ms() / 1000 % _HOUR.step)
            await self.sample()
            if _clock.now() - self._saved >= self._save_interval:
                await self.save()

    # reading
    def item(self, name: str, destination: Destination | None = None) -> dict[str, object]:
        """Return the same as `read` for JSON."""
        if name not in RANGES:
            raise InvalidArgumentException(
                f"There is no history of {name[:100]!r}", hint=f"write {' or '.join(RANGES)}"
            )
        found = self.read(name, destination)
        if found is None:
            raise InstanceNotFoundException(
                f"{destination} has no history: it is not among the {self._most} busiest",
                hint="raise web.history_destinations in broker.yaml",
            )
        return found.as_item()

    def rates(self, destination: BrokerDestination) -> tuple[float, float] | None:
        """Return the messages a second, in and out, of the last 5 s; None: they are not known."""
        found = self._activities.get(destination.statistics)
        if not self._has_rates:
            return None
        return None if found is None else (found.rate_in, found.rate_out)

    @property
    def broker_rates(self) -> tuple[float, float] | None:
        """The messages a second of all destinations; None: they are not known yet."""
        return (self._total.rate_in, self._total.rate_out) if self._has_rates else None

    def read(self, name: str, destination: Destination | None = None) -> Recorded | None:
        """Return what was recorded in a range of `RANGES`; None: nothing of that destination."""
        series = self._broker if destination is None else self._kept.get(destination)
        if series is None:
            return None
        ring, (step, slots) = [*RANGES].index(name), RANGES[name]
        end = self._last[ring] + 1 if self._last[ring] >= 0 else _slot_of(step)
        every = range(end - slots, end)
        names = BROKER_COLUMNS if destination is None else COLUMNS
        columns: dict[str, Sequence[float]] = {
            each: series.column(ring, every, column) for column, each in enumerate(names)
        }
        return Recorded(every.start * step * 1000, step, columns)

    # recording
    async def sample(self) -> None:
        """Record the present state. Cancellable."""
        slices = Slices(items=10)
        now = _clock.now()
        seconds, self._sampled = max(now - self._sampled, 0.001), now
        self._weight *= 2 ** (seconds / _HALF_LIFE)
        region, usage = self._host.region_broker, self._host.system_usage
        removed = region.removed_statistics
        totals = [removed.enqueues, removed.dequeues, 0, 0]
        every = region.destinations()  # with `removed` in one turn, so that nothing counts twice
        if len(self._activities) > len(every):
            known = self._activities
            present = (each.statistics for each in every.values())
            self._activities = {each: known[each] for each in present if each in known}
        busy: list[tuple[float, Destination]] = []
        entries = list(every.items())
        for start in range(0, len(entries), _VISITED):
            self._visit(entries[start : start + _VISITED], seconds, totals, busy)
            await slices.after_item()
        came, went, depth, consumers = totals
        total = self._total
        total.count(came, went, seconds)
        self._has_rates = True
        await self._choose(busy)
        if self._weight > _LARGEST:
            self._scale()
        row = depth, total.rate_in, total.rate_out, consumers, usage.memory.used
        await self._record((*row, usage.store.used, len(self._host.connections.by_id)), every)

    def _visit(
        self,
        entries: list[tuple[Destination, BrokerDestination]],
        seconds: float,
        totals: list[int],
        busy: list[tuple[float, Destination]],
    ) -> None:
        """Take the rates of destinations; add to the totals, and those that are used to `busy`."""
        known, weight, has_space = self._activities, self._weight, len(self._kept) < self._most
        came, went, depth, consumers = totals
        for destination, entry in entries:
            statistics = entry.statistics
            enqueues, dequeues = statistics.enqueues, statistics.dequeues
            messages = statistics.messages
            came += enqueues
            went += dequeues
            depth += messages
            consumers += statistics.consumers
            activity = known.get(statistics)
            if activity is None:
                if statistics in known:
                    continue
                if not _is_shown(destination):
                    known[statistics] = None
                    continue
                activity = known[statistics] = _Activity()
            if enqueues != activity.enqueues or dequeues != activity.dequeues:
                activity.score += weight * activity.count(enqueues, dequeues, seconds)
                busy.append((activity.score, destination))
                continue
            activity.rate_in = activity.rate_out = 0.0
            if has_space and (messages or activity.score):
                busy.append((activity.score, destination))
        totals[:] = came, went, depth, consumers

    async def _choose(self, busy: list[tuple[float, Destination]]) -> None:
        """Give the busiest destinations a place."""
        kept, slices = self._kept, Slices()
        new: list[tuple[float, Destination]] = []
        for score, destination in busy:
            series = kept.get(destination)
            if series is None:
                new.append((score, destination))
            else:
                series.score = max(series.score, score)
            await slices.after_item()
        new.sort(key=lambda each: -each[0])
        free = self._most - len(kept)
        for score, destination in new[:free]:
            kept[destination] = _Series(len(COLUMNS), score)
            await slices.after_item()
        new = new[free:]
        least = sorted(kept, key=lambda each: kept[each].score) if new else []
        for old, (score, destination) in zip(least, new[:_MOST_NEW], strict=False):
            if score <= 2 * kept[old].score:
                break
            del kept[old]
            kept[destination] = _Series(len(COLUMNS), score)

    def _scale(self) -> None:
        for each in (*self._kept.values(), *self._activities.values()):
            if each is not None:
                each.score /= self._weight
        self._weight = 1.0

    async def _record(
        self, row: Sequence[float], every: dict[Destination, BrokerDestination]
    ) -> None:
        slices = Slices()
        slot, before = _slot_of(_HOUR.step), self._last[0]
        minute = slot // _PER_MINUTE
        ended = before // _PER_MINUTE if before >= 0 else minute
        gaps = [self._gap(ring, at) for ring, at in enumerate((slot, ended))]
        self._last[0] = slot
        if ended != minute:
            self._last[1] = ended
        for destination, series in [(None, self._broker), *self._kept.items()]:
            if ended != minute:
                series.clear(1, gaps[1])
                series.sum_up(ended)
            series.clear(0, gaps[0])
            if destination is None:
                series.put(0, slot, row)
            elif (entry := every.get(destination)) is not None:
                rates = self.rates(entry) or (nan, nan)
                counts = entry.statistics
                numbers = (counts.messages, *rates, counts.consumers, entry.memory.used)
                series.put(0, slot, numbers)
            else:
                series.clear(0, range(slot, slot + 1))
            await slices.after_item()

    def _gap(self, ring: int, slot: int) -> range:
        """Return the slots without rows: since the last one, or after a clock that was set back."""
        last, slots = self._last[ring], [*RANGES.values()][ring].slots
        if slot >= last:
            return range(max(last + 1, slot - slots + 1), slot)
        return range(slot + 1, min(last, slot + slots - 1) + 1)

    # the file
    async def save(self) -> None:
        """Write the file, in a thread."""
        self._saved = _clock.now()
        if self._file is None or self._last[0] < 0:
            return
        kept = list(self._kept.items())
        header = {
            "format": _format(),
            "last": self._last,
            "destinations": [
                ["topic" if to.is_topic else "queue", to.physical_name, each.score / self._weight]
                for to, each in kept
            ],
        }
        rings = [*self._broker.rings, *(ring for _, each in kept for ring in each.rings)]
        try:
            await anyio.to_thread.run_sync(_write, self._file, json.dumps(header).encode(), rings)
        except OSError as error:
            if not self._has_failed:  # one line until it works again
                logger.warning("The history cannot be saved to %s: %s", self._file, error)
            self._has_failed = True
        else:
            self._has_failed = False

    async def _load(self) -> None:
        if self._file is None:
            return
        try:
            found = await anyio.to_thread.run_sync(_read, self._file, self._most)
        except FileNotFoundError:
            return
        except (OSError, EOFError, *_DAMAGES) as e:
            reason = str(e) or type(e).__name__
            logger.warning(
                "The history in %s begins anew, it is not readable: %s", self._file, reason
            )
            return
        self._broker, self._kept, self._last = found


def _slot_of(step: int) -> int:
    return _clock.time_ms() // (1000 * step)


def _is_shown(destination: Destination) -> bool:
    name = destination.physical_name
    is_plain = not destination.is_temporary and not name.startswith(ADVISORY_PREFIX)
    return is_plain and not is_internal(destination)


def _write(file: Path, header: bytes, rings: Sequence[array[float]]) -> None:
    """Replace the file. The loop may write into a ring meanwhile: such a row is new or old."""
    temporary = file.with_suffix(".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as opened, gzip.open(opened, "wb", 1) as packed:
        packed.write(header + b"\n")
        for ring in rings:
            packed.write(ring)
    temporary.replace(file)


_Contents: TypeAlias = tuple[_Series, dict[Destination, _Series], list[int]]


def _read(file: Path, most: int) -> _Contents:
    """Return what a file has, of at most `most` destinations."""
    with gzip.open(file) as packed:
        header = json.loads(packed.readline(_LONGEST_HEADER))
        if header["format"] != _format():
            raise ValueError("another version or machine has written it")
        broker, kept = _Series(len(BROKER_COLUMNS)), dict[Destination, _Series]()
        _fill(broker, packed)
        for kind, name, score in header["destinations"]:
            series = _Series(len(COLUMNS), float(score))
            _fill(series, packed)
            if len(kept) < most:
                kept[_KINDS[kind](name)] = series
        if packed.read(1):  # at the end, the sum of the contents is checked
            raise ValueError("it has more than its header says")
        hour, day = header["last"]
        return broker, kept, [int(hour), int(day)]


def _fill(series: _Series, packed: gzip.GzipFile) -> None:
    for ring in series.rings:
        content = array("f", packed.read(len(ring) * ring.itemsize))
        if len(content) != len(ring):
            raise ValueError("it is not complete")
        ring[:] = content


def _format() -> list[object]:
    """Return what the numbers of a file depend on."""
    return [sys.byteorder, *map(list, RANGES.values()), [*COLUMNS], [*BROKER_COLUMNS]]
