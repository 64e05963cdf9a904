"""A real ActiveMQ 5.17.2 that kills drivers at named commits, and is killed and started itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

SEGMENT = 1 << 20


class ActiveMQ:
    """The broker's process, at one port with one folder of data."""

    def __init__(self, command: list[str], process: Any, folder: Path, *tools: Any) -> None:
        self.data = folder / "activemq"
        self._command = [*command, "KillingBroker", str(self.data)]
        self._process = process
        self._log = folder / "activemq.log"
        self._send, self._take = tools
        self._port = 0
        self._running: Any = None
        self.url = ""

    def start(self) -> None:
        self._running = self._process([*self._command, str(self._port), str(SEGMENT)], self._log)
        self.child = self._running.__enter__()
        line = self.child.stdout.readline()
        assert "accepts connections at" in line, self._log.read_text()[-3000:]
        self.url = line.split()[-1].split("?")[0]
        self._port = int(self.url.rsplit(":", 1)[1])

    def kill(self) -> None:
        """End it as a power failure would."""
        self.child.kill()
        self._end()

    def stop(self) -> None:
        self.child.stdin.close()
        assert self.child.wait(60) == 0, self._log.read_text()[-3000:]
        self._end()

    def _end(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.__exit__(None, None, None)

    def ask(self, line: str) -> str:
        self.child.stdin.write(line + "\n")
        self.child.stdin.flush()
        return str(self.child.stdout.readline().strip())

    def send(self, queue: str, texts: Sequence[str]) -> None:
        self._send(self.url, queue, texts)

    def count(self, queue: str) -> int:
        return int(self.ask(f"count {queue}").split()[-1])

    def texts(self, queue: str) -> list[str]:
        """Take all messages of a queue."""
        found: list[str] = self._take(self.url, queue, self.count(queue))
        return found


@pytest.fixture(scope="session")
def activemq_command(java_program: Callable[[Path], list[str]]) -> list[str]:
    return java_program(Path(__file__).with_name("program"))


@pytest.fixture
def broker(
    activemq_command: list[str],
    process: Any,
    tmp_path: Path,
    send_texts: Callable[..., None],
    take_texts: Callable[..., list[str]],
) -> Iterator[ActiveMQ]:
    """An ActiveMQ in the place of our broker."""
    made = ActiveMQ(activemq_command, process, tmp_path, send_texts, take_texts)
    made.start()
    yield made
    made._end()


@pytest.fixture
def run_killed(broker: ActiveMQ, run_driver: Callable[..., int]) -> Callable[..., bool]:
    """Runs the driver as a process that the broker kills at a point; whether it got there."""

    def run(point: str, number: int = 1, **how: str) -> bool:
        try:
            armed = f"arm {point} {number}"
            return (
                run_driver(broker.url, lambda leader: broker.ask(f"{armed} {leader}"), **how) != 0
            )
        finally:
            broker.ask("disarm")

    return run
