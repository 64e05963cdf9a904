"""`jms.maxInflatedDataSizeRatio`: the maximum size of an inflated body."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from pyjms.aio import ConnectionFactory, Queue
from pyjms.errors import ConfigurationException, MessageFormatException
from pyjms_broker.testing import EmbeddedTestBroker

FRAME = 4000
TEXT = "x" * (3 * FRAME)
Q = Queue("compressed")


@pytest.fixture
async def url() -> AsyncIterator[str]:
    async with EmbeddedTestBroker() as broker:
        url = await broker.tcp_url()
        async with await ConnectionFactory(
            url, use_compression=True
        ).create_connection() as connection:
            session = await connection.create_session()
            producer = await session.create_producer(Q)
            message = session.create_bytes_message(TEXT.encode())
            for each in (session.create_text_message(TEXT), message):
                await producer.send(each)
            yield url


def body(message: Any) -> str:
    return str(message.text) if hasattr(message, "text") else message.data.decode()


@pytest.mark.fact("activemq-edges N0")
@pytest.mark.parametrize("form", ["{}", "failover:({})"], ids=["tcp", "failover"])
@pytest.mark.parametrize(
    ("option", "fits"),
    [
        ("", True),
        ("jms.maxInflatedDataSizeRatio=4", True),
        ("jms.maxInflatedDataSizeRatio=2", False),
        ("jms.maxInflatedDataSizeRatio=2&jms.statsEnabled=true", False),
    ],
)
async def test_a_body_may_inflate_to_a_multiple_of_the_largest_frame(
    url: str, form: str, option: str, fits: bool
) -> None:
    limited = form.format(f"{url}?wireFormat.maxFrameSize={FRAME}") + f"?{option}"
    if form == "{}":
        limited = limited.replace(f"{FRAME}?", f"{FRAME}&")
    async with await ConnectionFactory(limited).create_connection() as connection:
        await connection.start()
        session = await connection.create_session()
        seen: list[Any] = [message async for message in await session.create_browser(Q)]
        consumer = await session.create_consumer(Q)
        seen += [await consumer.receive(5) for _ in range(2)]
        await consumer.close()
    assert len(seen) == 4
    for message in seen:
        if fits:
            assert body(message) == TEXT
        else:
            with pytest.raises(MessageFormatException, match="more than 8000 bytes"):
                body(message)
            assert message.destination == Q


async def test_without_a_limit_for_frames_only_the_general_one_applies(url: str) -> None:
    query = f"wireFormat.maxFrameSize={FRAME}&wireFormat.maxFrameSizeEnabled=false"
    factory = ConnectionFactory(f"{url}?{query}", max_inflated_data_size_ratio=1)
    async with await factory.create_connection() as connection:
        await connection.start()
        heard: list[str] = []
        done = anyio.Event()

        def listener(message: Any) -> None:
            heard.append(body(message))
            if len(heard) == 2:
                done.set()

        consumer = await (await connection.create_session()).create_consumer(Q)
        await consumer.set_message_listener(listener)
        with anyio.fail_after(30):
            await done.wait()
    assert heard == [TEXT, TEXT]


@pytest.mark.parametrize("text", ["0", "-1", "much"])
def test_a_ratio_below_one_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationException, match="maxInflatedDataSizeRatio"):
        ConnectionFactory(f"tcp://localhost:1?jms.maxInflatedDataSizeRatio={text}")
