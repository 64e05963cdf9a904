"""What the benchmarks of protocols share: one client sends to another, each a process of its own.

A protocol has a module, run by `python -m`, and a function `connect(role, port, case)`, which
returns one that sends or gets so many messages. `--peer PORT[:PID]` measures another broker at this
port as well, in turns; what is printed is the median of each broker, and with the process id also
the processor time of the broker for a message.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

BATCH = 50
WARM = 2000
PUBLISHER, SUBSCRIBER = "publisher", "subscriber"

Rates = dict[str, float]
Peer = tuple[int, int | None]
"""The port and the process id of a broker."""


class Protocol(NamedTuple):
    """A protocol's clients."""

    module: str
    url: str
    """Of this project's connector, with port 0."""
    cases: Sequence[str]
    connect: Callable[[str, int, str], Callable[[int], None]]


def play(protocol: Protocol, role: str, port: int, case: str, count: int) -> None:
    """One client's process: it warms up, then waits for a line and prints one when it is done."""
    use = protocol.connect(role, port, case)
    for messages in (WARM, count):
        print("ready", flush=True)
        sys.stdin.readline()
        use(messages)
        print("done", flush=True)
    sys.stdin.readline()


class Player:
    """A client's process."""

    def __init__(self, protocol: Protocol, role: str, port: int, case: str, count: int) -> None:
        arguments = ["--role", role, "--port", str(port), "--case", case, "--count", str(count)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", protocol.module, *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def wait(self) -> None:
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise RuntimeError("a client has ended")

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def cpu_seconds(pid: int | None) -> float:
    """Return the processor time of a process; 0 if it is not known."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(protocol: Protocol, broker: Peer, case: str, count: int) -> Rates:
    port, pid = broker
    players = [Player(protocol, role, port, case, count) for role in (SUBSCRIBER, PUBLISHER)]
    try:
        for _ in range(2):  # to warm up, and to measure
            for player in players:
                player.wait()
            wall, cpu = time.perf_counter(), cpu_seconds(pid)
            for player in players:
                player.go()
            for player in players:
                player.wait()
            wall, cpu = time.perf_counter() - wall, cpu_seconds(pid) - cpu
    finally:
        for player in players:
            player.end()
    return {"msg_per_s": count / wall, "cpu_us_per_msg": cpu / count * 1e6}


_BROKER = """
import asyncio, gc, sys
from pyjms_broker.cli.start import GC_THRESHOLDS
from pyjms_broker.service import BrokerService
async def main():
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)  # as `pyjms broker start` does
    service = BrokerService("bench", persistent=False)
    connector = service.add_connector(sys.argv[1])
    async with service:
        print(connector.connect_uri.rpartition(":")[2], flush=True)
        await asyncio.to_thread(sys.stdin.readline)
asyncio.run(main())
"""


@contextmanager
def start_broker(url: str) -> Iterator[Peer]:
    """Start this project's broker."""
    command = [sys.executable, "-c", _BROKER, url]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline()), process.pid
        finally:
            process.kill()


def measure(
    protocol: Protocol, count: int, runs: int, peer: Peer | None = None
) -> dict[str, dict[str, Rates]]:
    """Return the medians by broker and case."""
    with start_broker(protocol.url) as own:
        brokers = {"pyjms": own} if peer is None else {"pyjms": own, "peer": peer}
        found: dict[str, dict[str, list[Rates]]] = {name: {} for name in brokers}
        for case in protocol.cases:
            for _ in range(runs):
                for name, broker in brokers.items():
                    rates = run(protocol, broker, case, count)
                    found[name].setdefault(case, []).append(rates)
    return {
        name: {
            case: {key: statistics.median(each[key] for each in rates) for key in rates[0]}
            for case, rates in table.items()
        }
        for name, table in found.items()
    }


def main(protocol: Protocol, description: str | None) -> None:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--count", type=int, default=20_000, help=f"a multiple of {BATCH}")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--peer", metavar="PORT[:PID]")
    parser.add_argument("--role", choices=[PUBLISHER, SUBSCRIBER], help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    if arguments.role is not None:
        play(protocol, arguments.role, arguments.port, arguments.case, arguments.count)
        return
    peer = None
    if arguments.peer is not None:
        port, _, pid = arguments.peer.partition(":")
        peer = int(port), int(pid) if pid else None
    table = measure(protocol, arguments.count, arguments.runs, peer)
    if arguments.json:
        print(json.dumps(table))
        return
    for name, cases in table.items():
        for case, rates in cases.items():
            rate, cpu = rates["msg_per_s"], rates["cpu_us_per_msg"]
            print(f"{name:6} {case} {rate:8.0f} msg/s, broker {cpu:.1f} us/msg")
