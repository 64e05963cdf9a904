"""Brokers that agree on the wire format, and then do not answer."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator

import anyio
import anyio.abc
import pytest
from anyio.abc import SocketStream, TaskStatus

from pyjms.client.factory import ConnectionFactory
from pyjms.errors import RequestTimeoutException
from pyjms.wire.openwire.format import OpenWireFormat

_SIZE = 100_000_000


async def serve(*, task_status: TaskStatus[int]) -> None:
    """Send a wire format, and then a frame of 100 MB of which few bytes ever arrive."""

    async def serve_one(stream: SocketStream) -> None:
        async with stream:
            wire = OpenWireFormat()
            await stream.send(wire.encode(wire.local_info()) + struct.pack(">i", _SIZE))
            async for _ in stream:
                await stream.send(b"x")

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener:
        task_status.started(listener.extra(anyio.abc.SocketAttribute.local_port))
        await listener.serve(serve_one)


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with anyio.create_task_group() as group:
        yield await group.start(serve)
        group.cancel_scope.cancel()


@pytest.mark.fact("activemq-edges N6a")
@pytest.mark.parametrize("url", ["tcp://127.0.0.1:{}?", "failover:(tcp://127.0.0.1:{})?"])
async def test_a_start_does_not_wait_for_a_frame_that_does_not_end(port: int, url: str) -> None:
    url = f"{url.format(port)}jms.connectResponseTimeout=100&jms.closeTimeout=100"
    async with await ConnectionFactory(url).create_connection() as connection:
        with pytest.raises(RequestTimeoutException) as caught:
            await connection.start()
    assert f"within 0.1 s: a frame of {_SIZE} bytes has not arrived whole" in str(caught.value)
