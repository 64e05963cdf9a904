"""A client that only sends requests over its own queue, and measures each round trip.

python -m tests.kit.soak.clients.canary URL LOG; ends when its standard input has a line or ends.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread

from pyjms.aio import DeliveryMode, Queue
from pyjms.errors import JMSException
from tests.kit.soak.clients.links import Links
from tests.kit.soak.events import EventLog

REQUESTS: Final = Queue("canary.requests")
INTERVAL: Final = 0.1
ASK_AGAIN: Final = 2.0
"""Seconds after which a request, or its answer, counts as lost with a broker, and is repeated."""


class Canary:
    """Asks and answers, over two connections."""

    def __init__(self, url: str, log: Path) -> None:
        self.links = Links(url, EventLog(log))
        self.answered: dict[int, anyio.Event] = {}

    async def run(self) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._persist, "canary-answers", self._answer)
            group.start_soon(self._persist, "canary-requests", self._ask)
            await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
            group.cancel_scope.cancel()

    async def _persist(self, name: str, work: Any) -> None:
        while True:
            try:
                async with self.links.connect(name, direct=False) as link:
                    await work(link.connection)
            except JMSException as error:
                self.links.log.write("failed", name, type(error).__name__)
                await anyio.sleep(0.2)

    async def _answer(self, connection: Any) -> None:
        session = await connection.create_session()
        producer = await session.create_producer(None)
        producer.delivery_mode = DeliveryMode.NON_PERSISTENT
        consumer = await session.create_consumer(REQUESTS)
        await connection.start()
        while True:
            request = await consumer.receive()
            answer = session.create_text_message(request.text)
            await producer.send(answer, destination=request.reply_to, time_to_live=30)

    async def _ask(self, connection: Any) -> None:
        session = await connection.create_session()
        answers = await session.create_temporary_queue()
        consumer = await session.create_consumer(answers)

        async def hear(message: Any) -> None:
            answered = self.answered.pop(int(message.text), None)
            if answered is not None:
                answered.set()

        await consumer.set_message_listener(hear)
        producer = await session.create_producer(REQUESTS)
        producer.delivery_mode = DeliveryMode.NON_PERSISTENT
        await connection.start()
        number = 0
        while True:
            number += 1
            answered = self.answered[number] = anyio.Event()
            began = time.monotonic()
            while not answered.is_set():
                request = session.create_text_message(str(number))
                request.reply_to = answers
                with anyio.move_on_after(ASK_AGAIN):
                    await producer.send(request, time_to_live=30)
                    await answered.wait()
            self.links.log.write("round", f"{time.monotonic() - began:.6f}")
            await anyio.sleep(INTERVAL)


def main() -> None:
    anyio.run(Canary(sys.argv[1], Path(sys.argv[2])).run)


if __name__ == "__main__":
    main()
