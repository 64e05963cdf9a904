"""What hostile clients cost a broker, and everybody else: the figures of docs/limits.md.

    python -m benchmarks.limits [attack ...] [--list] [--patience SECONDS]

Each attack meets a broker of its own, in its own process, with the default limits except for a
memory limit of 64 MiB. A well-behaved client (the canary), a third process, sends to a queue of
its own and receives, all the time. Columns:

- memory: how much the broker's peak memory grew in the attack;
- loop blocked: the longest time in which its event loop ran nothing else;
- slowest canary: the longest round trip of the well-behaved client;
- clients refused: how often the broker closed or refused a connection of the attacker.

An attack ends when the broker has answered everything, or after the patience (30 s): then the
figures are lower bounds, marked with `>`. Only names that have existed for long are imported, so
the script runs on old commits: PYTHONPATH=<checkout>:<checkout>/broker python -P limits.py.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.wire.openwire.commands import (
    ActiveMQBytesMessage,
    ActiveMQTextMessage,
    Command,
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    ExceptionResponse,
    MessageDispatch,
    MessageId,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    Response,
    SessionId,
    SessionInfo,
)
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms.wire.openwire.primitives import encode_map, encode_text
from pyjms_broker.cli.start import GC_THRESHOLDS
from pyjms_broker.service import BrokerService

PATIENCE: Final = 30.0
TICK: Final = 0.01
MEMORY: Final = 64 << 20
GIANT: Final = 95_000_000
LARGE: Final = 4_000_000


class Refused(Exception):
    """The broker has closed the connection, or refused the command."""


class Peer:
    """One socket to the broker that speaks raw OpenWire. All methods block."""

    _names = iter(range(1, 1 << 62))

    def __init__(self, port: int, deadline: float) -> None:
        self.name = f"peer{os.getpid()}-{next(self._names)}"
        self.deadline = deadline
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.format = OpenWireFormat()
        self.heard: list[Command] = []
        self.producer_id = ProducerId(self.name, 1, 1)
        self._numbers = iter(range(1, 1 << 62))
        self._messages = iter(range(1, 1 << 62))

    def negotiate(self) -> None:
        self.socket.sendall(self.format.encode(self.format.local_info()))
        while self.format.negotiated is None:
            self.read()

    def connect(self) -> Peer:
        """Become a connection with a session and an anonymous producer."""
        self.negotiate()
        self.ask(ConnectionInfo(ConnectionId(self.name), self.name))
        self.send(SessionInfo(SessionId(self.name, 1)), ProducerInfo(self.producer_id))
        return self

    def send(self, *commands: Command) -> None:
        self.send_bytes(b"".join(map(self.format.encode, commands)))

    def send_bytes(self, data: bytes) -> None:
        """Send for as long as there is time and the broker reads."""
        view = memoryview(data)
        while view:
            self.socket.settimeout(max(0.01, self.deadline - time.monotonic()))
            try:
                view = view[self.socket.send(view[: 1 << 20]) :]
            except TimeoutError:
                raise
            except OSError as error:
                raise Refused(str(error)) from error

    def ask(self, command: Command) -> Response:
        """Send a request and wait for its answer."""
        command.command_id = next(self._numbers)
        command.response_required = True
        self.send(command)
        while True:
            for heard in self.heard:
                if isinstance(heard, Response) and heard.correlation_id == command.command_id:
                    self.heard.remove(heard)
                    if isinstance(heard, ExceptionResponse):
                        raise Refused(str(heard.exception))
                    return heard
            self.read()

    def read(self) -> None:
        self.socket.settimeout(max(0.01, self.deadline - time.monotonic()))
        try:
            data = self.socket.recv(1 << 16)
        except TimeoutError:
            raise
        except OSError as error:
            raise Refused(str(error)) from error
        if not data:
            raise Refused("closed")
        self.heard += self.format.receive_data(data)

    def is_closed(self) -> bool:
        """Whether the broker has closed the connection by now."""
        self.socket.settimeout(0)
        try:
            while self.socket.recv(1 << 16):
                pass
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def ends_early(self, size: int) -> bool:
        """Read; return whether the connection ends before so many bytes."""
        self.socket.settimeout(1)
        with suppress(OSError):
            while size > 0 and (data := self.socket.recv(1 << 20)):
                size -= len(data)
        return size > 0

    def message(self, destination: Destination, body: bytes = b"", **fields: Any) -> Command:
        message = ActiveMQTextMessage() if fields.pop("text", False) else ActiveMQBytesMessage()
        message.producer_id = self.producer_id
        message.message_id = MessageId(None, self.producer_id, next(self._messages))
        message.destination = destination
        message.content = body
        for name, value in fields.items():
            setattr(message, name, value)
        return message

    def consume(self, destination: Destination, number: int = 1, **fields: Any) -> None:
        info = ConsumerInfo(ConsumerId(self.name, 1, number), destination=destination)
        info.prefetch_size = 1000
        for name, value in fields.items():
            setattr(info, name, value)
        self.ask(info)

    def dispatched(self, count: int) -> list[Any]:
        """Return the messages that came, at least `count`."""
        while len(found := [c for c in self.heard if isinstance(c, MessageDispatch)]) < count:
            self.read()
        return found


# -- the attacks


class Attack(NamedTuple):
    """What is done, the file handles that the broker may open, and the canary's messages."""

    run: Callable[[Attacker], None]
    handles: int | None = None
    body: int = 2_000


class Attacker:
    """The ports to attack, and what the broker refused."""

    def __init__(self, port: int, stomp_port: int, patience: float) -> None:
        self.port = port
        self.stomp_port = stomp_port
        self.deadline = time.monotonic() + patience
        self.refused = 0
        self.peers: list[Peer] = []

    def peer(self) -> Peer:
        made = Peer(self.port, self.deadline)
        self.peers.append(made)
        return made

    @contextmanager
    def refusable(self) -> Iterator[None]:
        """Count a refusal instead of failing."""
        try:
            yield
        except Refused:
            self.refused += 1


def nothing(_attacker: Attacker) -> None:
    """Wait: what the machine itself delays."""
    time.sleep(5)


def idle_sockets(attacker: Attacker) -> None:
    peers = [attacker.peer() for _ in range(1100)]
    time.sleep(8)  # until all are accepted or refused
    attacker.refused += sum(peer.is_closed() for peer in peers)


def reset_sockets(attacker: Attacker) -> None:
    """Reset 200 sockets at once; then another client connects."""
    made = [socket.create_connection(("127.0.0.1", attacker.port)) for _ in range(200)]
    for each in made:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        each.close()
    attacker.peer().connect()


def advisories(attacker: Attacker) -> None:
    """Advisories of consumers with client ids of 60 KB, for a consumer that never acks."""
    attacker.peer().connect().consume(Topic("ActiveMQ.Advisory.>"), prefetch_size=30_000)
    busy = attacker.peer().connect()
    name = "x" * 60_000
    for number in range(4_000):
        with attacker.refusable():
            busy.consume(Topic(f"T{number % 20}"), number + 1, client_id=name)
            busy.send(RemoveInfo(ConsumerId(busy.name, 1, number + 1)))
        busy.heard.clear()


def range_answers(attacker: Attacker) -> None:
    """3,000 ranges of 1,000 messages of 1 KB each, whose answers nobody receives."""
    client = attacker.peer().connect()
    for _ in range(1000):
        client.send(client.message(Queue("in"), bytes(1024), persistent=True))
    client.consume(Queue("answers"))

    def request(reply_to: Destination, **fields: object) -> Command:
        body = encode_text(json.dumps(fields))
        return client.message(Queue("PyJMS.Ranges"), body, reply_to=reply_to, text=True)

    client.send(request(Queue("answers"), op="lease", queue="in", owner="attacker"))
    (answer, *_) = client.dispatched(1)
    lease = json.loads(answer.message.content[4:])
    fields = {"op": "range", "token": lease["token"], "from": lease["first"], "to": lease["next"]}
    for _ in range(3000):
        client.send(request(Queue("unread"), **fields))
    client.ask(ProducerInfo(ProducerId(client.name, 1, 2)))
    time.sleep(max(0.0, attacker.deadline - time.monotonic() - 1))


def composites(attacker: Attacker) -> None:
    """100 composites of 1,000 names each."""
    client = attacker.peer().connect()
    for number in range(100):
        names = ",".join(f"q{number}.{each}" for each in range(1000))
        with attacker.refusable():
            client.ask(client.message(Queue(names), b"x"))


def giant_properties(attacker: Attacker) -> None:
    """A message with 30 million properties for a consumer with a selector."""
    client = attacker.peer().connect()
    client.consume(Queue("giant"), selector="a = 1")
    entry = b"\0\1x\0"  # the name x, and null
    count = GIANT // len(entry)
    properties = struct.pack(">i", count) + entry * count
    with attacker.refusable():
        client.ask(client.message(Queue("giant"), b"", marshalled_properties=properties))


def unfinished_frames(attacker: Attacker) -> None:
    """20 connections send 95 MB of a frame of 99 MB and stop."""
    data = bytes(1 << 20)
    for _ in range(20):
        client = attacker.peer().connect()
        with attacker.refusable():
            client.send_bytes(struct.pack(">i", GIANT + 4_000_000))
            for _ in range(GIANT // len(data)):
                client.send_bytes(data)


def unread_message(attacker: Attacker) -> None:
    """20 consumers of a topic that do not read, and a message of 30 MB."""
    for _ in range(20):
        attacker.peer().connect().consume(Topic("unread"))
    sender = attacker.peer().connect()
    sender.ask(sender.message(Topic("unread"), bytes(30_000_000)))


def unread_messages(attacker: Attacker) -> None:
    """40 consumers of as many topics that do not read, and a message of 30 MB for each."""
    sender = attacker.peer().connect()
    lazy = []
    for number in range(40):
        lazy.append(attacker.peer().connect())
        lazy[-1].consume(Topic(f"unread{number}"))
        with attacker.refusable():
            sender.ask(sender.message(Topic(f"unread{number}"), bytes(30_000_000)))
    time.sleep(2)
    attacker.refused += sum(each.ends_early(30_000_000) for each in lazy)


def compressed_texts(attacker: Attacker) -> None:
    """A compressed text of 92 KB that inflates to 95 MB, for 20 STOMP subscribers of a topic."""
    subscribers = []
    for _ in range(20):
        client = socket.create_connection(("127.0.0.1", attacker.stomp_port), timeout=PATIENCE)
        subscribers.append(client)
        client.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
        client.recv(1 << 16)
        client.sendall(b"SUBSCRIBE\nid:1\ndestination:/topic/texts\nreceipt:1\n\n\0")
        client.recv(1 << 16)
    text = zlib.compress(struct.pack(">i", GIANT) + b"a" * GIANT, 9)
    sender = attacker.peer().connect()
    sender.ask(sender.message(Topic("texts"), text, text=True, compressed=True))


def selector(text: str, **properties: object) -> Callable[[Attacker], None]:
    def attack(attacker: Attacker) -> None:
        client, sender = attacker.peer().connect(), attacker.peer().connect()
        with attacker.refusable():
            client.consume(Queue("selected"), selector=text)
            sender.ask(
                sender.message(Queue("selected"), b"", marshalled_properties=encode_map(properties))
            )
            sender.ask(ProducerInfo(ProducerId(sender.name, 1, 2)))
        with suppress(TimeoutError):
            client.deadline = time.monotonic() + 0.2
            client.read()

    return attack


def half_tls(attacker: Attacker) -> None:
    """300 clients begin a handshake of TLS and stop."""
    for _ in range(300):
        attacker.peer().send_bytes(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32))
    time.sleep(max(0.0, min(attacker.deadline, time.monotonic() + 3) - time.monotonic()))


ATTACKS: Final = {
    "none": Attack(nothing),
    "1,100 idle sockets, ulimit -n 1024": Attack(idle_sockets, handles=1024, body=400_000),
    "200 sockets reset before they are accepted": Attack(reset_sockets),
    "300 connections with half a TLS handshake": Attack(half_tls),
    "advisories that nobody acknowledges": Attack(advisories),
    "3,000 range answers that nobody receives": Attack(range_answers),
    "100 composites of 1,000 names": Attack(composites),
    "a message with 24 million properties": Attack(giant_properties),
    "20 unfinished frames of 95 MB": Attack(unfinished_frames),
    "a message of 30 MB for 20 that do not read": Attack(unread_message),
    "40 messages of 30 MB for 40 that do not read": Attack(unread_messages),
    "a compressed text of 95 MB for 20 of STOMP": Attack(compressed_texts),
    "REPLACE with a backtracking pattern": Attack(
        selector("REPLACE(s, 'a.*b|a', 'x') = 'y'", s="a" * 5000)
    ),
    "40 backtracking REGEX": Attack(
        selector(" AND ".join(["NOT REGEX('(a|aa|aaa)*b', s)"] * 40), s="a" * 3000)
    ),
    "2,000 INLIST over 20,000 items": Attack(
        selector(" OR ".join(["INLIST(SPLIT(l, ','), 'z')"] * 2000), l=",".join(["item"] * 20_000))
    ),
    "LIKE over 4 MB": Attack(selector(f"s LIKE '%{'a' * 499}b%'", s="a" * LARGE)),
    "96 concatenations of 4 MB": Attack(selector(f"{' + '.join(['s'] * 96)} = 'x'", s="a" * LARGE)),
    "60,000 minus signs": Attack(selector(f"a = {'- ' * 30_000}1", a=1)),
}


# -- the broker, in its process


def serve(directory: str, handles: int) -> None:
    """Run a broker; answer each line of the input with figures since the one before."""
    if handles:
        resource.setrlimit(resource.RLIMIT_NOFILE, (handles, handles))
    gc.freeze()  # as `pyjms broker start` sets it; a full collection would block the loop, too
    gc.set_threshold(*GC_THRESHOLDS)
    anyio.run(_serve, directory)


async def _serve(directory: str) -> None:
    service = BrokerService("attacked", data_directory=directory, memory_limit=MEMORY)
    service.add_connector("tcp://127.0.0.1:0")
    with suppress(JMSException):  # an old commit has no STOMP
        service.add_connector("stomp://127.0.0.1:0")
    await service.start()
    ports = [each.connect_uri.rpartition(":")[2].split("?")[0] for each in service.connectors]
    watched = LoopWatch()
    threading.Thread(target=watched.answer, args=(" ".join(ports),), daemon=True).start()
    await watched.tick()


class LoopWatch:
    """The longest time between two ticks of the loop."""

    def __init__(self) -> None:
        self.last = time.monotonic()
        self.longest = 0.0

    async def tick(self) -> None:
        while True:
            await anyio.sleep(TICK)
            now = time.monotonic()
            self.longest = max(self.longest, now - self.last - TICK)
            self.last = now

    def answer(self, ports: str) -> None:
        """Print the ports, then figures for each line of the input, with which the process ends."""
        print(ports, flush=True)
        for _ in sys.stdin:
            running = time.monotonic() - self.last
            figures = [max(self.longest, running), memory("VmHWM:"), memory("VmRSS:")]
            print(json.dumps(figures), flush=True)
            self.longest = 0.0
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        os._exit(0)


def memory(name: str) -> int:
    """Return the process's memory, or its peak since `clear_refs`, in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 0


# -- the canary, in its process


def sing(port: int, body: int) -> None:
    """Send and receive one message after the other; print the slowest round trip at the end."""
    peer = Peer(port, time.monotonic() + 3600)
    peer.connect()
    queue = Queue("canary")
    peer.consume(queue, prefetch_size=30_000)
    print("ready", flush=True)
    slowest, trips = 0.0, 0
    state = {"begun": time.monotonic(), "ended": False}

    def finish() -> None:
        sys.stdin.read()
        waiting = time.monotonic() - state["begun"]
        print(json.dumps([max(slowest, waiting), trips]), flush=True)
        os._exit(0)

    threading.Thread(target=finish, daemon=True).start()
    with suppress(Refused):
        while True:
            state["begun"] = time.monotonic()
            peer.ask(peer.message(queue, bytes(body), persistent=True))
            peer.dispatched(1)
            peer.heard.clear()
            slowest = max(slowest, time.monotonic() - state["begun"])
            trips += 1
            time.sleep(TICK)
    threading.Event().wait()


# -- the measurement


class Figures(NamedTuple):
    """What one attack cost."""

    memory: float
    blocked: float
    canary: float
    trips: int
    refused: int
    is_bound: bool

    def row(self, name: str) -> str:
        mark = ">" if self.is_bound else ""
        return (
            f"| {name} | {mark}{self.memory:.0f} MB | {mark}{seconds(self.blocked)} "
            f"| {mark}{seconds(self.canary)} | {self.refused} |"
        )


def seconds(value: float) -> str:
    """Return a time in a unit that suits it."""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def _start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", __file__, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def _report(process: subprocess.Popen[str]) -> list[float]:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return json.loads(_line(process) or "[-1, -1, -1]")  # type: ignore[no-any-return]


def measure(attack: Attack, patience: float) -> Figures:
    """Run one attack against a broker of its own."""
    with tempfile.TemporaryDirectory() as directory:
        broker = _start("--serve", directory, str(attack.handles or 0))
        port, stomp_port = [*map(int, _line(broker).split()), 0][:2]
        canary = _start("--canary", str(port), str(attack.body))
        try:
            _line(canary)
            time.sleep(1)
            _, _, before = _report(broker)
            attacker = Attacker(port, stomp_port, patience)
            is_bound = False
            try:
                attack.run(attacker)
            except TimeoutError:
                is_bound = True
            except Refused:
                attacker.refused += 1
            time.sleep(0.5)
            assert canary.stdin is not None
            canary.stdin.close()
            slowest, trips = json.loads(_line(canary))
            blocked, peak, _ = _report(broker)
        finally:
            for process in (canary, broker):
                process.kill()
                process.wait()
        for peer in attacker.peers:
            peer.socket.close()
    return Figures((peak - before) / 1e6, blocked, slowest, int(trips), attacker.refused, is_bound)


def main() -> None:
    """Run the attacks and print a table."""
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], int(sys.argv[3]))
        return
    if sys.argv[1:2] == ["--canary"]:
        sing(int(sys.argv[2]), int(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("attacks", nargs="*", help="parts of their names; default: all")
    parser.add_argument("--patience", type=float, default=PATIENCE)
    parser.add_argument("--list", action="store_true", help="list the attacks")
    options = parser.parse_args()
    if options.list:
        print(*ATTACKS, sep="\n")
        return
    handles = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(handles, 4096), handles))
    print("| attack | memory | loop blocked | slowest canary | clients refused |")
    print("|---|---|---|---|---|", flush=True)
    for name, attack in ATTACKS.items():
        if not options.attacks or any(each in name for each in options.attacks):
            print(measure(attack, options.patience).row(name), flush=True)


if __name__ == "__main__":
    main()
