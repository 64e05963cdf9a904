"""Brokers for Spark's processes: one in this process, and one in a process that can be killed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pyjms import Connection, ConnectionFactory
from pyjms.sync.portal import call_on_loop, shared_loop
from pyjms_broker.service import BrokerService
from tests.kit.clients.messages import send_texts, take_texts
from tests.kit.processes.children import BrokerProcess
from tests.kit.spark import killing
from tests.kit.stores.small import SMALL_SEGMENTS


class SparkBroker:
    """A broker with a KahaDB store in this process."""

    def __init__(self, folder: Path) -> None:
        self.killers: list[Any] = []
        self.folder = folder
        self.port = 0
        self.attributes: dict[str, Any] = {}
        self._guard: Any = None

    def guard(self, user: str, password: str) -> None:
        """Refuse connections without this name and password from now on."""
        self._guard.login = (user, password)

    def unguard(self) -> None:
        self._guard.login = None

    def _guarded(self, inner: Any) -> Any:
        self._guard = killing.Guard(inner)
        return self._guard

    def _killer(self, inner: Any) -> Any:
        self.killers.append(killing.Killer(inner))
        return self.killers[-1]

    @property
    def killer(self) -> Any:
        return self.killers[-1]

    def start(self) -> None:
        call_on_loop(shared_loop(), self._start)

    async def _start(self) -> None:
        self.service = BrokerService(
            f"spark-{self.folder.name}",
            data_directory=self.folder,
            persistence=SMALL_SEGMENTS,
            plugins=[self._killer, self._guarded],
            **self.attributes,
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
        send_texts(self.url, queue, texts)

    def count(self, queue: str) -> int:
        """Return how many messages a queue has; 0 where there is no such queue."""
        destinations = self.service.region_broker.destinations()
        return sum(
            destination.statistics.messages
            for name, destination in destinations.items()
            if name.physical_name == queue
        )

    def texts(self, queue: str) -> list[str]:
        """Consume all messages of a queue."""
        return take_texts(self.url, queue, self.count(queue))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SparkBroker]:
    """A broker at a separate port."""
    made = SparkBroker(tmp_path)
    made.start()
    yield made
    made.stop()


class BrokerChild(BrokerProcess):
    """A broker with a KahaDB store in a separate process, which can kill itself at a point."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.kit.spark.broker_child", str(folder / "data")]
        super().__init__(command, folder / "broker.log")

    def start(  # type: ignore[override]
        self, point: str | None = None, number: int = 1
    ) -> None:
        """Start it; where a point is named, it kills itself there."""
        super().start(*([] if point is None else [point, str(number)]))


@pytest.fixture
def broker_child(tmp_path: Path) -> Iterator[BrokerChild]:
    """A broker in a process that can be killed, with data that outlives it."""
    child = BrokerChild(tmp_path)
    yield child
    child.end()
