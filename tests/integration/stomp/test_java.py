"""Clients of STOMP and the Java client of ActiveMQ 5.17.2 exchange messages.

(activemq-edges ST5, ST6, ST14)
"""

from __future__ import annotations

import subprocess
from typing import Any

import anyio.to_thread
import pytest

from tests.kit.servers.java_client import Java
from tests.kit.stomp.client import StompBroker

pytestmark = [
    pytest.mark.activemq,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
]


@pytest.fixture
async def java(stomp: StompBroker, jvm: subprocess.Popen[str], java_command: list[str]) -> Java:
    connector = stomp.broker.service.add_connector("tcp://127.0.0.1:0")
    await connector.start()
    return Java(jvm, connector.connect_uri, java_command, ours=True)


async def run(java: Java, *arguments: object) -> Any:
    return await anyio.to_thread.run_sync(lambda: java(*map(str, arguments)))


async def test_java_receives_what_stomp_sends(stomp: StompBroker, java: Java) -> None:
    client = await stomp.client()
    headers = {"destination": "/queue/a", "correlation-id": "c", "type": "t", "priority": "7"}
    await client.done("SEND", {**headers, "persistent": "true", "custom": "5"}, "gr\u00fc\u00df")
    await client.done("SEND", {**headers, "content-length": "3"}, b"a\0b")
    body = '{"map":{"entry":[{"string":["k","v"]},{"string":"n","int":5}]}}'
    await client.done("SEND", {**headers, "transformation": "jms-map-json"}, body)
    received = await run(java, "receive", "a", 3)
    text, data, mapped = received
    assert text["body"] == ["text", "gr\u00fc\u00df"]
    assert (text["correlation"], text["type"], text["priority"]) == ("c", "t", 7)
    assert text["properties"]["custom"] == ["String", "5"]
    assert text["persistent"]
    assert data["body"] == ["bytes", b"a\0b".hex()]
    assert mapped["body"] == ["map", {"k": ["String", "v"], "n": ["Integer", "5"]}]


async def test_stomp_receives_what_java_sends(stomp: StompBroker, java: Java) -> None:
    client = await stomp.client()
    await client.subscribe("/queue/a", transformation="jms-json")
    await run(java, "send-kinds", "a")
    found = {}
    for _ in range(6):
        frame = await client.receive("MESSAGE")
        found[frame.headers["correlation-id"]] = frame
    text = found["c-text"]
    assert text.headers["type"] == "type-text"
    assert text.headers["priority"] == "7"
    assert text.headers["reply-to"] == "/topic/replies"
    assert text.headers["long"] == str(-(2**63))
    assert text.headers["boolean"] == "true"
    assert found["c-bytes"].headers["content-length"] == str(len(found["c-bytes"].body))
    assert found["c-map"].headers["transformation"] == "jms-map-json"
    assert b'"int"' in found["c-map"].body
    assert found["c-stream"].body == b""
    assert found["c-object"].headers["transformation"].startswith("jms-")


async def test_requests_of_stomp_are_answered_by_java(stomp: StompBroker, java: Java) -> None:
    client = await stomp.client()
    await client.subscribe("/temp-queue/answers")
    await anyio.to_thread.run_sync(lambda: java.begin("serve-replies", "a"))
    headers = {"destination": "/queue/a", "reply-to": "/temp-queue/answers", "persistent": "true"}
    await client.done("SEND", headers, "ours")
    assert (await client.receive("MESSAGE")).body == b"re: ours"
    assert await anyio.to_thread.run_sync(java.end) == ["ours"]


async def test_requests_of_java_are_answered_by_stomp(stomp: StompBroker, java: Java) -> None:
    client = await stomp.client()
    await client.subscribe("/queue/a")
    await anyio.to_thread.run_sync(lambda: java.begin("ask", "a", "theirs"))
    question = await client.receive("MESSAGE")
    headers = {
        "destination": question.headers["reply-to"],
        "correlation-id": question.headers["message-id"],
    }
    await client.done("SEND", headers, "answer")
    assert await anyio.to_thread.run_sync(java.end) == ["answer", True]
