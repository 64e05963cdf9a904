"""Checks the records of a soak's clients for lost, duplicated, reordered or damaged messages.

Events of senders: `try P N` before a send; `ok P N` when it is confirmed, `doubt P N` when it is
confirmed over a connection that was interrupted meanwhile (it may have been sent twice);
`never P N` when it will be rolled back; `batch P FIRST LAST` before a commit.

Events of consumers: `got E P N FLAG` handles a message for good; `open E P N FLAG` receives one
that is acknowledged later, then `end E P N` before the acknowledgement or commit, `done E P N`
when that is confirmed, `back E P N` before a rollback. `cut E`: the consumer's connection was lost.

Each of these may end in SINCE, the time at which the connection was made that the message came
over.

Events of the supervisor: `down` of the broker; `disturb "pause NAME" SECONDS` of a process, and
`resumed NAME`, which is later than planned if the broker is just being started again.

What is lost. Of a message whose send was confirmed the last word counts, of all its consumers:

    last word                       the message is
    =============================   ==============================================================
    none                            lost
    `got`, `done`                   handled: nothing takes that back
    `end`                           handled; written before the acknowledgement, so that a client
                                    that is killed behind it has written it
    `open`, `back`                  lost: at the end the queues are drained, and the broker has to
                                    deliver again what was not acknowledged

Two things could make the last word a wrong one where acknowledgements are not answered (`end`,
never `done`), and would report messages as lost that were handled:

- A client that was paused, or that has not noticed yet that its broker is down, handles what it
  had received before, though another one has got it and acknowledged it meanwhile. Such a delivery
  or rollback is old and takes no acknowledgement back. It is known by the pause, or by a `down`
  between SINCE and the event. Of several deliveries any one may be without JMSRedelivered then.
- A client acknowledges, and the broker dies before it has the acknowledgement. It delivers the
  message to a second client, whose `open` or `back` becomes the last word when it is killed, and
  then to the first one again, which refuses it as a duplicate. So it ends as a dead letter, and the
  dead letters of such a queue are consumed, too. One that no consumer has ever acknowledged is
  a finding: only a duplicate may be refused there (`Endpoint.refuses_duplicates_only`).
- The broker ends a connection whose client was silent for too long, and delivers its messages
  again, while the client still handles one that it had received. That is known by its failure soon
  after, and by the missing JMSRedelivered: what was delivered again has it.

A message that becomes a dead letter while the disk fails may be delivered again after the restart:
neither the dead letter, which may have been consumed already, nor what it replaces is on the disk.
"""

from __future__ import annotations

import math
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
"""Seconds after a restart in which a paused consumer may still handle earlier messages."""
STALE: Final = 10.0
"""Seconds after a pause in which a client may handle messages received before."""
PAUSE: Final = "pause "
SINCE_AT: Final = {"got": 5, "open": 5, "back": 3}
"""The fields of events before the time at which the consumer's connection was made."""


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


@dataclass
class Pause:
    """A pause of the processes whose names begin like this."""

    name: str
    since: float
    until: float = math.inf


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
    ended: set[int] = field(default_factory=set)
    """The numbers that a consumer has acknowledged, answered or not."""
    late: dict[int, Event] = field(default_factory=dict)
    """Deliveries without JMSRedelivered after an acknowledgement, if they are the last ones."""
    answered: dict[int, float] = field(default_factory=dict)
    """When the acknowledgements of messages with dead letters were answered."""

    def grow(self, number: int) -> None:
        missing = number + 1 - len(self.state)
        if missing > 0:
            self.state.extend(bytes(missing))
            self.when.extend([0.0] * missing)


class Account:
    """Processes all events in the order of their times; `findings` then has the errors."""

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
        self._failures: list[Event] = []
        self._dead_since: dict[tuple[str, str, int], float] = {}
        self._pauses: list[Pause] = []
        self._doubles: list[Double] = []
        self._gaps: list[Gap] = []
        self._batches: list[Batch] = []
        self._kinds = {
            "try": self._tried, "ok": self._confirmed, "doubt": self._in_doubt,
            "never": self._never, "batch": self._batch, "got": self._got, "open": self._opened,
            "end": self._ending, "done": self._done, "back": self._back, "cut": self._cut,
            "down": self._down, "disturb": self._disturbed, "resumed": self._resumed,
            "failed": self._failures.append,
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
        name, producer, text, flag, damage = event.fields[:5]
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
        lane.late.pop(number, None)
        if before == MAYBE and flag == "first":
            lane.late[number] = event
        if endpoint.dead_letters_of is not None:
            key = (endpoint.dead_letters_of, producer, number)
            self._dead_since.setdefault(key, event.time)
        if before == UNSEEN:
            self._first(endpoint, lane, producer, number)
        elif before == FINAL and self._is_old(event):
            self.counts["handled late"] += 1
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
        return before in (HANDLED, FINAL) or (before == MAYBE and self._is_old(event))

    def _is_old(self, event: Event) -> bool:
        """Whether the message may have been given to another consumer before this happened."""
        return self._is_of_lost_broker(event) or any(
            event.source.startswith(pause.name) and pause.since <= event.time <= pause.until + STALE
            for pause in self._pauses
        )

    def _is_of_lost_broker(self, event: Event) -> bool:
        """Whether the broker that the message came from was down before this happened."""
        fields = event.fields[SINCE_AT[event.kind] :]
        return bool(fields and self._downs) and float(fields[0]) < self._downs[-1]

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
        name, producer, number = event.fields[:3]
        lane = self._lanes[name, producer]
        if state in (MAYBE, FINAL):
            lane.ended.add(int(number))
        if state == FINAL and (name, producer, int(number)) in self._dead_since:
            lane.answered[int(number)] = event.time
        if lane.state[int(number)] not in (HANDLED, FINAL):
            lane.state[int(number)] = state

    def _ending(self, event: Event) -> None:
        self._settle(event, MAYBE)

    def _done(self, event: Event) -> None:
        self._settle(event, FINAL)

    def _back(self, event: Event) -> None:
        name, producer, number = event.fields[:3]
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
        kind = event.fields[0]
        if kind.startswith(PAUSE):
            self._pauses.append(Pause(kind.removeprefix(PAUSE), event.time))

    def _resumed(self, event: Event) -> None:
        for pause in self._pauses:
            if pause.name == event.fields[0] and pause.until == math.inf:
                pause.until = event.time

    def _find(self, rule: str, endpoint: str, producer: str, number: int) -> None:
        self.counts[rule] += 1
        self.findings.append(Finding(rule, f"{endpoint}: {producer} {number}"))

    def close(self) -> None:
        """Judge what can be judged only when all events are known."""
        for (name, _), lane in self._lanes.items():
            self._judge_late(name, lane)
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

    def _judge_late(self, endpoint: str, lane: Lane) -> None:
        """Let deliveries take nothing back that came over connections that were lost by then."""
        for number, event in lane.late.items():
            if lane.state[number] in (OPEN, BACK) and any(
                failure.source == event.source
                and failure.fields[0].startswith(f"reader/{endpoint}-")
                and event.time <= failure.time <= event.time + STALE
                for failure in self._failures
            ):
                lane.state[number] = MAYBE
                self.counts["received late"] += 1

    def _failed_between(self, first: float, second: float) -> bool:
        """Whether the broker was down in between."""
        return any(first < down < second for down in self._downs)

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
                self._judge_lane(endpoint, producer, lane, dead)

    def _judge_lane(
        self, endpoint: Endpoint, producer: str, lane: Lane, dead_letters: Lane
    ) -> None:
        handled, dead = lane.state, dead_letters.state
        for number, status in enumerate(self._sent[producer]):
            if handled[number] == FINAL and dead[number]:
                since = self._dead_since[endpoint.name, producer, number]
                if self._failed_between(since, lane.answered.get(number, 0.0)):
                    self.counts["dead letter doubled over a restart"] += 1
                    continue
                self._find("acknowledged, and a dead letter", endpoint.name, producer, number)
            if dead[number] and endpoint.refuses_duplicates_only and number not in lane.ended:
                self._find("refused, and no duplicate", endpoint.name, producer, number)
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
