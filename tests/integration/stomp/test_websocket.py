"""STOMP over WebSocket, with the package `websockets` as the client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as websocket_client
from websockets.exceptions import ConnectionClosedError
from websockets.frames import CloseCode
from websockets.typing import Subprotocol

from pyjms.aio import ConnectionFactory, JmsTemplate
from pyjms.errors import ConfigurationException
from pyjms.wire.stomp import Frame, StompFormat
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])
Start = Callable[..., AbstractAsyncContextManager[str]]
CONNECT = "CONNECT\naccept-version:1.2\nhost:h\n\n\0"
SUBSCRIBE = "SUBSCRIBE\nid:s\ndestination:/queue/orders\nreceipt:1\n\n\0"


@pytest.fixture
def ws() -> Start:
    """Starts a broker with one connector `ws`; yields its URL."""

    @asynccontextmanager
    async def start(options: str = "", **settings: Any) -> AsyncIterator[str]:
        service = BrokerService("websocket", persistent=False, **settings)
        async with EmbeddedTestBroker(service):
            connector = service.add_connector(f"ws://127.0.0.1:0{options}")
            await connector.start()
            yield connector.connect_uri

    return start


def client_of(url: str, subprotocol: str = "v12.stomp") -> websocket_client:
    return websocket_client(url, subprotocols=[Subprotocol(subprotocol)], max_size=None)


async def frames_of(socket: ClientConnection, count: int) -> tuple[list[Frame], list[type]]:
    """Return so many frames, and the types of the messages in which they came."""
    codec = StompFormat(version="1.2")
    frames: list[Frame] = []
    kinds: list[type] = []
    async with asyncio.timeout(20):
        while len(frames) < count:
            data = await socket.recv()
            kinds.append(type(data))
            frames += codec.receive_data(data.encode() if isinstance(data, str) else data)
    return frames, kinds


@pytest.mark.parametrize("subprotocol", ["v12.stomp", "v11.stomp", "v10.stomp", "stomp"])
async def test_texts_travel(ws: Start, subprotocol: str) -> None:
    async with ws() as url, client_of(url, subprotocol) as socket:
        assert socket.subprotocol == subprotocol
        await socket.send(CONNECT)
        await socket.send(SUBSCRIBE)
        await frames_of(socket, 2)
        template = JmsTemplate(ConnectionFactory(url), receive_timeout=5)
        await template.convert_and_send("orders", "Gr\u00fc\u00dfe")  # OpenWire at the same port
        (message,), kinds = await frames_of(socket, 1)
        assert message.body.decode() == "Gr\u00fc\u00dfe"
        assert kinds == [str]
        await socket.send("SEND\ndestination:/queue/back\n\n\u00dcber\0")
        assert await template.receive_and_convert("back") == "\u00dcber"


async def test_bytes_travel_in_binary_messages(ws: Start) -> None:
    async with ws() as url, client_of(url) as socket:
        await socket.send(CONNECT.encode())
        await socket.send(SUBSCRIBE.encode())
        await frames_of(socket, 2)
        data = b"\xff\0\xfe" * 200_000
        head = f"SEND\ndestination:/queue/orders\ncontent-length:{len(data)}\n\n".encode()
        await socket.send([head, data[:100], data[100:], b"\0"])  # one message, fragmented
        (message,), kinds = await frames_of(socket, 1)
        assert message.body == data
        assert set(kinds) == {bytes}


async def test_a_frame_in_several_messages_and_several_in_one(ws: Start) -> None:
    async with ws() as url, client_of(url) as socket:
        for character in CONNECT:
            await socket.send(character)
        await socket.send(f"\n\n{SUBSCRIBE}SEND\ndestination:/queue/orders\n\nx\0\n")
        frames, _ = await frames_of(socket, 3)
        assert [frame.command for frame in frames] == ["CONNECTED", "RECEIPT", "MESSAGE"]


async def test_long_texts_are_cut_between_characters(ws: Start) -> None:
    text = "\u20ac" * 400_000
    async with ws() as url, client_of(url) as socket:
        await socket.send(CONNECT)
        await socket.send(SUBSCRIBE)
        await frames_of(socket, 2)
        template = JmsTemplate(ConnectionFactory(url))
        await template.convert_and_send("orders", text)
        (message,), kinds = await frames_of(socket, 1)
        assert message.body.decode() == text
        assert set(kinds) == {str}
        assert len(kinds) > 1


async def test_heart_beats(ws: Start) -> None:
    async with ws() as url, client_of(url) as socket:
        await socket.send("CONNECT\naccept-version:1.2\nheart-beat:0,50\n\n\0")
        await frames_of(socket, 1)
        async with asyncio.timeout(20):
            assert await socket.recv() == "\n"


async def test_frames_have_a_limit(ws: Start) -> None:
    async with ws("?wireFormat.maxFrameSize=1000") as url, client_of(url) as socket:
        await socket.send(CONNECT)
        await frames_of(socket, 1)
        await socket.send(f"SEND\ndestination:/queue/orders\n\n{'x' * 2000}\0")
        (error,), _ = await frames_of(socket, 1)
        assert "maximum" in error.headers["message"]


@pytest.mark.parametrize("kind", ["Text", "Binary"])
async def test_messages_have_limits_of_their_own(ws: Start, kind: str) -> None:
    frame = f"SEND\ndestination:/queue/orders\n\n{'x' * 2_000_000}\0"
    data: dict[str, str | bytes] = {"Text": frame, "Binary": frame.encode()}
    other = "Binary" if kind == "Text" else "Text"
    async with ws(f"?websocket.max{kind}MessageSize=3000000") as url:
        async with client_of(url) as socket:
            await socket.send(CONNECT)
            await socket.send(SUBSCRIBE)
            await frames_of(socket, 2)
            await socket.send(data[kind])
            (message,), _ = await frames_of(socket, 1)
            assert len(message.body) == 2_000_000
        async with client_of(url) as socket:
            await socket.send(CONNECT)
            await frames_of(socket, 1)
            await socket.send(data[other])
            with pytest.raises(ConnectionClosedError) as caught:
                await socket.recv()
            assert caught.value.rcvd is not None
            assert caught.value.rcvd.code == CloseCode.MESSAGE_TOO_BIG


@pytest.mark.parametrize("option", ["maxTextMessageSize=0", "maxMessageSize=5"])
async def test_wrong_options_are_refused(ws: Start, option: str) -> None:
    with pytest.raises(ConfigurationException, match=option.partition("=")[0]):
        async with ws(f"?websocket.{option}"):
            pass


async def test_clients_that_do_not_connect_are_disconnected(ws: Start) -> None:
    async with (
        ws("?transport.connectAttemptTimeout=100") as url,
        client_of(url) as socket,
    ):
        async with asyncio.timeout(20):
            await socket.wait_closed()
