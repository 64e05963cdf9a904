"""Processor time of a broker per message with users and rights, and without, in alternating rounds.

    python -m benchmarks.security [--rounds 7] [--messages 20000]

S1: non-persistent asynchronous sends to one consumer. S2: persistent synchronous sends.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio

from pyjms.client.factory import ConnectionFactory
from pyjms.enums import DeliveryMode
from pyjms.jms.destination import Queue

SECURITY = """
plugins:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--messages", type=int, default=20_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        brokers = [Broker("open", Path(folder), ""), Broker("secured", Path(folder), SECURITY)]
        for scenario in (s1, s2):
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
        for broker in brokers:
            broker.process.terminate()
            broker.process.wait()


if __name__ == "__main__":
    main()
