"""OpenWire over WebSocket between our client and our broker."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import pytest
from websockets.asyncio.client import connect as websocket_client
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin, Subprotocol

from pyjms.aio import ConnectionFactory, JmsTemplate
from pyjms.errors import ConfigurationException, ConnectionFailedException
from pyjms.runtime.distribution import install_command
from pyjms.transport.registry import create_transport
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.tls import CertificateFiles, TlsBroker

Start = Callable[..., AbstractAsyncContextManager[str]]
QUICK = "?transport.connectAttemptTimeout=2000"


async def exchange(url: str, text: str = "hello") -> object:
    template = JmsTemplate(ConnectionFactory(url), receive_timeout=5)
    await template.convert_and_send("orders", text)
    return await template.receive_and_convert("orders")


@pytest.fixture
def ws_broker() -> Start:
    """Starts a broker with one connector; yields `ws://127.0.0.1:port`."""

    @asynccontextmanager
    async def start(options: str = "", scheme: str = "ws", **limits: Any) -> AsyncIterator[str]:
        service = BrokerService("websocket", persistent=False, **limits)
        async with EmbeddedTestBroker(service):
            connector = service.add_connector(f"{scheme}://127.0.0.1:0{options}")
            await connector.start()
            yield connector.connect_uri

    return start


@pytest.mark.parametrize("megabytes", [0, 6])
async def test_messages_travel(ws_broker: Start, megabytes: int) -> None:
    text = "x" * (megabytes * 1024 * 1024)
    async with ws_broker() as url:
        assert url.startswith("ws://")
        assert await exchange(f"{url}/any/path", text) == text


@pytest.mark.parametrize("megabytes", [0, 6])
async def test_messages_travel_encrypted(
    tls_broker: TlsBroker, files: CertificateFiles, megabytes: int
) -> None:
    text = "x" * (megabytes * 1024 * 1024)
    async with tls_broker(scheme="wss") as (_, url):
        mine = url.replace("ssl:", "wss:")
        assert await exchange(f"{mine}/broker?ssl.trustStore={files.trust}", text) == text


async def test_an_unknown_authority_is_refused(
    tls_broker: TlsBroker, files: CertificateFiles
) -> None:
    async with tls_broker(scheme="wss") as (_, url):
        with pytest.raises(ConnectionFailedException, match="not issued by an authority"):
            await exchange(url.replace("ssl:", "wss:"))


async def test_failover_connects_over_it(ws_broker: Start) -> None:
    async with ws_broker() as url:
        assert await exchange(f"failover:({url})?maxReconnectAttempts=1") == "hello"


async def test_a_client_of_tcp_is_refused_at_once(
    ws_broker: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with ws_broker() as url:
        with pytest.raises(ConnectionFailedException):
            await exchange(url.replace("ws:", "tcp:"))
        assert "the client sent something other than an HTTP request" in caplog.text
        assert await exchange(url) == "hello"


async def test_a_port_without_websocket_is_named(ws_broker: Start) -> None:
    async with ws_broker(scheme="tcp") as url:
        with pytest.raises(ConnectionFailedException, match="WebSocket handshake"):
            await exchange(url.replace("tcp:", "ws:"))


async def test_a_client_that_says_nothing_is_ended(ws_broker: Start) -> None:
    async with ws_broker(QUICK) as url:
        host, port = url.removeprefix("ws://").split(":")
        async with await anyio.connect_tcp(host, int(port)) as silent:
            with pytest.raises(anyio.EndOfStream), anyio.fail_after(10):
                await silent.receive()
        assert await exchange(url) == "hello"


@pytest.mark.parametrize(
    "request_text",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\0\0\0\x10\x01ActiveMQ",
        b"x" * 100_000,
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 10_000,
    ],
    ids=["no upgrade", "POST", "OpenWire", "garbage", "headers"],
)
async def test_requests_that_are_none_are_refused(ws_broker: Start, request_text: bytes) -> None:
    async with ws_broker(QUICK) as url:
        host, port = url.removeprefix("ws://").split(":")
        async with await anyio.connect_tcp(host, int(port)) as peer:
            with anyio.fail_after(10):
                try:
                    await peer.send(request_text)
                    while answer := await peer.receive():
                        assert b" 101 " not in answer
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    pass
        assert await exchange(url) == "hello"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(
    ("options", "origin", "accepted"),
    [
        ("", None, True),
        ("", "https://evil.example.com", False),
        ("", "null", False),
        ("?websocket.allowedOrigins=https://shop.example.com/", "https://shop.example.com", True),
        (
            "?websocket.allowedOrigins=https://a.example,https://b.example",
            "https://b.example",
            True,
        ),
        ("?websocket.allowedOrigins=https://a.example", "https://b.example", False),
        ("?websocket.allowedOrigins=*", "https://evil.example.com", True),
        ("", "http://{host}", True),
    ],
)
async def test_pages_connect_only_from_where_it_is_allowed(
    ws_broker: Start, options: str, origin: Origin | None, accepted: bool
) -> None:
    async with ws_broker(options) as url:
        if origin is not None:
            origin = Origin(origin.format(host=url.removeprefix("ws://")))
        connecting = websocket_client(
            url, origin=origin, subprotocols=[Subprotocol("openwire")], proxy=None
        )
        if accepted:
            async with connecting as page:
                assert page.subprotocol == "openwire"
        else:
            with pytest.raises(InvalidStatus) as refused:
                await connecting
            assert refused.value.response.status_code == 403


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(
    ("attributes", "status"), [({}, 403), ({"allow_anonymous_remote": True}, 101)]
)
async def test_a_name_of_the_internet_for_this_machine_is_not_its_own(
    attributes: dict[str, Any], status: int
) -> None:
    """The page evil.example.com, whose name's address has become 127.0.0.1."""
    service = BrokerService("rebound", persistent=False, **attributes)
    service.add_connector("ws://127.0.0.1:0")
    async with service:
        port = service.connectors[0].connect_uri.rpartition(":")[2]
        async with await anyio.connect_tcp("127.0.0.1", int(port)) as stream:
            own = f"evil.example.com:{port}"
            await stream.send(
                f"GET / HTTP/1.1\r\nHost: {own}\r\nOrigin: http://{own}\r\nUpgrade: websocket\r\n"
                "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
                "Sec-WebSocket-Protocol: openwire\r\n\r\n".encode()
            )
            answer = await stream.receive()
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_messages_that_arrive_in_part_count_as_unfinished_frames(ws_broker: Start) -> None:
    """Until one is complete its bytes are kept: they count with the next power of two."""
    begun = b"\x82\xff" + struct.pack(">Q", 1024 * 1024) + bytes(4) + bytes(200_000)
    async with ws_broker("", unfinished_frames_limit=3 * 128 * 1024) as url:

        def connecting() -> websocket_client:
            return websocket_client(url, subprotocols=[Subprotocol("openwire")], proxy=None)

        async with connecting() as first, connecting() as second:
            first.transport.write(begun)
            second.transport.write(begun)
            with anyio.fail_after(5):
                await asyncio.wait(
                    [asyncio.ensure_future(page.wait_closed()) for page in (first, second)],
                    return_when=asyncio.FIRST_COMPLETED,
                )
            states = sorted(page.state.name for page in (first, second))
            assert states == ["CLOSED", "OPEN"], "one of them has room, the other has none"
            for page in (first, second):
                page.transport.abort()
        assert await exchange(url, "x" * (2 * 1024 * 1024)) == "x" * (2 * 1024 * 1024)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("asked", [None, ["mqtts", "amqps"]])
async def test_another_subprotocol_is_refused(
    ws_broker: Start, asked: list[Subprotocol] | None
) -> None:
    async with ws_broker() as url:
        with pytest.raises(InvalidStatus) as refused:
            await websocket_client(url, subprotocols=asked, proxy=None)
        assert refused.value.response.status_code == 400


async def test_bodies_are_not_logged(ws_broker: Start, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with ws_broker() as url:
        assert await exchange(url, "the secret body") == "the secret body"
    assert "secret" not in caplog.text


def test_unknown_options_are_refused() -> None:
    service = BrokerService("websocket", persistent=False)
    with pytest.raises(ConfigurationException, match=r"websocket\.origins"):
        service.add_connector("ws://127.0.0.1:0?websocket.origins=*")
    with pytest.raises(ConfigurationException, match="nonsense"):
        service.add_connector("ws://127.0.0.1:0?nonsense=1")
    with pytest.raises(ConfigurationException, match="nonsense"):
        create_transport("ws://localhost:61614?nonsense=1")


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "websockets.protocol", None)
    with pytest.raises(ConfigurationException, match="websockets") as error:
        create_transport("ws://localhost:61614")
    assert install_command("websocket") in str(error.value)
