"""Blob messages, the API of one domain and connection consumers: ours as the Java client's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from pyjms.aio import ConnectionFactory, JMSException, Message, Queue, Session, TextMessage, Topic
from pyjms.connection import SimpleServerSessionPool
from pyjms.jms.blob import BlobMessage
from tests.kit.servers.java_client import Java

pytestmark = pytest.mark.activemq

TEXT = "grüß dich " * 100


def _upload_to(folder: Path) -> str:
    return f"jms.blobTransferPolicy.uploadUrl=file:{folder}/"


async def test_java_reads_the_body_of_our_blob_message(
    java: Java, name: str, tmp_path: Path
) -> None:
    source = tmp_path / "source.bin"
    source.write_text(TEXT, encoding="utf-8")
    uploads = tmp_path / "uploads"
    uploads.mkdir()
    factory = ConnectionFactory(f"{java.url}?{_upload_to(uploads)}")
    async with await factory.create_connection() as connection:
        session = await connection.create_session()
        message = session.create_blob_message(file=source)
        message.properties["kind"] = "blob"
        await (await session.create_producer(Queue(name))).send(message)
    url, mime_type, deleted_by_broker, kind, body = java(
        "receive-blob", name, options=_upload_to(uploads)
    )
    assert url.removeprefix("file:").lstrip("/") == str(message.url)[len("file:") :].lstrip("/")
    assert (mime_type, deleted_by_broker) == (message.mime_type, True)
    assert (kind, body) == ("blob", TEXT)


async def test_we_read_the_body_of_a_blob_message_of_java(
    java: Java, name: str, tmp_path: Path
) -> None:
    java("send-blob", name, TEXT, options=_upload_to(tmp_path))
    factory = ConnectionFactory(f"{java.url}?{_upload_to(tmp_path)}")
    async with await factory.create_connection() as connection:
        await connection.start()
        session = await connection.create_session()
        message = await (await session.create_consumer(Queue(name))).receive(5.0)
        assert isinstance(message, BlobMessage)
        (stored,) = [path async for path in anyio.Path(tmp_path).iterdir()]
        assert message.url == f"file:{stored}"
        assert message.deleted_by_broker
        assert message.properties["kind"] == "blob"
        stream: Any = await message.get_input_stream_async()
        async with stream:
            assert (await stream.read()).decode() == TEXT


async def _outcome(result: Any) -> str:
    try:
        found = result()
        if isinstance(found, Awaitable):
            found = await found
    except JMSException as error:
        return type(error).__name__
    return str(found).rpartition("://")[0] if found is not None else "null"


async def _domains(url: str, name: str) -> list[str | None]:
    """Do what the scenario `domains` of the Java program does."""
    factory = ConnectionFactory(url)
    queue, topic = Queue(name), Topic(name)
    found: list[str | None] = []

    def text(message: Message | None) -> str | None:
        assert message is None or isinstance(message, TextMessage)
        return None if message is None else message.text

    async with (
        await factory.create_queue_connection() as queues,
        await factory.create_topic_connection() as topics,
    ):
        await queues.start()
        await topics.start()
        session = await queues.create_queue_session()
        await (await session.create_sender(queue)).send(session.create_text_message("q"))
        found.append(text(await (await session.create_receiver(queue)).receive(5.0)))
        for call in (
            lambda: session.create_topic(name),
            session.create_temporary_topic,
            lambda: session.create_durable_subscriber(topic, "s"),
            lambda: session.create_producer(topic),
            lambda: session.create_consumer(topic),
            lambda: session.unsubscribe("s"),
        ):
            found.append(await _outcome(call))
        other = await topics.create_topic_session()
        subscriber = await other.create_subscriber(topic)
        others = await other.create_subscriber(topic, None, no_local=True)
        await (await other.create_publisher(topic)).publish(other.create_text_message("t"))
        found.append(text(await subscriber.receive(5.0)))
        found.append(text(await others.receive(0.3)))
        found.append(str(others.no_local).lower())
        of_queues: tuple[Callable[[], Any], ...] = (
            lambda: other.create_queue(name),
            other.create_temporary_queue,
            lambda: other.create_browser(queue),
            lambda: other.create_producer(queue),
            lambda: other.create_consumer(queue),
        )
        for of_queue in of_queues:
            found.append(await _outcome(of_queue))
    return found


@pytest.mark.fact("jms-api 2.17")
async def test_the_api_of_one_domain(java: Java, name: str) -> None:
    of_java = await anyio.to_thread.run_sync(java, "domains", f"{name}-java")
    assert await _domains(java.url, name) == of_java


@pytest.mark.fact("activemq-edges N18")
async def test_connection_consumers_with_a_pool_of_two_sessions(java: Java, name: str) -> None:
    of_java = await anyio.to_thread.run_sync(java, "connection-consumer", f"{name}-java", 10, 3)
    texts: list[str] = []
    done = anyio.Event()

    def listener_of(_: Session) -> Any:
        def listen(message: Message) -> None:
            assert isinstance(message, TextMessage)
            texts.append(str(message.text))
            if len(texts) == 10:
                done.set()

        return listen

    async with await ConnectionFactory(java.url).create_connection() as connection:
        await connection.start()
        session = await connection.create_session()
        producer = await session.create_producer(Queue(name))
        for number in range(10):
            await producer.send(session.create_text_message(str(number)))
        async with SimpleServerSessionPool(connection, listener_of, size=2) as pool:
            consumer = await connection.create_connection_consumer(Queue(name), None, pool, 3)
            with anyio.fail_after(10):
                await done.wait()
            await consumer.close()
        browser = await session.create_browser(Queue(name))
        left = [message async for message in browser]
    assert {"texts": sorted(texts), "left": left} == {
        "texts": of_java["texts"],
        "left": of_java["left"],
    }
    assert of_java["largest"] <= 3
