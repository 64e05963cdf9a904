"""Kill points: a broker filter that follows a query and ends the process at a chosen step.

Used by tests with the broker in their own process, and by `broker_child.py`, which kills itself.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyjms.errors import JMSException, JMSSecurityException
from pyjms.runtime import event_loop
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    ConnectionInfo,
    ConsumerInfo,
    MessageAck,
    ProducerInfo,
    TransactionId,
)
from pyjms.wire.openwire.primitives import decode_text, encode_text
from pyjms_broker.api.access import RANGES
from pyjms_broker.api.broker import BrokerFilter
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext, ConsumerExchange, ProducerExchange
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.filters.ranges.filter import RangesBroker

Act = Callable[[ConnectionContext], None]
TEXTS = [f"m{number}" for number in range(200)]
"""The input of a query."""
WORK = {"OUT": "partition", "PyJMS.Stage": "stage", "PyJMS.Epoch": "epoch"}


def lost_and_doubled(out: Sequence[str]) -> tuple[int, int]:
    """Return how many of TEXTS are missing in the output, and how many are duplicated."""
    counts = Counter(out)
    assert set(counts) <= set(TEXTS)
    return len(set(TEXTS) - set(counts)), sum(counts.values()) - len(counts)


class Killer(BrokerFilter):
    """Kills a process at a named point, which it knows from the commands that the broker gets.

    `before` an action: it never happens; `after`: it has happened, on disk too, but its response is
    lost.
    """

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.point: str | None = None
        self.left = 0
        self.act: Act | None = None
        self.ranges = "served"
        self.seen: Counter[str] = Counter()
        self._work: dict[TransactionId, str] = {}
        while not isinstance(inner, RangesBroker):
            inner = inner.next
        self._ranges = inner

    def arm(self, point: str | None, number: int = 1, act: Act | None = None) -> None:
        self.point, self.left, self.act = point, number, act

    def _at(self, what: str, context: ConnectionContext) -> None:
        self.seen[what] += 1
        if self.point == what:
            self.left -= 1
            if self.left == 0 and self.act is not None:
                self.point = None
                self.act(context)
                if what.startswith("before"):
                    raise JMSException(f"killed {what}")

    def _when_done(self, answer: Any, what: str, context: ConnectionContext) -> Any:
        if isinstance(answer, Completion):
            answer.then(lambda _: self._at(what, context))
        else:
            self._at(what, context)
        return answer

    def add_consumer(self, context: ConnectionContext, info: ConsumerInfo) -> Subscription:
        made = self.next.add_consumer(context, info)
        name = info.destination.physical_name if info.destination else ""
        self._at(f"after consumer of {name}", context)
        return made

    def add_producer(self, context: ConnectionContext, info: ProducerInfo) -> None:
        if self.ranges == "forbidden" and info.destination == RANGES:
            raise JMSSecurityException(f"Not authorized to write to: {info.destination}")
        self.next.add_producer(context, info)

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Any:
        name = message.destination.physical_name if message.destination else ""
        if message.destination == RANGES:
            return self._ask(exchange, message)
        if message.transaction_id is not None:
            self._work[message.transaction_id] = next(
                (what for start, what in WORK.items() if name.startswith(start)), name
            )
        return self.next.send(exchange, message)

    def _ask(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Any:
        if self.ranges == "unknown":
            return None  # as a broker that has none, where it is a queue like others
        if self.ranges == "busy":
            self.ranges = "served"
            return None  # as one that has no time for the first question
        context = exchange.context
        fields = json.loads(decode_text(bytes(message.content or b"")) or "{}")
        if self.ranges == "of one queue" and fields.pop("more", None):
            message.content = encode_text(json.dumps(fields))  # as brokers that know no `more`
        what = fields["op"]
        self._at(f"before {what}", context)
        before = self._ranges.requests.requests_of(context)
        answer = self.next.send(exchange, message)
        for task in self._ranges.requests.requests_of(context) - before:
            event_loop.spawn(self._watch, task, f"after {what}", context, name="watch")
        return answer

    async def _watch(self, task: Any, what: str, context: ConnectionContext) -> None:
        await task.wait()
        self._at(what, context)

    def acknowledge(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion:
        if ack.transaction_id is not None:
            self._work.setdefault(ack.transaction_id, "pull")
        return self.next.acknowledge(exchange, ack)

    def commit_transaction(
        self, context: ConnectionContext, xid: TransactionId, one_phase: bool
    ) -> Any:
        what = self._work.pop(xid, "nothing")
        self._at(f"before {what}", context)
        return self._when_done(
            self.next.commit_transaction(context, xid, one_phase), f"after {what}", context
        )


class Guard(BrokerFilter):
    """Accepts connections with the right name and password; all of them, while none is set."""

    login: tuple[str, str] | None = None

    def add_connection(self, context: ConnectionContext, info: ConnectionInfo) -> None:
        if self.login not in (None, (info.user_name, info.password)):
            raise JMSSecurityException(f"User name [{info.user_name}] or password is invalid.")
        self.next.add_connection(context, info)


def group(leader: int) -> Act:
    """Kill a driver: its JVM, and what belongs to it."""
    return lambda _context: os.killpg(leader, signal.SIGKILL)


def oneself(_context: ConnectionContext) -> None:
    """Kill the broker."""
    os.kill(os.getpid(), signal.SIGKILL)


def worker(context: ConnectionContext) -> None:
    """Kill the process at the other end of a connection: a Python worker of Spark's."""
    os.kill(_process_of(context), signal.SIGKILL)


def executor(context: ConnectionContext) -> None:
    """Kill the executor's JVM whose Python worker is at the other end of a connection."""
    process = _process_of(context)
    while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{process}/cmdline").read_bytes():
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        assert process > 1, "no executor is above that process"
    os.kill(process, signal.SIGKILL)


def _process_of(context: ConnectionContext) -> int:
    assert context.connection is not None
    port = int(context.connection.remote_address.rsplit(":", 1)[1])
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    [socket] = [f[9] for f in map(str.split, lines) if int(f[1].partition(":")[2], 16) == port
                and f[3] == "01"]  # fmt: skip
    for path in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if path.readlink() == Path(f"socket:[{socket}]"):
                return int(path.parts[2])
        except OSError:
            continue  # the process has ended
    raise AssertionError(f"nobody has the connection from port {port}")
