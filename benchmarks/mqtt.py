"""Messages a second from one MQTT client to another by QoS. Run: python -m benchmarks.mqtt.

100 bytes to one topic; publisher and subscriber are processes of their own with raw sockets, which
send packets written beforehand and only count what they get, so that they take little of the time.
With QoS 1 and 2, `WINDOW` messages are under way. `--peer PORT[:PID]` measures another broker at
this port as well, in turns; what is printed is the median of each broker, and with the process id
also the processor time of the broker for a message.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TOPIC = b"bench/mqtt"
PAYLOAD = b"x" * 100
BATCH, WINDOW = 50, 200
IDS = 20 * BATCH
"""Packet ids of the publisher, used again and again."""
WARM = 2000
_HEAD = 2
_ID_AT = _HEAD + 2 + len(TOPIC)
_ACK = 4
"""Bytes of an acknowledgement."""

Rates = dict[str, float]


def publish_packet(qos: int, packet_id: int = 0) -> bytes:
    identifier = packet_id.to_bytes(2) if qos else b""
    body = len(TOPIC).to_bytes(2) + TOPIC + identifier + PAYLOAD
    assert len(body) < 128
    return bytes((0x30 | qos << 1, len(body))) + body


def connect(port: int, client_id: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port))
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    body = b"\0\4MQTT\4\2\0\0" + len(client_id).to_bytes(2) + client_id
    client.sendall(bytes((0x10, len(body))) + body)
    assert client.recv(4) == b"\x20\2\0\0"
    return client


def subscribe(client: socket.socket, qos: int) -> None:
    body = b"\0\1" + len(TOPIC).to_bytes(2) + TOPIC + bytes((qos,))
    client.sendall(bytes((0x82, len(body))) + body)
    assert client.recv(5) == bytes((0x90, 3, 0, 1, qos))


def publish(client: socket.socket, qos: int, count: int) -> None:
    """Send messages, and wait until all are acknowledged."""
    if not qos:
        chunk = publish_packet(0) * BATCH
        for _ in range(count // BATCH):
            client.sendall(chunk)
        return
    batches = [
        b"".join(publish_packet(qos, number + 1) for number in range(first, first + BATCH))
        for first in range(0, IDS, BATCH)
    ]
    sent = done = 0
    rest = b""
    while done < count:
        out = []
        while sent < count and sent + BATCH - done <= WINDOW:
            out.append(batches[sent // BATCH % len(batches)])
            sent += BATCH
        if out:
            client.sendall(b"".join(out))
        rest += client.recv(1 << 16)
        whole = len(rest) // _ACK * _ACK
        if qos == 1:
            done += whole // _ACK
        else:
            recs = [rest[at + 2 : at + 4] for at in range(0, whole, _ACK) if rest[at] == 0x50]
            done += whole // _ACK - len(recs)
            if recs:
                client.sendall(b"\x62\2" + b"\x62\2".join(recs))
        rest = rest[whole:]


def receive(client: socket.socket, qos: int, count: int) -> None:
    """Get so many messages, and acknowledge them."""
    size = len(publish_packet(qos))
    rest, got = b"", 0
    wanted = count if qos < 2 else 2 * count
    while got < wanted:
        rest += client.recv(1 << 18)
        at, length, out = 0, len(rest), []
        if qos < 2:
            got += length // size
            at = length // size * size
            if qos:
                out = [rest[i : i + 2] for i in range(_ID_AT, at, size)]
                client.sendall(b"\x40\2" + b"\x40\2".join(out)) if out else None
        else:
            while at < length:
                is_message = rest[at] & 0xF0 == 0x30
                end = at + (size if is_message else _ACK)
                if end > length:
                    break
                place = at + (_ID_AT if is_message else 2)
                out.append((b"\x50\2" if is_message else b"\x70\2") + rest[place : place + 2])
                got += 1
                at = end
            client.sendall(b"".join(out))
        rest = rest[at:]


def play(role: str, port: int, qos: int, count: int) -> None:
    """One client's process: it warms up, then waits for a line and prints one when it is done."""
    client = connect(port, f"bench-{role}-{os.getpid()}".encode())
    if role == "subscriber":
        subscribe(client, qos)
    for messages in (WARM, count):
        print("ready", flush=True)
        sys.stdin.readline()
        (receive if role == "subscriber" else publish)(client, qos, messages)
        print("done", flush=True)
    sys.stdin.readline()
    client.close()


class Player:
    """A client's process."""

    def __init__(self, role: str, port: int, qos: int, count: int) -> None:
        arguments = ["--role", role, "--port", str(port), "--qos", str(qos), "--count", str(count)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.mqtt", *arguments],
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


def run(port: int, pid: int | None, qos: int, count: int) -> Rates:
    players = [Player(role, port, qos, count) for role in ("subscriber", "publisher")]
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
    connector = service.add_connector("mqtt://127.0.0.1:0")
    async with service:
        print(connector.connect_uri.rpartition(":")[2], flush=True)
        await asyncio.to_thread(sys.stdin.readline)
asyncio.run(main())
"""


@contextmanager
def broker() -> Iterator[tuple[int, int]]:
    """Start this project's broker; yield its port and process id."""
    with subprocess.Popen(
        [sys.executable, "-c", _BROKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline()), process.pid
        finally:
            process.kill()


def measure(
    count: int, runs: int, peer: tuple[int, int | None] | None = None
) -> dict[str, dict[str, Rates]]:
    """Return the medians by broker and QoS."""
    with broker() as own:
        brokers: dict[str, tuple[int, int | None]] = {"pyjms": own}
        if peer is not None:
            brokers["peer"] = peer
        found: dict[str, dict[str, list[Rates]]] = {name: {} for name in brokers}
        for qos in range(3):
            for _ in range(runs):
                for name, (port, pid) in brokers.items():
                    found[name].setdefault(f"QoS {qos}", []).append(run(port, pid, qos, count))
    return {
        name: {
            case: {key: statistics.median(each[key] for each in rates) for key in rates[0]}
            for case, rates in table.items()
        }
        for name, table in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000, help=f"a multiple of {BATCH}")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--peer", metavar="PORT[:PID]")
    parser.add_argument("--role", choices=["publisher", "subscriber"], help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--qos", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    if arguments.role is not None:
        play(arguments.role, arguments.port, arguments.qos, arguments.count)
        return
    peer = None
    if arguments.peer is not None:
        port, _, pid = arguments.peer.partition(":")
        peer = int(port), int(pid) if pid else None
    table = measure(arguments.count, arguments.runs, peer)
    if arguments.json:
        print(json.dumps(table))
        return
    for name, cases in table.items():
        for case, rates in cases.items():
            rate, cpu = rates["msg_per_s"], rates["cpu_us_per_msg"]
            print(f"{name:6} {case} {rate:8.0f} msg/s, broker {cpu:.1f} us/msg")


if __name__ == "__main__":
    main()
