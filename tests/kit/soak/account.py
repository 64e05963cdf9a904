"""Judges what the clients of a soak wrote: what was lost, doubled, out of order or damaged.

Events of senders: `try P N` before a send; `ok P N` when it is confirmed, `doubt P N` when it is
confirmed over a connection that was interrupted meanwhile (it may have been sent twice);
`never P N` when it will be rolled back; `batch P FIRST LAST` before a commit.

Events of consumers: `got E P N FLAG` handles a message for good; `open E P N FLAG` receives one
that is acknowledged later, then `end E P N` before the acknowledgement or commit, `done E P N`
when that is confirmed, `back E P N` before a rollback. `cut E`: the consumer's connection was lost.

Events of the supervisor: `down` of the broker, and `disturb "pause NAME" SECONDS` of a process.

A client that was paused may handle what it had received before, though the broker has given it to
another one meanwhile: of several deliveries any one may be without JMSRedelivered, and the first
seconds after a pause prove nothing about acknowledgements, answered ones or not.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tests.kit.soak.events import Event
from tests.kit.soak.flows import Endpoint, Flow, flow_of

__all__ = ["Account", "Finding"]

UNTRIED, TRIED, CONFIRMED, IN_DOUBT, NEVER = range(5)
UNSEEN, OPEN, BACK, MAYBE, HANDLED, FINAL = range(6)

LATE: Final = 60.0
"""Seconds after a restart in which a paused consumer may still handle what it had before."""
STALE: Final = 10.0
"""Seconds after a pause in which a client may handle what it had received before."""
PAUSE: Final = "pause "


class Finding(NamedTuple):
    """A broken promise."""

    rule: str
    where: str


class Double(NamedTuple):
    """Two deliveries without JMSRedelivered."""

    endpoint: Endpoint
    producer: str
    number: int
    first: float
    second: float


class Batch(NamedTuple):
    """The sends of a transaction: all or none of them happen."""

    producer: str
    first: int
    last: int


class Gap(NamedTuple):
    """Numbers that a subscriber did not get while it was connected."""

    endpoint: str
    producer: str
    first: int
    last: int


@dataclass
class Lane:
    """What an endpoint got of one sender, by number."""

    state: bytearray = field(default_factory=bytearray)
    when: array[float] = field(default_factory=lambda: array("d"))
    """Times of the last deliveries without JMSRedelivered; 0: none."""
    last: int = -1
    """The highest number so far."""
    cuts: int = 0
    """How often the consumer's connection had been lost when that came."""

    def grow(self, number: int) -> None:
        missing = number + 1 - len(self.state)
        if missing > 0:
            self.state.extend(bytes(missing))
            self.when.extend([0.0] * missing)


class Account:
    """Takes all events in the order of their times; then `findings` has what is wrong."""

    def __init__(self, flows: Iterable[Flow]) -> None:
        self.flows = {flow.name: flow for flow in flows}
        readers = [reader for flow in self.flows.values() for reader in flow.readers]
        self.endpoints = {reader.endpoint.name: reader.endpoint for reader in readers}
        self._dead = {
            end.dead_letters_of: name
            for name, end in self.endpoints.items()
            if end.dead_letters_of is not None
        }
        self.counts: Counter[str] = Counter()
        self.findings: list[Finding] = []
        self._sent: dict[str, bytearray] = {}
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._cuts: Counter[str] = Counter()
        self._downs: list[float] = []
        self._pauses: list[tuple[str, float, float]] = []
        self._doubles: list[Double] = []
        self._gaps: list[Gap] = []
        self._batches: list[Batch] = []
        self._kinds = {
            "try": self._tried, "ok": self._confirmed, "doubt": self._in_doubt,
            "never": self._never, "batch": self._batch, "got": self._got, "open": self._opened,
            "end": self._ending, "done": self._done, "back": self._back, "cut": self._cut,
            "down": self._down, "disturb": self._disturbed,
        }  # fmt: skip

    def take(self, events: Iterable[Event]) -> None:
        for event in events:
            handler = self._kinds.get(event.kind)
            if handler is not None:
                handler(event)

    # -- senders

    def _set(self, event: Event, status: int) -> None:
        producer, number = event.fields[0], int(event.fields[1])
        sent = self._sent.setdefault(producer, bytearray())
        sent.extend(bytes(max(0, number + 1 - len(sent))))
        sent[number] = status

    def _tried(self, event: Event) -> None:
        self._set(event, TRIED)
        self.counts["tried"] += 1

    def _confirmed(self, event: Event) -> None:
        self._set(event, CONFIRMED)
        self.counts["confirmed"] += 1

    def _in_doubt(self, event: Event) -> None:
        self._set(event, IN_DOUBT)
        self.counts["confirmed"] += 1

    def _never(self, event: Event) -> None:
        self._set(event, NEVER)
        self.counts["rolled back by senders"] += 1

    def _batch(self, event: Event) -> None:
        producer, first, last = event.fields
        self._batches.append(Batch(producer, int(first), int(last)))

    # -- consumers

    def _got(self, event: Event) -> None:
        self._received(event, HANDLED)

    def _opened(self, event: Event) -> None:
        self._received(event, OPEN)

    def _received(self, event: Event, state: int) -> None:
        name, producer, text, flag, damage = event.fields
        number, endpoint = int(text), self.endpoints[name]
        lane = self._lanes.setdefault((name, producer), Lane())
        lane.grow(number)
        self.counts["deliveries"] += 1
        if damage != "whole":
            self._find("damaged", name, producer, number)
        sent = self._sent.get(producer, b"")
        if number >= len(sent) or sent[number] == UNTRIED:
            self._find("never sent", name, producer, number)
        before = lane.state[number]
        if before == UNSEEN:
            self._first(endpoint, lane, producer, number)
        elif before == FINAL and self._is_stale(event):
            self.counts["handled late by paused clients"] += 1
        elif before == FINAL:
            self._find("delivered again after its acknowledgement", name, producer, number)
        if flag == "again":
            self.counts["redelivered"] += 1
        else:
            if lane.when[number] and before != FINAL:
                when = lane.when[number]
                self._doubles.append(Double(endpoint, producer, number, when, event.time))
            lane.when[number] = event.time
        lane.state[number] = max(state, before) if self._is_settled(before, event) else state

    def _is_settled(self, before: int, event: Event) -> bool:
        """Whether a delivery takes nothing back: an old one says nothing of a later answer."""
        return before in (HANDLED, FINAL) or (before == MAYBE and self._is_stale(event))

    def _is_stale(self, event: Event) -> bool:
        return any(
            event.source.startswith(name) and since <= event.time <= until + STALE
            for name, since, until in self._pauses
        )

    def _first(self, endpoint: Endpoint, lane: Lane, producer: str, number: int) -> None:
        cuts = self._cuts[endpoint.name]
        if endpoint.ordered and number < lane.last:
            self._find("out of order", endpoint.name, producer, number)
        missed = endpoint.lossy and number > lane.last + 1 and lane.last >= 0
        if missed and cuts == lane.cuts:
            self._gaps.append(Gap(endpoint.name, producer, lane.last + 1, number - 1))
        lane.cuts = cuts
        lane.last = max(lane.last, number)

    def _settle(self, event: Event, state: int) -> None:
        name, producer, number = event.fields
        lane = self._lanes[name, producer]
        if lane.state[int(number)] not in (HANDLED, FINAL):
            lane.state[int(number)] = state

    def _ending(self, event: Event) -> None:
        self._settle(event, MAYBE)

    def _done(self, event: Event) -> None:
        self._settle(event, FINAL)

    def _back(self, event: Event) -> None:
        name, producer, number = event.fields
        before = self._lanes[name, producer].state[int(number)]
        if not self._is_settled(before, event):
            self._settle(event, BACK)
        self.counts["rolled back by consumers"] += 1

    def _cut(self, event: Event) -> None:
        self._cuts[event.fields[0]] += 1

    # -- the broker, and the verdict

    def _down(self, event: Event) -> None:
        self._downs.append(event.time)

    def _disturbed(self, event: Event) -> None:
        kind, seconds = event.fields
        if kind.startswith(PAUSE):
            end = event.time + float(seconds)
            self._pauses.append((kind.removeprefix(PAUSE), event.time, end))

    def _find(self, rule: str, endpoint: str, producer: str, number: int) -> None:
        self.counts[rule] += 1
        self.findings.append(Finding(rule, f"{endpoint}: {producer} {number}"))

    def close(self) -> None:
        """Judge what can be judged only when all events are known."""
        for double in self._doubles:
            self._judge_double(double)
        for gap in self._gaps:
            sent = self._sent[gap.producer]
            for number in range(gap.first, gap.last + 1):
                if sent[number] == CONFIRMED:
                    self._find("lost", gap.endpoint, gap.producer, number)
        self._judge_completeness()
        for batch in self._batches:
            self._judge_batch(batch)

    def _judge_double(self, double: Double) -> None:
        endpoint, producer, number, first, second = double
        if self._sent[producer][number] in (TRIED, IN_DOUBT):
            self.counts["doubled, send in doubt"] += 1
            return
        at = bisect_left(self._downs, first - LATE)
        restarted = at < len(self._downs) and self._downs[at] < second
        if not endpoint.flagged and restarted:
            self.counts["doubled over a restart"] += 1
            return
        self._find("doubled without JMSRedelivered", endpoint.name, producer, number)

    def _judge_completeness(self) -> None:
        for producer, sent in self._sent.items():
            for endpoint in self.flows[flow_of(producer)].endpoints:
                lane = self._lanes.get((endpoint.name, producer), Lane())
                lane.grow(len(sent) - 1)
                dead = self._lanes.get((self._dead.get(endpoint.name, ""), producer), Lane())
                dead.grow(len(sent) - 1)
                self._judge_lane(endpoint, producer, sent, lane.state, dead.state)

    def _judge_lane(
        self,
        endpoint: Endpoint,
        producer: str,
        sent: bytearray,
        handled: bytearray,
        dead: bytearray,
    ) -> None:
        for number, status in enumerate(sent):
            if handled[number] == FINAL and dead[number]:
                self._find("acknowledged, and a dead letter", endpoint.name, producer, number)
            self.counts["dead letters"] += dead[number] != UNSEEN
            state = max(handled[number], dead[number])
            if state >= MAYBE:
                self.counts["handled"] += 1
            if status == NEVER and state != UNSEEN:
                self._find("delivered though rolled back", endpoint.name, producer, number)
            if status in (CONFIRMED, IN_DOUBT) and state < MAYBE and not endpoint.lossy:
                self._find("lost", endpoint.name, producer, number)

    def _judge_batch(self, batch: Batch) -> None:
        producer, first, last = batch
        numbers = range(first, last + 1)
        for endpoint in self.flows[flow_of(producer)].endpoints:
            lane: Mapping[int, int] | bytearray = self._lanes.get(
                (endpoint.name, producer), Lane()
            ).state
            seen = sum(n < len(lane) and lane[n] != UNSEEN for n in numbers)
            if 0 < seen < len(numbers):
                self._find("half a transaction", endpoint.name, producer, first)
