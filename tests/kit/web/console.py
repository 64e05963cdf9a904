"""The web console of a broker in memory, and a broker with something of everything to show."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html import unescape
from typing import Any

import httpx
from starlette.applications import Starlette

from pyjms.jms.destination import Queue, Topic
from pyjms.jms.types import Long
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import AckType, ActiveMQMapMessage, Throwable
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.console import console_routes
from pyjms_broker.service import BrokerService
from pyjms_broker.web.configuration import WebConfiguration
from pyjms_broker.web.context import WebContext
from pyjms_broker.web.gate import Gate
from tests.kit.clients.raw import RawClient

ORIGIN = "http://localhost"
HOSTILE = "<script>document.title='caught'</script><img src=x onerror=alert(1)>\"'&"
"""Text that would run as a script, were it not escaped."""


@dataclass
class Console:
    """The console of a running broker, without a port."""

    service: BrokerService
    client: httpx.AsyncClient

    async def get(self, path: str, /, **query: Any) -> httpx.Response:
        return await self.client.get(f"/admin/{path}", params=query or None)

    async def text(self, path: str, /, **query: Any) -> str:
        response = await self.get(path, **query)
        assert response.status_code == 200, (response.status_code, notice_of(response))
        return response.text

    async def token(self) -> str:
        found = re.search(r'name="token" value="([^"]+)"', await self.text("send"))
        assert found is not None
        return found[1]

    async def act(self, action: str, **fields: Sequence[str]) -> httpx.Response:
        """Send an action's form; return the page that follows it."""
        return await self.post(f"actions/{action}", **fields)

    async def post(self, path: str, **fields: Sequence[str]) -> httpx.Response:
        data = {"token": await self.token(), **fields}
        return await self.client.post(f"/admin/{path}", data=data, follow_redirects=True)


class Live:
    """The live part of an open page, as the script of the console updates it."""

    def __init__(self, console: Console, page: str) -> None:
        self._console = console
        self._page = page
        self._lines: list[str] = []
        self.key = "new"

    async def update(self) -> int:
        """Update the part, and return the size of the update in bytes; 0: nothing has changed."""
        headers = {"x-live": self.key}
        response = await self._console.client.get(f"/admin/{self._page}", headers=headers)
        if response.status_code == 204:
            return 0
        assert response.status_code == 200
        self.key = response.json()["key"]
        lines: list[str] = []
        for piece in response.json()["pieces"]:
            if isinstance(piece, str):
                lines.append(piece)
            else:
                lines += self._lines[piece[0] : piece[0] + piece[1]]
        self._lines = lines
        return len(response.content)

    @property
    def text(self) -> str:
        """The part as it is shown."""
        return "".join(self._lines)


def notice_of(response: httpx.Response) -> str:
    """Return the text of a page's notice, empty if it has none."""
    found = re.search(r'<div class="notice[^>]*>(.*?)</div>', response.text, re.DOTALL)
    if found is None:
        return ""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", found[1])).split())


def site_of(service: BrokerService, **web: Any) -> Gate:
    """Return the console of a broker as an ASGI application."""
    context = WebContext(service, WebConfiguration(**web))
    return Gate(Starlette(routes=console_routes(context)), context)


@asynccontextmanager
async def console_of(service: BrokerService, **web: Any) -> AsyncIterator[Console]:
    """Open the console of a running broker."""
    transport = httpx.ASGITransport(site_of(service, **web))
    headers = {"origin": ORIGIN}
    async with httpx.AsyncClient(transport=transport, base_url=ORIGIN, headers=headers) as client:
        yield Console(service, client)


@asynccontextmanager
async def furnished(service: BrokerService) -> AsyncIterator[RawClient]:
    """Give a broker queues, topics, subscriptions, dead letters, jobs and a connected client."""
    async with connected(service, "shop") as client:
        await client.send(Queue("orders"), *(f"order number {n}" for n in range(60)))
        await client.send(Queue("prices"), HOSTILE)
        producer = await client.producer(Queue("orders"))
        await client.request(client.text(producer, Queue("orders"), "the last order"))
        await client.consumer(Queue("billing"), selector="colour = 'red'")
        for name, bad in (("invoices", "timeout after 30 s"), ("shipping", HOSTILE)):
            await _dead_letter(client, Queue(name), bad)
        await _offline_subscription(service)
        await client.consumer(Topic("news"), subscription_name="reader")
        await client.consumer(Topic("news"))
        job = client.text(producer, Queue("orders"), "later")
        job.marshalled_properties = encode_map({"AMQ_SCHEDULED_DELAY": Long(3_600_000)})
        await client.request(job)
        told = ActiveMQMapMessage(
            **{
                name: getattr(client.text(producer, Queue("maps"), ""), name)
                for name in ("producer_id", "destination", "message_id", "timestamp", "priority")
            },
            persistent=True,
            content=encode_map({HOSTILE: HOSTILE, "number": 5}),
            marshalled_properties=encode_map({HOSTILE: HOSTILE}),
        )
        await client.request(told)
        yield client


@asynccontextmanager
async def connected(service: BrokerService, client_id: str) -> AsyncIterator[RawClient]:
    client = RawClient(create_transport(service.vm_uri))
    await client.open(client_id)
    try:
        yield client
    finally:
        await client.close()


async def _dead_letter(client: RawClient, queue: Queue, reason: str) -> None:
    consumer = await client.consumer(queue)
    await client.send(queue, f"bad {queue.physical_name}")
    cause = Throwable("builtins.ValueError", reason)
    await client.ack(await client.dispatched(), AckType.POISON, poison_cause=cause)
    await client.remove(consumer)


async def _offline_subscription(service: BrokerService) -> None:
    async with connected(service, "archive") as client:
        consumer = await client.consumer(Topic("news"), subscription_name="nightly")
        await client.remove(consumer)
        await client.send(Topic("news"), "one", "two")
