"""Two brokers that share a store are restarted in turn, under an application that never stops.

Ours share a KahaDB directory, whose lock the second one waits for; ActiveMQ's do the same (shared
file system master and slave). With persistJMSRedelivered a broker knows what its predecessor had
delivered.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from pyjms import JmsApplication, Message, PyjmsSettings, jms_listener
from tests.kit.failures.cut_transfers import FAST
from tests.kit.processes.children import accepted_url, started
from tests.kit.processes.forked_python import Process
from tests.kit.servers.java_brokers import SEGMENT_SIZE, activemq_command
from tests.kit.stores.shared_store import free_ports, sharing_commands
from tests.kit.waiting import LONGEST_WAIT

__all__ = ["activemq_command"]


class Pair:
    """Two brokers, of which one serves and the other waits for the store's lock."""

    def __init__(self, commands: list[list[str]], ports: list[int], folder: Path) -> None:
        self._commands = commands
        self._folder = folder
        self._master = 0
        self._running: list[Any] = [None, None]
        self._starts = 0
        brokers = ",".join(f"tcp://127.0.0.1:{port}" for port in ports)
        self.url = f"failover:({brokers})?{FAST}&jms.redeliveryPolicy.maximumRedeliveries=-1"

    async def start(self) -> None:
        """Start the first one, then the second, which waits."""
        self._begin(0)
        await anyio.to_thread.run_sync(self._accepted, 0)
        self._begin(1)

    async def change(self) -> None:
        """Stop the active broker; once the other one is active, restart it."""
        last, self._master = self._master, 1 - self._master
        await anyio.to_thread.run_sync(self._end, last)
        await anyio.to_thread.run_sync(self._accepted, self._master)
        self._begin(last)

    def stop(self) -> None:
        """End both."""
        for running in self._running:
            if running is not None:
                running[0].close()

    def _begin(self, index: int) -> None:
        """Start one, in the test's own thread: a child ends with the thread that started it."""
        stack = ExitStack()
        self._starts += 1
        log = self._folder / f"broker-{index}-{self._starts}.log"
        self._running[index] = (
            stack,
            stack.enter_context(started(self._commands[index], log)),
            log,
        )

    def _accepted(self, index: int) -> None:
        _, child, log = self._running[index]
        accepted_url(child, log)

    def _end(self, index: int) -> None:
        stack, child, log = self._running[index]
        self._running[index] = None
        end_in_order(child, self._commands[index])
        assert child.wait(60) == 0, log.read_text(encoding="utf-8")[-3000:]
        stack.close()


def end_in_order(child: Process, command: list[str]) -> None:
    """Ours stops on a signal, ActiveMQ's program at the end of its input."""
    if command[0] == sys.executable:
        child.terminate()
    else:
        assert child.stdin is not None
        child.stdin.close()


@pytest.fixture(params=["ours", pytest.param("activemq", marks=pytest.mark.activemq)])
async def pair(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Pair]:
    ports = free_ports()
    if request.param == "ours":
        commands = sharing_commands(tmp_path, ports)
    else:
        program = request.getfixturevalue("activemq_command")
        data = str(tmp_path / "data")
        commands = [
            [*program, "KillingBroker", data, str(p), str(SEGMENT_SIZE), "flag"] for p in ports
        ]
    pair = Pair(commands, ports, tmp_path)
    try:
        await pair.start()
        yield pair
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(pair.stop)


class Work:
    """What was sent and handled, and how often without the flag."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.handled: Counter[str] = Counter()
        self.first: Counter[str] = Counter()
        """Deliveries that are not marked as redelivered."""
        self.changed = anyio.Event()

    @jms_listener("work", id="work", concurrency="3-10")
    async def handle(self, message: Message) -> None:
        text = str(message.text)  # type: ignore[attr-defined]
        self.handled[text] += 1
        self.first[text] += not message.redelivered
        self.changed.set()
        self.changed = anyio.Event()

    async def grow(self, count: int) -> None:
        """Wait until so many more have been handled."""
        goal = len(self.handled) + count
        while len(self.handled) < goal:
            await self.changed.wait()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("restarts", [2, pytest.param(8, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("transacted", [True, False], ids=["transacted", "auto"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_is_sent_is_handled_through_rolling_restarts(
    pair: Pair, transacted: bool, restarts: int
) -> None:
    work = Work()
    settings = PyjmsSettings(
        jms={"listener": {"session": {"transacted": transacted}}}
    ).with_broker_url(pair.url)
    with anyio.fail_after(2 * LONGEST_WAIT):
        async with JmsApplication(work, settings=settings) as application:
            is_over = False

            async def produce() -> None:
                while not is_over:
                    text = f"m{len(work.sent)}"
                    await application.template.convert_and_send("work", text)
                    work.sent.append(text)

            async with anyio.create_task_group() as group:
                group.start_soon(produce)
                for _ in range(restarts):
                    await work.grow(100)
                    await pair.change()
                await work.grow(100)
                is_over = True
            while len(work.handled) < len(work.sent):
                await work.changed.wait()
    assert set(work.handled) == set(work.sent)
    assert {text: count for text, count in work.first.items() if count > 1} == {}
