"""Processor time of a broker per message, in alternating rounds: bare, and as operators run it.

    python -m benchmarks.security [--rounds 7] [--messages 20000]

As operators run it: with users, rights, the statistics plug-in, and a web server whose /metrics is
read every 5 s. S1: non-persistent asynchronous sends to one consumer. S2: persistent synchronous
sends. S4: persistent, producer and consumer commit every 100.
"""

from __future__ import annotations

import argparse
import base64
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import urllib.request
from pathlib import Path

import anyio

from pyjms.client.factory import ConnectionFactory
from pyjms.enums import DeliveryMode
from pyjms.jms.destination import Queue

SECURITY = """
web: {port: PORT, reader_groups: [users]}
plugins:
  statistics: {}
  simple_authentication:
    users:
      - {username: bench, password: secret, groups: users}
      - {username: system, password: secret, groups: admins}
  authorization:
    entries:
      - {destination: ">", read: admins, write: admins, admin: admins}
      - {destination: "topic://>", read: admins, write: admins, admin: admins}
      - {destination: "bench.>", read: users, write: users, admin: users}
      - {destination: "orders.>", read: shop, write: shop, admin: shop}
      - {destination: "topic://ActiveMQ.Advisory.>", read: "*", write: "*", admin: "*"}
"""


class Broker:
    """A broker process."""

    def __init__(self, name: str, folder: Path, plugins: str) -> None:
        config = folder / f"{name}.yaml"
        config.write_text(
            f"broker_name: {name}\nconnectors: [{{uri: 'tcp://127.0.0.1:0'}}]\n{plugins}"
        )
        command = [sys.executable, "-m", "pyjms_broker", "start"]
        self.process = subprocess.Popen(
            [*command, "--config", str(config), "--data", str(folder / name)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        line = next(line for line in self.process.stdout if "tcp://" in line)
        self.url = "tcp://" + line.rpartition("tcp://")[2].strip()

    def seconds(self) -> float:
        """Return the processor time that it has taken."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100


async def s1(url: str, count: int) -> None:
    factory = ConnectionFactory(f"{url}?jms.useAsyncSend=true", user="bench", password="secret")
    async with (
        await factory.create_connection() as sending,
        await factory.create_connection() as receiving,
    ):
        await receiving.start()
        consumer = await (await receiving.create_session()).create_consumer(Queue("bench.s1"))

        async def send() -> None:
            session = await sending.create_session()
            producer = await session.create_producer(Queue("bench.s1"))
            for _ in range(count):
                await producer.send(
                    session.create_text_message("x" * 1024),
                    delivery_mode=DeliveryMode.NON_PERSISTENT,
                )

        async with anyio.create_task_group() as group:
            group.start_soon(send)
            for _ in range(count):
                assert await consumer.receive(30) is not None


async def s2(url: str, count: int) -> None:
    factory = ConnectionFactory(url, user="bench", password="secret")
    async with await factory.create_connection() as connection:
        await connection.start()
        session = await connection.create_session()
        producer = await session.create_producer(Queue("bench.s2"))
        for _ in range(count // 10):
            await producer.send(session.create_text_message("x" * 1024))
        consumer = await session.create_consumer(Queue("bench.s2"))
        for _ in range(count // 10):
            assert await consumer.receive(30) is not None


async def s4(url: str, count: int) -> None:
    factory = ConnectionFactory(url, user="bench", password="secret")
    async with await factory.create_connection() as connection:
        await connection.start()
        sending, receiving = [await connection.create_session(transacted=True) for _ in range(2)]
        producer = await sending.create_producer(Queue("bench.s4"))
        consumer = await receiving.create_consumer(Queue("bench.s4"))
        for _ in range(max(1, count // 400)):
            for _ in range(100):
                await producer.send(sending.create_text_message("x" * 1024))
            await sending.commit()
            for _ in range(100):
                assert await consumer.receive(30) is not None
            await receiving.commit()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def read_metrics(port: int, ended: threading.Event) -> None:
    """Read /metrics every 5 s, more often than Prometheus does, until the end."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics")
    login = base64.b64encode(b"bench:secret").decode()
    request.add_header("Authorization", f"Basic {login}")
    while not ended.wait(5):
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert b"pyjms_broker_messages" in answer.read()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--messages", type=int, default=20_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        port, ended = free_port(), threading.Event()
        secured = SECURITY.replace("PORT", str(port))
        brokers = [Broker("open", Path(folder), ""), Broker("secured", Path(folder), secured)]
        reader = threading.Thread(target=read_metrics, args=(port, ended))
        reader.start()
        for scenario in (s1, s2, s4):
            spent: list[list[float]] = [[], []]
            for number in range(given.rounds + 1):
                order = (0, 1) if number % 2 else (1, 0)
                for index in order:
                    before = brokers[index].seconds()
                    anyio.run(scenario, brokers[index].url, given.messages)
                    if number:  # the first round warms up
                        spent[index].append(brokers[index].seconds() - before)
            middle = [statistics.median(each) for each in spent]
            for name, found, each in zip(("open", "secured"), middle, spent, strict=True):
                print(
                    f"{scenario.__name__} {name}: {found:.2f} s ({min(each):.2f}-{max(each):.2f})"
                )
            print(f"{scenario.__name__}: {(middle[1] / middle[0] - 1) * 100:+.1f} %", flush=True)
        ended.set()
        reader.join()
        for broker in brokers:
            broker.process.terminate()
            broker.process.wait()


if __name__ == "__main__":
    main()
