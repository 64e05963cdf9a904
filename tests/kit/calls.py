"""Counts the Python calls of a process: what a message costs, exactly and on any machine.

A process counts, `python -m tests.kit.calls ROLE [URL]`, and is driven by the lines that it reads:

    broker      a broker without a store   a line: print the calls since the last line
    store       a broker with a store      the same
    mqtt        a broker of MQTT clients   the same
    amqp        a broker of AMQP clients   the same
    sender      a client, in bursts        a line: send and receive `MESSAGES`, then print a line
    requester   a client, one in flight    the same, each message when the last one has arrived
    qos 0 to 2  two MQTT clients           the same, the one to the other
    (un)settled two AMQP clients           the same
    template    a client                   a line: send `MESSAGES`, print the calls
    container   a client                   a line: send, handle and commit, print the handling's

Calls of all threads count, resumed coroutines too; compiled code is not seen.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final

from benchmarks import amqp, mqtt
from benchmarks.pairs import PUBLISHER, SUBSCRIBER
from pyjms.aio import (
    CachingConnectionFactory,
    ConnectionFactory,
    DefaultMessageListenerContainer,
    DeliveryMode,
    JmsTemplate,
    Queue,
)
from pyjms_broker.service import BrokerService

__all__ = ["MESSAGES", "CallCounter", "per_message"]

MESSAGES: Final = 200
_WARM: Final = 200
_BURST: Final = 100
_QUEUE: Final = Queue("calls")
_BODY: Final = "x" * 200


class CallCounter:
    """Counts calls from `start` to `stop`, in this thread and in those that start after `watch`."""

    def __init__(self) -> None:
        self.calls = 0
        self.is_counting = False

    def watch(self) -> None:
        """Watch the threads that start from now on, and this one."""
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)

    def take(self) -> int:
        """Return the calls since the last time."""
        calls, self.calls = self.calls, 0
        return calls

    def _on_event(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and self.is_counting:
            self.calls += 1


def per_message(counts: list[int]) -> float:
    """Return the median of the counts of several runs, for each message."""
    return sorted(counts)[len(counts) // 2] / MESSAGES


async def _line() -> bool:
    """Wait for a line of the input; return whether there was one."""
    return bool(await asyncio.to_thread(sys.stdin.readline))


async def _broker(counter: CallCounter, folder: str | None, url: str = "tcp://127.0.0.1:0") -> None:
    counter.watch()
    counter.is_counting = True
    service = (
        BrokerService("calls", persistent=False)
        if folder is None
        else BrokerService("calls", data_directory=Path(folder))
    )
    connector = service.add_connector(url)
    async with service:
        print(connector.connect_uri.split("?")[0], flush=True)
        while await _line():
            print(counter.take(), flush=True)


@asynccontextmanager
async def _exchange(
    url: str, *, persistent: bool
) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
    """Yield a function that sends as many messages and receives them."""
    is_async = "false" if persistent else "true"
    async with await ConnectionFactory(
        f"{url}?jms.useAsyncSend={is_async}"
    ).create_connection() as connection:
        await connection.start()
        session = await connection.create_session()
        consumer = await (await connection.create_session()).create_consumer(_QUEUE)
        producer = await session.create_producer(_QUEUE)
        producer.delivery_mode = (
            DeliveryMode.PERSISTENT if persistent else DeliveryMode.NON_PERSISTENT
        )

        async def send_and_receive(count: int) -> None:
            for _ in range(count):
                await producer.send(session.create_text_message(_BODY))
            for _ in range(count):
                assert await consumer.receive(10) is not None

        yield send_and_receive


async def _client(url: str, burst: int, *, persistent: bool) -> None:
    async with _exchange(url, persistent=persistent) as send_and_receive:
        messages = _WARM
        while True:
            for _ in range(messages // burst):
                await send_and_receive(burst)
            print("done", flush=True)
            if not await _line():
                return
            messages = MESSAGES


async def _mqtt_clients(url: str, qos: int) -> None:
    await _pair(url, mqtt.CASES[qos], mqtt.open_client)


async def _amqp_clients(url: str, case: str) -> None:
    await _pair(url, case, amqp.open_client)


async def _pair(
    url: str, case: str, connect: Callable[[str, int, str], Callable[[int], None]]
) -> None:
    port = int(url.rpartition(":")[2])
    receive, send = (connect(role, port, case) for role in (SUBSCRIBER, PUBLISHER))
    messages = _WARM
    while True:
        receiving = asyncio.create_task(asyncio.to_thread(receive, messages))
        await asyncio.to_thread(send, messages)
        await receiving
        print("done", flush=True)
        if not await _line():
            return
        messages = MESSAGES


def _template(url: str) -> JmsTemplate:
    template = JmsTemplate(CachingConnectionFactory(ConnectionFactory(url)))
    template.delivery_persistent = False
    template.explicit_qos_enabled = True
    return template


async def _send(url: str, counter: CallCounter) -> None:
    template = _template(url)
    counter.watch()
    messages = _WARM
    while True:
        counter.is_counting = True
        for _ in range(messages):
            await template.convert_and_send("calls", _BODY)
        counter.is_counting = False
        print(counter.take(), flush=True)
        if not await _line():
            return
        messages = MESSAGES


async def _handle(url: str, counter: CallCounter) -> None:
    template = _template(url)
    counter.watch()
    handled = asyncio.Event()
    left = 0

    async def handle(message: object) -> None:
        nonlocal left
        left -= 1
        if left == MESSAGES:
            counter.is_counting = True
        elif left == 0:
            counter.is_counting = False
            handled.set()

    container = DefaultMessageListenerContainer(
        connection_factory=template.connection_factory,
        destination_name="calls",
        message_listener=handle,
        session_transacted=True,
    )
    while True:
        left = _WARM + MESSAGES
        for _ in range(left):
            await template.convert_and_send("calls", _BODY)
        await container.start()
        await handled.wait()
        await container.stop()
        handled.clear()
        print(counter.take(), flush=True)
        if not await _line():
            return


def main(role: str, url: str = "") -> None:
    """Run a role until its input ends."""
    counter = CallCounter()
    with tempfile.TemporaryDirectory() as folder:
        roles: dict[str, Callable[[], Awaitable[None]]] = {
            "broker": lambda: _broker(counter, None),
            "store": lambda: _broker(counter, folder),
            "mqtt": lambda: _broker(counter, None, "mqtt://127.0.0.1:0"),
            "amqp": lambda: _broker(counter, None, amqp.URL),
            "burst": lambda: _client(url, _BURST, persistent=False),
            "one in flight": lambda: _client(url, 1, persistent=False),
            "persistent": lambda: _client(url, 1, persistent=True),
            **{f"qos {qos}": partial(_mqtt_clients, url, qos) for qos in range(3)},
            **{case: partial(_amqp_clients, url, case) for case in amqp.CASES},
            "template": lambda: _send(url, counter),
            "container": lambda: _handle(url, counter),
        }

        async def run() -> None:
            await roles[role]()

        asyncio.run(run())


if __name__ == "__main__":
    main(*sys.argv[1:])
