"""How long one duty holds a broker's event loop with many queues and connections.

    python -m benchmarks.scale [--queues N] [--connections N]

A broker with a KahaDB store runs in a thread of this process; clients are plain sockets. Columns:

- held: the longest processor time of the loop's thread in which it ran nothing else, so that other
  programs of the machine and the clients do not count;
- in all: the processor time of the duty;
- p99: how long a client waits for one in a hundred of its sends, while a broker of 500 queues and
  14,500 messages serves another client. Client and broker share one interpreter.

With 10,000 queues and 2,000 connections no duty is to hold the loop for more than 0.05 s, and a
connection costs at most 3 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import http.client
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from anyio.from_thread import start_blocking_portal

from benchmarks.limits import Peer
from pyjms.jms.destination import Queue, Topic
from pyjms_broker.cli.start import GC_THRESHOLDS
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import load_broker_settings

_BEAT: Final = 0.001
_SEARCHED: Final = Queue("searched")
_SENT: Final = Queue("sent")
_JOLOKIA: Final = "/api/jolokia"
_ADVISORIES: Final = Topic("ActiveMQ.Advisory.TempQueue,ActiveMQ.Advisory.TempTopic")
_CONFIGURATION: Final = """
data_directory: "{}"
connectors: [{{uri: "tcp://127.0.0.1:0"}}]
web: {{port: 0}}
policies: [{{destination: "queue://>", expire_messages_period: {}}}]
"""


class Beat:
    """Measures on a loop how much processor time its thread uses between two timers."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.last = 0.0

    def start(self) -> None:
        self.last = time.thread_time()
        asyncio.get_running_loop().call_later(_BEAT, self._beat)

    def _beat(self) -> None:
        now = time.thread_time()
        self.longest = max(self.longest, now - self.last)
        self.last = now
        asyncio.get_running_loop().call_later(_BEAT, self._beat)


class Scale:
    """A broker of many queues and connections, whose duties are measured one after the other."""

    def __init__(self, folder: Path, queues: int, connections: int, pause: float = 2) -> None:
        self.pause = pause
        self.folder = folder
        self.queues = queues
        self.connections = connections
        self.rows: dict[str, str] = {}
        self.beat = Beat()

    def measure(self) -> dict[str, str]:
        with start_blocking_portal() as self.portal:
            self.portal.call(self.beat.start)
            self._start("start without queues", expiry_scan="0")
            with self._duty(f"{self.queues} new queues", self.queues):
                self._fill()
            self._stop("stop")
            self._start("start", expiry_scan=f"{self.pause}s")
            with self._duty("scan for expired messages"):
                time.sleep(self.pause * 1.5)
            self._stop("stop after the scan")
            self._start("start again", expiry_scan="0")
            self._connect()
            self._manage()
            self._stop("stop at the end")
        return self.rows

    def _start(self, name: str, expiry_scan: str) -> None:
        self.folder.mkdir(exist_ok=True)
        path = self.folder / "broker.yaml"
        path.write_text(_CONFIGURATION.format(self.folder / "data", expiry_scan))
        settings = load_broker_settings(path)
        with self._duty(name):
            self.broker = self.portal.call(BrokerService.from_settings, settings)
            self.portal.call(self.broker.start)

    def _stop(self, name: str) -> None:
        with self._duty(name):
            self.portal.call(self.broker.stop)

    @property
    def _port(self) -> int:
        return int(self.broker.connectors[0].connect_uri.rpartition(":")[2])

    @contextmanager
    def _duty(self, name: str, count: int = 0) -> Iterator[None]:
        before = self.portal.call(self._reset)
        yield
        used = self.portal.call(time.thread_time) - before
        held = self.portal.call(lambda: self.beat.longest)
        each = f", {used / count * 1000:.2f} ms each" if count else ""
        self.rows[name] = f"held {held * 1000:6.1f} ms, in all {used:6.2f} s{each}"
        print(f"  {name:52} {self.rows[name]:>52}", flush=True)

    def _reset(self) -> float:
        self.beat.longest = 0.0
        self.beat.last = time.thread_time()
        return self.beat.last

    def measure_sends(self, messages: int) -> dict[str, str]:
        """Measure how long a client waits for its persistent sends meanwhile."""
        with start_blocking_portal() as self.portal:
            self.portal.call(self.beat.start)
            self._start(f"start for {self.queues} queues", expiry_scan="0")
            self._fill()
            peer = self._peer()
            for _ in range(messages // 500):
                for _ in range(499):
                    peer.send(peer.message(_SEARCHED, b"x", persistent=True))
                peer.ask(peer.message(_SEARCHED, b"x", persistent=True))
            search = "/admin/search?selector=JMSPriority%3D9"
            with self._duty("first search (builds the parser of selectors)"):
                self._get(search)
            self._sends(peer, "sends alone", lambda: time.sleep(0.1))
            self._sends(peer, "sends during list (Jolokia)", lambda: self._get(f"{_JOLOKIA}/list"))
            self._sends(peer, "sends during a search", lambda: self._get(search))
            peer.socket.close()
            self._stop("stop after the sends")
        return self.rows

    def _sends(self, peer: Peer, name: str, work: Callable[[], object]) -> None:
        times: list[float] = []
        self.portal.call(self._reset)
        with ThreadPoolExecutor(1) as pool:
            working = pool.submit(self._repeat, work)
            while not working.done():
                begun = time.perf_counter()
                peer.ask(peer.message(_SENT, b"x", persistent=True))
                times.append(time.perf_counter() - begun)
            working.result()
        held = self.portal.call(lambda: self.beat.longest)
        times.sort()
        slow = times[len(times) * 99 // 100]
        text = f"p99 {slow * 1000:.0f} ms, longest {times[-1] * 1000:.0f} ms of {len(times)} sends"
        self.rows[name] = f"held {held * 1000:6.1f} ms, {text}"
        print(f"  {name:45} {self.rows[name]}", flush=True)

    def _repeat(self, work: Callable[[], object]) -> None:
        end = time.monotonic() + self.pause
        while time.monotonic() < end:
            work()

    def _peer(self) -> Peer:
        return Peer(self._port, time.monotonic() + 600).connect()

    def _fill(self) -> None:
        peer = self._peer()
        for number in range(self.queues):
            message = peer.message(Queue(f"many.{number}"), b"x", persistent=True)
            if number % 500 == 499 or number == self.queues - 1:
                peer.ask(message)
            else:
                peer.send(message)
        peer.socket.close()

    def _connect(self) -> None:
        peers: list[Peer] = []
        part = self.connections // 4
        for number in range(4):
            with self._duty(f"connections {part * number + 1} to {part * (number + 1)}", part):
                peers += [self._open(each) for each in range(part)]
        with self._duty("as many connections die", len(peers)):
            for peer in peers:
                peer.socket.close()
            while len(self.broker.connectors[0].connections):
                time.sleep(0.05)

    def _open(self, number: int) -> Peer:
        peer = self._peer()
        peer.consume(_ADVISORIES, no_local=True, dispatch_async=True)
        peer.consume(Queue(f"many.{number % 50}"), 2)
        return peer

    def _manage(self) -> None:
        duties: dict[str, Callable[[], object]] = {
            "metrics": lambda: self._get("/metrics"),
            "list of queues (Jolokia)": lambda: self._get(
                f"{_JOLOKIA}/read/org.apache.activemq:type=Broker,destinationType=Queue,*/QueueSize"
            ),
            "page of queues": lambda: self._get("/admin/queues"),
        }
        for name, duty in duties.items():
            with self._duty(name):
                duty()

    def _get(self, path: str) -> None:
        url = self.broker.website.url or ""
        with closing(http.client.HTTPConnection(url.rpartition("/")[2], timeout=60)) as client:
            client.request("GET", path)
            answer = client.getresponse()
            body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {body[:200]!r}")


def measure(*, quick: bool, queues: int = 10_000, connections: int = 2000) -> dict[str, str]:
    """Return what each duty costs."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with tempfile.TemporaryDirectory() as folder:
            if quick:
                rows = Scale(Path(folder), 100, 20, pause=0.2).measure()
                sends = Scale(Path(folder) / "sends", 5, 0, pause=0.2)
                return rows | sends.measure_sends(500)
            rows = Scale(Path(folder), queues, connections).measure()
        with tempfile.TemporaryDirectory() as folder:
            return rows | Scale(Path(folder), 500, 0).measure_sends(14_500)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=2000)
    arguments = parser.parse_args()
    measure(quick=False, queues=arguments.queues, connections=arguments.connections)


if __name__ == "__main__":
    main()
