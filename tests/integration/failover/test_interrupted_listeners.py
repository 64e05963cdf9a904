"""A listener whose connection is lost, and restored, during its call."""

from __future__ import annotations

from typing import Any, cast

import anyio
import pytest

from pyjms.enums import AcknowledgeMode
from pyjms.jms.message import Message
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.failures.cut_transfers import factory_of
from tests.kit.failures.cutting_proxy import CuttingProxy
from tests.kit.waiting import LONGEST_WAIT, until


@pytest.mark.parametrize("copy", ["during the call", "after the call"])
@pytest.mark.parametrize("end", ["raises", "returns"])
@pytest.mark.parametrize(
    ("mode", "query"),
    [
        (AcknowledgeMode.AUTO, ""),
        (AcknowledgeMode.DUPS_OK, ""),
        (AcknowledgeMode.AUTO, "jms.optimizeAcknowledge=true"),
    ],
)
async def test_an_interrupted_call_is_settled_by_its_end(
    broker: EmbeddedTestBroker,
    proxy: CuttingProxy,
    mode: AcknowledgeMode,
    query: str,
    end: str,
    copy: str,
) -> None:
    seen: list[str] = []
    second = anyio.Event()
    factory = factory_of(proxy, query)
    factory.redelivery_policy.initial_redelivery_delay = 0.0
    with anyio.fail_after(LONGEST_WAIT):
        async with await factory.create_connection() as connection:
            session = await connection.create_session(False, mode)
            queue = session.create_queue("work")
            producer = await session.create_producer(queue)
            for text in ("first", "second"):
                await producer.send(session.create_text_message(text))
            reading = await connection.create_session(False, mode)
            consumer = await reading.create_consumer(queue)

            async def listen(message: Message) -> None:
                text = message.get_body(str)
                seen.append(f"{text}{'*' if message.redelivered else ''}")
                if text == "second":
                    second.set()
                elif len(seen) == 1:
                    connections = proxy.connections
                    await proxy.cut_now()
                    if copy == "during the call":
                        await until(lambda: cast("Any", consumer).ledger._copy is not None)
                    else:
                        await until(lambda: proxy.connections > connections or not proxy.links)
                    if end == "raises":
                        raise ValueError("the listener fails")

            await consumer.set_message_listener(listen)
            await connection.start()
            await second.wait()
            await until(lambda: broker.queue_statistics("work").messages == 0)
    assert seen == ["first", *(["first*"] if end == "raises" else []), "second*"]
    assert await broker.dead_letters() == []
