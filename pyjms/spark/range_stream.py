"""The stream source for the bundled broker: a batch is a range of a queue's sequence numbers.

Theory of operation
===================

The broker numbers the messages in each queue's store: `seq` counts within an `epoch`, which changes
when the queue is purged or created again. A batch is the range from one offset to the next, so it
can be read any number of times, by several tasks at once, and nothing has to be copied.

The driver (`RangeStreamReader`, one per query) accesses the broker through a lease of each queue
(`QueueLeases`), all of them over one connection, with one request for the state of all:

    find      names of the queues that match a pattern
    lease     exclusive right to the queue; no consumer gets its messages, none of them expires
    stat      state of the queue: first and next number, messages, bytes; can wait for a change, and
              tells when the message of a number was sent
    hold      the messages before a number stay as they are, so that a range can be read again
    trim      the messages before a number are finished and are removed

Executors read chunks of their share with the driver's token: `ranges`.

Invariants:

- A message is removed only by `trim`, and `trim` is called only with the start of the batch that
  Spark asks for next (or with a committed end): Spark asks for the next batch only after it has
  logged the previous one as finished. So a driver that is killed at any point reads its unfinished
  batch again, and nothing else.
- A trim runs beside the next batch, as removing thousands of messages takes as long as reading
  them. Its failure is raised by the next call. Before the reader says "no new data", which may be
  its last word, it waits for the trim, so that an idle or finished query leaves nothing behind.
- A range is held before its end offset is returned to Spark. So all ranges in Spark's log can be
  read again, also after a restart, which acquires the lease again and holds the range of the
  unfinished batch before its tasks read it.
- The token of a lease stays the same for the life of the driver. When the connection is lost the
  broker drops the lease; a background task, which keeps a `stat` request pending to notice the
  loss, acquires it again with the same token as soon as the broker is available, and tasks that
  failed in between (`unknown_token`) retry for a minute.
- An `owner` that is the same as before (a pipeline's checkpoint id) takes the lease over at once;
  another one waits up to 30 s for it, since a driver that was just killed may still have it.
- Numbers are compared only within one epoch. Another epoch, a first number beyond the checkpoint's
  offset or a last number before it mean lost data: an error, or with `failOnDataLoss=false` a
  warning, after which reading continues at the next existing number.

- A queue that a pattern matches later than at the start is added to the offset with its first
  number, without any rows; so the batch that reads them has a start that is in Spark's log.

AvailableNow notes the next numbers when it starts and ends there. The drain flag and the end of
AvailableNow work the same way: `latestOffset` returns the start offset, which is "no new data".

Why not consume and acknowledge, as a JMS client would? Messages would have to be copied before they
are acknowledged (that is what the spool does, for other brokers), and only one process could read
them. (spark-pipeline 3.2, 3.6, 5 A)

"""

from __future__ import annotations

import math
import os
import secrets
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from pyjms.errors import ConfigurationException, IllegalStateException, JMSException
from pyjms.jms.destination import Destination, Queue, parse_destination
from pyjms.jms.message import BytesMessage
from pyjms.runtime import clock as _clock
from pyjms.runtime import event_loop
from pyjms.runtime.logging import get_logger
from pyjms.spark.connections import CONNECTION_LOST, run_blocking
from pyjms.spark.drain import is_draining
from pyjms.spark.offsets import (
    Offset,
    batch_limit,
    divide,
    is_several,
    iso_time,
    offsets_to_json,
    read_offsets,
    split_evenly,
)
from pyjms.spark.options import EARLIEST, LATEST, JmsOptions
from pyjms.spark.ranges import (
    LeaseReplaced,
    RangePartition,
    RangesRefused,
    messages_in,
    ranges_client,
    read_range,
    retry_while_unavailable,
)

if TYPE_CHECKING:
    import pyarrow as pa

logger: Final = get_logger(__name__)

_LEASE_RETRY_PERIOD: Final = 30.0
"""Seconds to wait for the broker, and for a lease that the previous reader may still have."""
_IN_FLIGHT_WAIT: Final = 5.0
_STAT_WAIT: Final = 10.0
_FIND_INTERVAL: Final = 5.0
"""Seconds between two searches for queues that match a pattern."""


async def find_queues(options: JmsOptions, wanted: Sequence[Destination]) -> list[Destination]:
    """Return queues as they are, and those that match the patterns among them now."""
    patterns = ",".join(queue.physical_name for queue in wanted if queue.is_pattern)
    found = [queue for queue in wanted if not queue.is_pattern]
    if patterns:
        client = await ranges_client(options)
        found += map(Queue, (await client.values("find", pattern=patterns))["queues"])
    return list(dict.fromkeys(found))


class QueueLease:
    """The lease of a queue, and the queue's range as of the last response."""

    def __init__(self, queue: Destination) -> None:
        self.token: str = secrets.token_hex(16)
        self.name: str = queue.qualified_name
        self.queue: str = queue.physical_name
        self.epoch: int = 0
        self.first: int = 0
        self.next: int = 0
        self.average: int = 1
        """The average size of a message in bytes."""
        self.trim_end: int = 0
        """The number before which messages are removed, or are being removed."""

    def update(self, found: dict[str, Any]) -> None:
        """Take the state of the queue from a response."""
        self.epoch, self.first, self.next = found["epoch"], found["first"], found["next"]
        if "bytes" in found:
            self.average = max(1, found["bytes"] // max(1, found["messages"]))


class QueueLeases:
    """The leases of a stream's queues. Lives on the shared loop."""

    def __init__(self, options: JmsOptions) -> None:
        self.by_name: dict[str, QueueLease] = {}
        self._options = options
        unique = secrets.token_hex(4)
        self._owner = options.owner or f"{socket.gethostname()}:{os.getpid()}:{unique}"
        self._wanted = options.target.composite_destinations
        self._found_at = -math.inf
        self._are_held = True
        self._keeper: event_loop.BackgroundTask | None = None
        self._trim_task: event_loop.BackgroundTask | None = None
        self._trim_failure: BaseException | None = None

    async def open(self, others: Iterable[str] = ()) -> dict[str, QueueLease]:
        """Acquire the leases of the queues that there are now, and of `others`; return all."""
        queues = [parse_destination(name) for name in others if name not in self.by_name]
        now = _clock.now()
        if is_due := now - self._found_at >= _FIND_INTERVAL:
            find = partial(find_queues, self._options, self._wanted)
            queues += await retry_while_unavailable(find, _LEASE_RETRY_PERIOD)
        for queue in queues:
            if queue.qualified_name not in self.by_name:
                lease = QueueLease(queue)
                acquire = partial(self._acquire, lease)
                await retry_while_unavailable(acquire, _LEASE_RETRY_PERIOD)
                self.by_name[lease.name] = lease
        if is_due:
            has_patterns = any(queue.is_pattern for queue in self._wanted)
            self._found_at = now if has_patterns else math.inf
        if self._keeper is None and self.by_name:
            self._keeper = event_loop.spawn(self._keep, name=f"leases of {self._options.target}")
        return self.by_name

    async def close(self) -> None:
        """Release the leases, if the broker can be reached."""
        await event_loop.end_tasks(self._keeper, self._trim_task)
        leases, self.by_name = self.by_name, {}
        for lease in leases.values() if self._are_held else ():
            try:
                await (await ranges_client(self._options)).values("release", token=lease.token)
            except JMSException as error:
                logger.debug("The lease of %s ends with the connection: %s", lease.queue, error)

    async def poll(self, after: Mapping[str, int], timeout: float) -> None:
        """Update the queues' ranges; wait up to `timeout` seconds for messages from `after` on."""
        leases = list(self.by_name.values())
        if not leases:  # no queue matches yet
            await _clock.sleep(timeout)
            return
        first, *more = [[lease.token, after.get(lease.name, 0)] for lease in leases]
        found = await self._request("stat", leases[0], gt=first[1], wait=timeout, more=more)
        states = [found, *found.get("more", ())]
        if len(states) != len(leases):
            raise JMSException(
                f"The broker told the state of {len(states)} of {len(leases)} queues",
                hint="its version of pyjms reads one queue per stream: update the broker, or read "
                "each queue with a stream of its own",
            )
        for lease, state in zip(leases, states, strict=True):
            lease.update(state)

    async def hold(self, ends: Mapping[str, int]) -> None:
        """Request that the broker keeps the messages before these numbers unchanged."""
        for name, end in ends.items():
            await self._request("hold", self.by_name[name], to=end)

    async def trim(self, ends: Mapping[str, int]) -> None:
        """Remove the messages before these numbers."""
        for name, end in ends.items():
            lease = self.by_name[name]
            if end > lease.first:
                lease.first = (await self._request("trim", lease, to=end))["first"]

    async def begin_trim(self, ends: Mapping[str, int]) -> None:
        """Begin to remove the messages before these numbers; waits for an earlier removal only."""
        due = {
            name: end
            for name, end in ends.items()
            if end > max(self.by_name[name].trim_end, self.by_name[name].first)
        }
        if not due:
            return
        await self.finish_trim()
        for name, end in due.items():
            self.by_name[name].trim_end = end
        self._trim_task = event_loop.spawn(
            self.trim, due, name=f"trim of {self._options.target}", on_error=self._on_trim_failure
        )

    async def finish_trim(self) -> None:
        """Wait until the removal is done."""
        task, self._trim_task = self._trim_task, None
        if task is not None:
            await task.wait()
        failure, self._trim_failure = self._trim_failure, None
        if failure is not None:
            for lease in self.by_name.values():
                lease.trim_end = 0
            raise failure

    def _on_trim_failure(self, error: BaseException) -> None:
        self._trim_failure = error

    async def sent_at(self, lease: QueueLease, number: int) -> int | None:
        """Return the timestamp (ms) of the message with that number; None: it is not there."""
        client = await ranges_client(self._options)
        found = await client.values("stat", token=lease.token, at=number)
        sent: int | None = found.get("sent")
        return sent

    async def first_since(self, lease: QueueLease, timestamp: int) -> int:
        """Return the number of the first message that was sent at that time (ms) or later.

        Reads the messages before it; without one the number of the next message is returned.
        """
        client = await ranges_client(self._options)
        at, last = lease.first, lease.first >= lease.next
        while not last:
            arguments: dict[str, Any] = {"from": at, "to": lease.next, "token": lease.token}
            message = await client.request("range", **arguments)
            body = bytes(message.data or b"") if isinstance(message, BytesMessage) else b""
            for number, one in messages_in(body):
                if one.timestamp >= timestamp:
                    return number
            at = int(str(message.properties["next"]))
            last = bool(message.properties["last"])
        return lease.next

    async def _request(self, operation: str, lease: QueueLease, **fields: Any) -> dict[str, Any]:
        async def attempt() -> dict[str, Any]:
            if not self._are_held:
                await self._acquire_all()
            try:
                client = await ranges_client(self._options)
                return await client.values(operation, token=lease.token, **fields)
            except RangesRefused as error:
                self._are_held = error.code != "unknown_token"
                raise
            except CONNECTION_LOST:
                self._are_held = False
                raise

        return await retry_while_unavailable(attempt, _LEASE_RETRY_PERIOD)

    async def _acquire_all(self) -> None:
        for lease in list(self.by_name.values()):  # a pattern may match more meanwhile
            await self._acquire(lease)
        self._are_held = True

    async def _acquire(self, lease: QueueLease) -> None:
        client = await ranges_client(self._options)
        found = await client.values(
            "lease",
            queue=lease.queue,
            owner=self._owner,
            token=lease.token,
            selector=self._options.selector,
            wait=_IN_FLIGHT_WAIT,
        )
        if lease.epoch and found["epoch"] != lease.epoch:
            raise IllegalStateException(
                f"{lease.queue} was purged or created again while it was being read",
                hint="set failOnDataLoss=false and restart the query to continue",
            )
        lease.update(found)

    async def _keep(self) -> None:
        """Acquire the leases again whenever they were lost, for as long as this process lives.

        They are lost with the connection, all at once: one of them is enough to notice it.
        """
        pause = 0.1
        while True:
            try:
                if not self._are_held:
                    await self._acquire_all()
                client = await ranges_client(self._options)
                lease = next(iter(self.by_name.values()))
                found = await client.values(
                    "stat", token=lease.token, gt=lease.next, wait=_STAT_WAIT
                )
                lease.next = max(lease.next, found["next"])
                pause = 0.1
            except JMSException as error:
                logger.debug("The leases of %s are lost: %s", self._options.target, error)
                self._are_held = False
                if isinstance(error, LeaseReplaced):
                    return
                pause = min(pause * 2, 5.0)
            await _clock.sleep(pause)


_OLDEST_INTERVAL: Final = 1.0
"""Seconds between two requests for the age of the oldest waiting message."""


class RangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads queues. Acquires their leases when Spark first asks for an offset."""

    def __init__(self, options: JmsOptions) -> None:
        target = options.target
        if any(queue.is_topic for queue in target.composite_destinations):
            raise ConfigurationException(
                f"jms: {target} cannot be read by ranges, which only queues have",
                hint="read the queue Consumer.<name>.VirtualTopic.<topic>, or use mode=spool",
            )
        if is_several(target) and options.starting_offset.isdigit():
            raise ConfigurationException(
                "jms: option startingOffset is a number, of a single queue, but the destination is "
                f"{target}",
                hint="use startingTimestamp, or read one at a time",
            )
        self._options = options
        self._leases: QueueLeases | None = None
        self._targets: dict[str, int] | None = None  # AvailableNow: the numbers to end at
        self._ends: dict[str, int] = {}  # the ends that were returned last
        self._since = _clock.now()  # the time of the last batch
        self._asked = -math.inf
        self._oldest: int | None = None

    def initialOffset(self) -> dict[str, Any]:
        return cast("dict[str, Any]", run_blocking(self._initial))

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_messages_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        run_blocking(self._prepare)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return cast("dict[str, Any]", run_blocking(self._latest, start, limit))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the ends of the queues, with what waits beyond the batch: number and oldest time.

        Spark shows it as `latestOffset` of the source in each progress report.
        """
        return None if self._leases is None else run_blocking(self._report, self._leases)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return cast("Sequence[InputPartition]", run_blocking(self._partitions, start, end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangePartition):  # Spark's own, for an empty batch
            return iter(())
        return read_range(self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        run_blocking(self._commit, end)

    def stop(self) -> None:
        """Release the leases, if Spark calls this; usually Spark only ends the process."""
        leases, self._leases = self._leases, None
        if leases is not None:
            run_blocking(leases.close)

    async def _open(self, others: Iterable[str] = ()) -> QueueLeases:
        if self._leases is None:
            self._leases = QueueLeases(self._options)
        await self._leases.open(others)
        return self._leases

    def _to_json(self, numbers: Mapping[str, int], leases: QueueLeases) -> dict[str, Any]:
        by_name = leases.by_name
        offsets = [Offset(name, by_name[name].epoch, seq) for name, seq in numbers.items()]
        return offsets_to_json(offsets, self._options.target)

    async def _initial(self) -> dict[str, Any]:
        leases, options = await self._open(), self._options
        found: dict[str, int] = {}
        for name, lease in leases.by_name.items():
            named = {EARLIEST: lease.first, LATEST: lease.next}.get(options.starting_offset)
            if options.starting_timestamp is not None:
                milliseconds = -(-options.starting_timestamp // 1000)
                named = await leases.first_since(lease, milliseconds)
            found[name] = int(options.starting_offset) if named is None else named
        return self._to_json(found, leases)

    async def _prepare(self) -> None:
        leases = await self._open()
        await leases.poll({}, 0)
        self._targets = {name: lease.next for name, lease in leases.by_name.items()}

    async def _latest(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begun = read_offsets(start, self._options.target)
        leases = await self._open()
        by_name = leases.by_name
        firsts = {
            name: self._first_of(lease, begun[name]) if name in begun else lease.first
            for name, lease in by_name.items()
        }
        if self._options.ack_on == "finished":
            await leases.begin_trim(_within(begun.values(), by_name))
        known = {name: first for name, first in firsts.items() if name in begun}
        wait = self._options.poll_timeout if len(known) == len(firsts) else 0.0
        self._ends = {**firsts, **await self._ends_of(leases, known, limit, wait)}
        moved = {n: end for n, end in self._ends.items() if n not in begun or end > firsts[n]}
        if not moved:
            await leases.finish_trim()
            return start
        await leases.hold({name: end for name, end in moved.items() if name in begun})
        self._since = _clock.now()
        kept = [offset for name, offset in begun.items() if name not in moved]
        new = [Offset(name, by_name[name].epoch, end) for name, end in moved.items()]
        return offsets_to_json([*kept, *new], self._options.target)

    async def _ends_of(
        self, leases: QueueLeases, firsts: Mapping[str, int], limit: ReadLimit, wait: float
    ) -> Mapping[str, int]:
        """Return the ends of a batch from `firsts` on; `firsts` if there is to be none."""
        options, targets = self._options, self._targets
        now = _clock.now()
        deadline, least = now + wait, options.min_messages_per_trigger
        if now - self._since >= options.max_trigger_delay:
            least = 1
        if targets is not None:
            deadline, least = now, 1
        if is_draining() or (
            targets is not None and all(first >= targets.get(n, 0) for n, first in firsts.items())
        ):
            return firsts
        after = firsts
        while True:
            await leases.poll(after, max(0.0, deadline - _clock.now()))
            stops = {n: leases.by_name[n].next for n in firsts}
            if targets is not None:
                stops = {name: min(stop, targets.get(name, 0)) for name, stop in stops.items()}
            waiting = {name: max(0, stops[name] - first) for name, first in firsts.items()}
            total = sum(waiting.values())
            if total >= least or _clock.now() >= deadline:
                break
            after = {name: max(stops[name], first) for name, first in firsts.items()}
        if total < least:
            return firsts
        size = sum(number * leases.by_name[name].average for name, number in waiting.items())
        rows, most = batch_limit(limit, options)
        shares = divide(waiting, max(1, min(rows, most * total // size)))
        return {name: first + shares[name] for name, first in firsts.items()}

    async def _report(self, leases: QueueLeases) -> dict[str, Any]:
        waiting = {
            lease: start
            for name, lease in leases.by_name.items()
            if (start := max(self._ends.get(name, 0), lease.first)) < lease.next
        }
        nexts = {name: lease.next for name, lease in leases.by_name.items()}
        backlog = sum(lease.next - start for lease, start in waiting.items())
        found = {**self._to_json(nexts, leases), "backlog": backlog}
        if not waiting:
            return found
        if _clock.now() - self._asked >= _OLDEST_INTERVAL:
            self._asked = _clock.now()
            try:
                times = [await leases.sent_at(lease, start) for lease, start in waiting.items()]
            except JMSException as error:  # a metric must not end a query
                logger.debug("The age of the oldest message: %s", error)
                times = []
            self._oldest = min(filter(None, times), default=None)
        return found if self._oldest is None else {**found, "oldest": iso_time(self._oldest)}

    async def _partitions(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Sequence[InputPartition]:
        target = self._options.target
        begun, ended = read_offsets(start, target), read_offsets(end, target)
        # one that has no start was only added to the offset
        names = [name for name, offset in ended.items() if begun.get(name, offset) != offset]
        leases = await self._open(names)
        found: list[InputPartition] = []
        for name in names:
            lease = leases.by_name[name]
            low, high = self._range_of(lease, begun[name], ended[name])
            if low < high:
                await leases.hold({name: high})
                found += (
                    RangePartition(lease.token, lease.epoch, *share, lease.queue)
                    for share in split_evenly(low, high, self._options.partitions)
                )
        return found

    def _range_of(self, lease: QueueLease, begun: Offset, ended: Offset) -> tuple[int, int]:
        """Return the part of a planned range that the queue still has."""
        if ended.epoch != lease.epoch:
            self._report_loss(
                f"{lease.name} was purged or created again since this batch was planned"
            )
            return 0, 0
        high = min(ended.seq, lease.next)
        # the broker lost numbers in a crash, and the batch ends before it starts
        is_reversed = begun.epoch == lease.epoch and begun.seq > ended.seq
        low = lease.first if is_reversed else self._first_of(lease, begun)
        if high < ended.seq:
            self._report_loss(
                f"The batch ends before message {ended.seq}, but {lease.name} ends before {high}"
            )
        return low, high

    async def _commit(self, end: dict[str, Any]) -> None:
        leases = await self._open()
        ends = _within(read_offsets(end, self._options.target).values(), leases.by_name)
        await (leases.trim if self._options.ack_on == "commit" else leases.begin_trim)(ends)

    def _first_of(self, lease: QueueLease, begun: Offset) -> int:
        """Return the first number to read, given the offset up to which batches are finished."""
        if begun.epoch != lease.epoch:
            self._report_loss(
                f"{lease.name} was purged or created again: its sequence numbers are not those of "
                "the checkpoint"
            )
            return lease.first
        if begun.seq < lease.first:
            self._report_loss(
                f"The batch starts with message {begun.seq}, but {lease.name} starts with "
                f"{lease.first}"
            )
            return lease.first
        if begun.seq > lease.next:
            self._report_loss(
                f"Messages before {begun.seq} were read, but {lease.name} ends before "
                f"{lease.next}: the broker lost some in a crash"
            )
            return lease.next
        return begun.seq

    def _report_loss(self, text: str) -> None:
        if self._options.fail_on_data_loss:
            raise IllegalStateException(
                text,
                hint="they expired, were consumed or were purged; failOnDataLoss=false "
                "continues without them",
            )
        logger.warning("%s; continuing without them (failOnDataLoss=false)", text)


def _within(offsets: Iterable[Offset], leases: Mapping[str, QueueLease]) -> dict[str, int]:
    """Return the numbers up to which messages are finished, of the queues that are as they were."""
    return {
        name: min(seq, leases[name].next)
        for name, epoch, seq in offsets
        if name in leases and leases[name].epoch == epoch
    }
