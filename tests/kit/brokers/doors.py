"""The doors of one secured broker: a client of each protocol that sends to and consumes names.

An attempt's outcome is one of `ALLOWED`, `REFUSED` (for want of a right), `NO_LOGIN`, `NO_NAME` (the
protocol cannot name that) and `OTHER` (an error that has nothing to do with rights).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import httpx
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from pyjms.errors import JMSException, JMSSecurityException
from pyjms.jms.destination import Destination, Queue, parse_destination
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import BrokerInfo, ConnectionInfo, SessionInfo
from pyjms.wire.stomp import Frame, StompFormat
from tests.kit.clients.raw import RawClient
from tests.kit.stomp.client import StompClient

ALLOWED, REFUSED, NO_LOGIN, NO_NAME, OTHER = "allowed", "refused", "no login", "no name", "other"
SEND, CONSUME, BROWSE = "send", "consume", "browse"
REPLY_TO = Queue("pub.answers")
Attempt = Callable[[str, str], Awaitable[str]]
"""Does something (`SEND` ...) with a name such as `topic://news`, and returns the outcome."""
Door = Callable[[str, str | None], AbstractAsyncContextManager[Attempt]]
"""Opens a client of an address as a user; None: without a login."""
STOMP_PREFIXES = {
    "queue://": "/queue/",
    "topic://": "/topic/",
    "temp-queue://": "/remote-temp-queue/",
    "temp-topic://": "/remote-temp-topic/",
}


# OpenWire, over TCP and WebSocket
@asynccontextmanager
async def openwire(
    url: str, user: str | None, *, as_bridge: bool = False
) -> AsyncIterator[Attempt]:
    client = RawClient(create_transport(url))
    await client.transport.start()
    if as_bridge:
        client.send_command(BrokerInfo(broker_name="x", network_connection=True))
    if user is not None:
        await client.request(ConnectionInfo(client.connection_id, client.name, "secret", user))
        client.send_command(SessionInfo(client.session_id))

    async def attempt(action: str, name: str) -> str:
        destination = parse_destination(name)
        try:
            if action == SEND:
                await _send(client, destination)
            else:
                await client.remove(await client.consumer(destination, browser=action == BROWSE))
        except JMSSecurityException:
            return REFUSED
        except JMSException as error:
            return NO_LOGIN if "had not been registered" in error.reason else OTHER
        return ALLOWED

    try:
        yield attempt
    finally:
        await client.cut()


async def _send(client: RawClient, destination: Destination) -> None:
    message = client.text(await client.producer(), destination, "x")
    message.reply_to = REPLY_TO
    await client.request(message)


@asynccontextmanager
async def bridge(url: str, user: str | None) -> AsyncIterator[Attempt]:
    async with openwire(url, user, as_bridge=True) as attempt:
        yield attempt


# STOMP, over TCP and WebSocket
@asynccontextmanager
async def stomp(url: str, user: str | None) -> AsyncIterator[Attempt]:
    host, port = url.partition("://")[2].rsplit(":", 1)
    async with await anyio.connect_tcp(host, int(port)) as stream:
        client = StompClient(stream)
        login = {} if user is None else {"login": user, "passcode": "secret"}
        answer = await client.connect(**login) if user is not None else None
        assert answer is None or answer.command == "CONNECTED", answer.headers

        async def attempt(action: str, name: str) -> str:
            if "?" in name:
                return NO_NAME
            command, headers = _frame(action, name)
            await client.send(command, headers | {"receipt": "r"})
            while (frame := await client.receive()).command == "MESSAGE":
                pass
            return _outcome(frame, is_logged_in=user is not None)

        yield attempt


@asynccontextmanager
async def stomp_over_websocket(url: str, user: str | None) -> AsyncIterator[Attempt]:
    async with connect(url, subprotocols=[Subprotocol("v12.stomp")], proxy=None) as socket:
        frames = StompFormat(version="1.2")

        async def ask(command: str, headers: dict[str, str]) -> Frame:
            data = bytearray()
            frames.encode_into(data, Frame(command, headers, b""))
            await socket.send(data.decode())
            while True:
                text = await socket.recv()
                for frame in frames.receive_data(text.encode() if isinstance(text, str) else text):
                    if frame.command != "MESSAGE":
                        return frame

        if user is not None:
            login = {"accept-version": "1.2", "host": "h", "login": user, "passcode": "secret"}
            assert (await ask("CONNECT", login)).command == "CONNECTED"

        async def attempt(action: str, name: str) -> str:
            if "?" in name:
                return NO_NAME
            command, headers = _frame(action, name)
            frame = await ask(command, headers | {"receipt": "r"})
            return _outcome(frame, is_logged_in=user is not None)

        yield attempt


def _frame(action: str, name: str) -> tuple[str, dict[str, str]]:
    named = ",".join(map(_stomp_name, name.split(",")))
    if action == SEND:
        return "SEND", {"destination": named, "reply-to": _stomp_name(str(REPLY_TO))}
    headers = {"destination": named, "id": f"{action} {name}".replace(":", "-")}
    return "SUBSCRIBE", headers | ({"browser": "true"} if action == BROWSE else {})


def _stomp_name(name: str) -> str:
    for prefix, written in STOMP_PREFIXES.items():
        if name.startswith(prefix):
            return written + name.removeprefix(prefix)
    return f"/queue/{name}"


def _outcome(frame: Frame, *, is_logged_in: bool) -> str:
    if frame.command != "ERROR":
        return ALLOWED
    if not is_logged_in:
        return NO_LOGIN
    return REFUSED if "not authorized" in frame.headers["message"] else OTHER


# REST
@asynccontextmanager
async def rest(url: str, user: str | None) -> AsyncIterator[Attempt]:
    auth = None if user is None else (user, "secret")
    async with httpx.AsyncClient(base_url=url, auth=auth, timeout=20, verify=False) as client:

        async def attempt(action: str, name: str) -> str:
            given = {"destination": name, "JMSReplyTo": str(REPLY_TO), "readTimeout": "1"}
            if action == BROWSE:
                return NO_NAME
            response = await client.request(
                "POST" if action == SEND else "GET",
                "/api/message",
                params=given,
                content="x" if action == SEND else None,
            )
            known = {401: NO_LOGIN, 403: REFUSED, 200: ALLOWED, 204: ALLOWED}
            is_unnamed = response.status_code == 400 and (
                "is temporary" in response.text or "is a pattern" in response.text
            )
            return NO_NAME if is_unnamed else known.get(response.status_code, OTHER)

        yield attempt
