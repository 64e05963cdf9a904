"""Background work that fails in an unexpected way fails its connection, loudly."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from pyjms.enums import AcknowledgeMode
from pyjms.errors import ConnectionFailedException, JMSException
from pyjms.jms.message import Message
from pyjms.listener.simple_container import SimpleMessageListenerContainer
from tests.kit.clients.embedded import Client


class FailingHandler(logging.Handler):
    """A logging handler that, once armed, raises the given exception."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def emit(self, record: logging.LogRecord) -> None:
        if self.text in record.getMessage():
            raise OSError("no space left for the log")


@pytest.fixture
def failing_log() -> Any:
    handler = FailingHandler("the listener failed on")
    target = logging.getLogger("pyjms.client.consumer")
    target.addHandler(handler)
    yield handler
    target.removeHandler(handler)


async def test_a_dispatcher_that_cannot_continue_fails_its_connection(
    client: Client, failing_log: Any
) -> None:
    connection = await client.connect()
    reported: list[JMSException] = []
    failed = anyio.Event()

    def on_exception(error: JMSException) -> None:
        reported.append(error)
        failed.set()

    connection.exception_listener = on_exception
    listening = await connection.create_session()
    consumer = await listening.create_consumer(client.destination("work"))
    waiting = await connection.create_session()
    other = await waiting.create_consumer(client.destination("other"))

    def fail(message: Message) -> None:
        raise ValueError("the handler's own")

    await consumer.set_message_listener(fail)
    await client.send("work", "a")
    with pytest.raises(ConnectionFailedException, match="no space left for the log"):
        await other.receive()
    await failed.wait()
    assert len(reported) == 1
    assert str(consumer.consumer_id) in str(reported[0])
    assert isinstance(reported[0].linked_exception, OSError)
    with pytest.raises(ConnectionFailedException):
        await connection.create_session()
    taken = await client.take("work")  # the transport is closed: the broker has redelivered it
    assert [client.delivery(message) for message in taken] == ["a#2*"]


async def test_a_background_task_of_a_session_that_fails_fails_its_connection(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = await client.connect()
    reported: list[JMSException] = []
    failed = anyio.Event()

    def on_exception(error: JMSException) -> None:
        reported.append(error)
        failed.set()

    connection.exception_listener = on_exception
    session = await connection.create_session(False, AcknowledgeMode.AUTO)

    async def break_down() -> None:
        raise ValueError("a bug")

    session.tasks.spawn(break_down)
    await failed.wait()
    assert "break_down failed: ValueError('a bug')" in str(reported[0])
    assert isinstance(reported[0].linked_exception, ValueError)
    with pytest.raises(ConnectionFailedException):
        await connection.start()


async def test_a_container_recovers_with_a_new_connection(client: Client, failing_log: Any) -> None:
    handled: list[str] = []
    reported: list[Exception] = []
    attempts = 0
    done = anyio.Event()

    async def handle(message: Message) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise ValueError("fails once, and its log line as well")
        handled.append(str(client.delivery(message)))
        done.set()

    def error_handler(error: Exception) -> None:
        raise OSError("no space left for the report")

    container = SimpleMessageListenerContainer(
        client.factory(),
        destination_name="work",
        message_listener=handle,
        error_handler=error_handler,
        exception_listener=reported.append,
    )
    await container.start()
    try:
        await client.send("work", "a")
        await done.wait()
    finally:
        await container.stop()
    assert handled == ["a#2*"]
    assert "no space left for the log" in str(reported[0])
