"""Real brokers written in Java: Debian's ActiveMQ 5.17.2, and Artemis and activemq-broker 6 from Maven.

Each is a small Java program beside the tests that use it; it reads commands, one a line, and is
stopped by the end of its input.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kit.clients.messages import send_texts, take_texts
from tests.kit.processes.children import BrokerProcess, accepted_url, started
from tests.kit.servers.java_programs import JavaProgram

INTEGRATION = Path(__file__).resolve().parents[2] / "integration"
ACTIVEMQ = INTEGRATION / "activemq" / "program"
KILLING_ACTIVEMQ = INTEGRATION / "spark" / "activemq" / "program"
SEGMENT_SIZE = 1 << 20
MAVEN_PROGRAMS = {
    "artemis": (INTEGRATION / "spark" / "artemis" / "artemis_program", "ArtemisBroker"),
    "activemq6": (INTEGRATION / "spark" / "artemis" / "activemq6_program", "ActiveMQ6Broker"),
}
ARTEMIS_SETTINGS = {"ids": "0", "deleting": "false", "attempts": "10"}


class JavaBroker(BrokerProcess):
    """A Java broker that keeps its data folder when it is started again.

    Its program is given the data folder, the port and the values of `settings`.
    """

    def __init__(
        self, kind: str, command: Sequence[str], folder: Path, settings: dict[str, str]
    ) -> None:
        self.data = folder / kind
        super().__init__([*command, str(self.data)], folder / f"{kind}.log")
        self.kind = kind
        self._settings = dict(settings)

    def start(self, *arguments: str) -> None:
        super().start(*self._settings.values(), *arguments)

    def restart(self, how: str, **settings: str) -> None:
        """Stop or kill it, and start it, with other settings where given."""
        getattr(self, how)()
        self._settings.update(settings)
        self.start()

    def ask(self, line: str) -> str:
        """Give the program a command; return the line it replies."""
        self.child.stdin.write(line + "\n")
        self.child.stdin.flush()
        return str(self.child.stdout.readline().strip())

    def send(self, queue: str, texts: Sequence[str]) -> None:
        send_texts(self.url, queue, texts)

    def count(self, queue: str) -> int:
        """Return how many messages a queue has; 0 where there is no such queue."""
        return max(self._count(queue), 0)

    def has(self, address: str) -> bool:
        """Return whether Artemis has an address of that name."""
        return self._count(address) != -1

    def _count(self, queue: str) -> int:
        return int(self.ask(f"count {queue}").split()[-1])

    def texts(self, queue: str) -> list[str]:
        """Consume all messages of a queue."""
        return take_texts(self.url, queue, self.count(queue))


@pytest.fixture(scope="session")
def real_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The URL of an ActiveMQ 5.17.2 with its defaults, or of the one at `TEST_ACTIVEMQ_URL`."""
    given = os.environ.get("TEST_ACTIVEMQ_URL")
    if given:
        yield given
        return
    java_program: JavaProgram = request.getfixturevalue("java_program")
    folder = tmp_path_factory.mktemp("activemq")
    log = folder / "log"
    with started([*java_program(ACTIVEMQ), "RealBroker", str(folder / "data")], log) as child:
        yield accepted_url(child, log).replace("localhost", "127.0.0.1")
        assert child.poll() is None, log.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def activemq_command(java_program: JavaProgram) -> list[str]:
    """The start of the command of the programs beside the ActiveMQ that kills drivers."""
    return java_program(KILLING_ACTIVEMQ)


@contextmanager
def run_killing_activemq(command: list[str], folder: Path) -> Iterator[JavaBroker]:
    """Run an ActiveMQ 5.17.2 that kills a process at a named commit, and can be killed itself."""
    settings = {"segment": str(SEGMENT_SIZE)}
    broker = JavaBroker("activemq", [*command, "KillingBroker"], folder, settings)
    broker.start()
    try:
        yield broker
    finally:
        broker.end()


@pytest.fixture(name="broker")
def killing_activemq(activemq_command: list[str], tmp_path: Path) -> Iterator[JavaBroker]:
    """A broker of `run_killing_activemq` for one test."""
    with run_killing_activemq(activemq_command, tmp_path) as broker:
        yield broker


@pytest.fixture(name="run_killed")
def run_killed_by_activemq(
    broker: JavaBroker, run_driver: Callable[..., int]
) -> Callable[..., bool]:
    """Runs the driver as a process that the broker kills at a point; whether it got there."""

    def run(point: str, number: int = 1, **how: str) -> bool:
        def arm(leader: int) -> None:
            broker.ask(f"arm {point} {number} {leader}")

        try:
            return run_driver(broker.url, arm, **how) != 0
        finally:
            broker.ask("disarm")

    return run


@pytest.fixture(
    name="broker", params=["artemis", pytest.param("activemq6", marks=pytest.mark.nightly)]
)
def maven_broker(
    request: pytest.FixtureRequest, maven_program: JavaProgram, tmp_path: Path
) -> Iterator[JavaBroker]:
    """Artemis or activemq-broker 6."""
    sources, main_class = MAVEN_PROGRAMS[request.param]
    settings = ARTEMIS_SETTINGS if request.param == "artemis" else {}
    broker = JavaBroker(request.param, [*maven_program(sources), main_class], tmp_path, settings)
    broker.start()
    yield broker
    broker.end()
