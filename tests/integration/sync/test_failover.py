"""The blocking API over `failover:`."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from pyjms import ConnectionFactory, JmsTemplate
from pyjms_broker.service import BrokerService
from tests.kit.waiting import LONGEST_WAIT


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Listener:
    """Records interruptions."""

    def __init__(self) -> None:
        self.interrupted = threading.Event()
        self.resumed = threading.Event()

    def transport_interrupted(self, error: Exception) -> None:
        self.interrupted.set()

    def transport_resumed(self) -> None:
        self.resumed.set()


async def run_with_brokers(work: Any) -> None:
    """Run `work` in a thread; it gets the URL and functions that start and stop the broker."""

    broker = BrokerService("blocking", persistent=False)
    await broker.add_connector("tcp://127.0.0.1:0", name="openwire").start()
    url = broker.connect_uri
    await broker.start()
    replaced: list[BrokerService] = []

    async def replace() -> None:
        await broker.stop()
        again = BrokerService("blocking", persistent=False)
        await again.add_connector(url, name="openwire").start()
        await again.start()
        replaced.append(again)

    try:
        await anyio.to_thread.run_sync(work, url, lambda: anyio.from_thread.run(replace))
    finally:
        for service in [broker, *replaced]:
            await service.stop()


async def test_a_thread_continues_with_the_next_broker() -> None:
    def work(url: str, replace: Any) -> None:
        factory = ConnectionFactory(f"failover:({url})?initialReconnectDelay=5")
        listener, of_the_factory = Listener(), Listener()
        factory.transport_listener = of_the_factory
        with factory.create_connection() as connection:
            connection.add_transport_listener(listener)
            session = connection.create_session()
            producer = session.create_producer(session.create_queue("q"))
            replace()
            producer.send(session.create_text_message("after"))
            assert listener.interrupted.wait(LONGEST_WAIT)
            assert listener.resumed.wait(LONGEST_WAIT)
            assert of_the_factory.interrupted.is_set()
            assert of_the_factory.resumed.wait(LONGEST_WAIT)
            connection.remove_transport_listener(listener)
        template = JmsTemplate(factory)
        template.receive_timeout = LONGEST_WAIT
        assert template.receive_and_convert("q") == "after"

    await run_with_brokers(work)
