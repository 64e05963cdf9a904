"""A Spark session, a broker in this process that Spark's processes reach, and what kills drivers."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from broker.context import ConnectionContext, ConsumerExchange, ProducerExchange
from broker.filter import BrokerFilter
from broker.service import BrokerService
from pyjms import Connection, ConnectionFactory
from pyjms.errors import JMSException
from pyjms.sync.portal import call_on_loop, shared_loop
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageAck, TransactionId
from pyjms.wire.openwire.primitives import decode_text

pytest.importorskip("pyspark")
DRIVER = Path(__file__).with_name("driver.py")


@pytest.fixture(scope="session")
def driver() -> ModuleType:
    """The query of the tests."""
    spec = importlib.util.spec_from_file_location("spark_test_driver", DRIVER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def spark(driver: ModuleType) -> Iterator[Any]:
    """The session that all tests share."""
    session = driver.session()
    yield session
    session.stop()


_WORK = {"OUT": "partition", "PyJMS.Stage": "stage", "PyJMS.Epoch": "epoch"}


class Killer(BrokerFilter):
    """Kills a process group at a named point: what the broker sees says where it is.

    `before` a thing: it never happens; `after`: it does, and nobody hears of it.
    """

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.point: str | None = None
        self.left = 0
        self.group: int | None = None
        self.swallows_ranges = False
        self.seen: Counter[str] = Counter()
        self._work: dict[TransactionId, str] = {}

    def arm(self, point: str | None, number: int = 1, group: int | None = None) -> None:
        self.point, self.left, self.group = point, number, group

    def _at(self, what: str) -> None:
        self.seen[what] += 1
        if self.point == what:
            self.left -= 1
            if self.left == 0 and self.group is not None:
                os.killpg(self.group, signal.SIGKILL)
                self.point = None
                if what.startswith("before"):
                    raise JMSException(f"killed {what}")

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Any:
        name = message.destination.physical_name if message.destination else ""
        if message.transaction_id is not None:
            self._work[message.transaction_id] = next(
                (what for start, what in _WORK.items() if name.startswith(start)), name
            )
        what = ""
        if name == "PyJMS.Ranges" and self.swallows_ranges:
            return None  # as a broker that has none, where it is a queue like others
        if name == "PyJMS.Ranges":
            what = json.loads(decode_text(bytes(message.content or b"")) or "{}")["op"]
            self._at(f"before {what}")
        answer = self.next.send(exchange, message)
        if what:
            self._at(f"after {what}")
        return answer

    def acknowledge(self, exchange: ConsumerExchange, ack: MessageAck) -> Any:
        if ack.transaction_id is not None:
            self._work.setdefault(ack.transaction_id, "pull")
        return self.next.acknowledge(exchange, ack)

    def commit_transaction(
        self, context: ConnectionContext, xid: TransactionId, one_phase: bool
    ) -> Any:
        what = self._work.pop(xid, "nothing")
        self._at(f"before {what}")
        answer = self.next.commit_transaction(context, xid, one_phase)
        self._at(f"after {what}")
        return answer


class SparkBroker:
    """A broker with a KahaDB store in this process."""

    def __init__(self, folder: Path) -> None:
        self.killers: list[Killer] = []
        self.folder = folder
        self.port = 0

    def _killer(self, inner: Any) -> Killer:
        self.killers.append(Killer(inner))
        return self.killers[-1]

    @property
    def killer(self) -> Killer:
        return self.killers[-1]

    def start(self) -> None:
        call_on_loop(shared_loop(), self._start)

    async def _start(self) -> None:
        self.service = BrokerService(
            f"spark-{self.folder.name}", data_directory=self.folder, plugins=[self._killer]
        )
        self.service.add_connector(f"tcp://127.0.0.1:{self.port}")
        await self.service.start()
        self.url = self.service.connect_uri
        self.port = int(self.url.split("?")[0].rsplit(":", 1)[1])

    def stop(self) -> None:
        call_on_loop(shared_loop(), self.service.stop)

    @contextlib.contextmanager
    def connected(self) -> Iterator[Connection]:
        connection = ConnectionFactory(self.url).create_connection()
        try:
            connection.start()
            yield connection
        finally:
            connection.close()

    def send(self, queue: str, texts: Sequence[str]) -> None:
        with self.connected() as connection:
            session = connection.create_session(True)
            producer = session.create_producer(session.create_queue(queue))
            for text in texts:
                producer.send(session.create_text_message(text))
            session.commit()

    def count(self, queue: str) -> int:
        there = self.service.region_broker.destinations()
        return sum(d.statistics.messages for n, d in there.items() if n.physical_name == queue)

    def texts(self, queue: str) -> list[str]:
        """Take all messages of a queue."""
        with self.connected() as connection:
            session = connection.create_session(True)
            consumer = session.create_consumer(session.create_queue(queue))
            found = [consumer.receive(5).text for _ in range(self.count(queue))]
            session.commit()
        return found


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SparkBroker]:
    """A broker at a port of its own."""
    made = SparkBroker(tmp_path)
    made.start()
    yield made
    made.stop()


RunKilled = Callable[..., bool]


@pytest.fixture
def run_killed(broker: SparkBroker, tmp_path: Path) -> Callable[..., bool]:
    """Runs the driver as a process that the broker kills at a point; whether it got there."""

    def run(point: str | None, number: int = 1, **how: str) -> bool:
        settings = [f"{name}={value}" for name, value in how.items()]
        with (tmp_path / "driver.log").open("a") as log:
            child = subprocess.Popen(
                [sys.executable, str(DRIVER), broker.url, str(tmp_path), *settings],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
            )
            broker.killer.arm(point, number, child.pid)
            try:
                code = child.wait(240)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                broker.killer.arm(None)
        assert code in (0, -signal.SIGKILL), (tmp_path / "driver.log").read_text()[-3000:]
        return code != 0

    return run
