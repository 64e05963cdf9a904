"""A TCP proxy in front of a broker that cuts connections where a test wants it.

It cuts between two frames of OpenWire or inside one, in either direction, and can wait for frames
of some kind. A cut closes both sides at once; the next connection works again.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from anyio.abc import SocketAttribute, SocketStream

TO_BROKER, TO_CLIENT = "to the broker", "to the client"
DIRECTIONS = (TO_BROKER, TO_CLIENT)
_CLOSED = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)


FrameTest = Callable[[bytes], bool]
"""Whether a frame, with its length in front, is of some kind."""


def of_type(*types: int) -> FrameTest:
    """Return a test for frames of these OpenWire types."""
    return lambda frame: frame[4] in types


@dataclass
class Cut:
    """Cut when so many frames have passed in this direction, after `inside` bytes of the next."""

    direction: str
    frames: int
    inside: int = 0
    at: FrameTest | None = None
    """Only frames of this kind count."""
    after: FrameTest | None = None
    """Frames count when one of this kind has passed to the broker, on the same connection."""
    link: Link | None = None
    """Where that was."""


@dataclass(eq=False)
class Link:
    """One connection through the proxy."""

    client: SocketStream
    broker: SocketStream
    held: bool = False
    """Whether a frame waits for `CuttingProxy.release`."""

    async def close(self) -> None:
        with anyio.CancelScope(shield=True):
            for stream in (self.client, self.broker):
                await anyio.aclose_forcefully(stream)


@dataclass
class CuttingProxy:
    """The proxy; made by `cutting_proxy`."""

    broker_port: int
    port: int = 0
    cuts: int = 0
    """How many connections it has cut."""
    connections: int = 0
    is_open: bool = True
    """False: connections are refused, by closing them at once."""
    plan: Cut | None = None
    holding: str = ""
    """The direction in which frames are held back."""
    refusals: int = 0
    links: set[Link] = field(default_factory=set)
    changed: anyio.Event = field(default_factory=anyio.Event)

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def cut_at(
        self,
        direction: str,
        frames: int,
        inside: int = 0,
        *,
        at: FrameTest | None = None,
        after: FrameTest | None = None,
    ) -> None:
        """Cut once, so many frames from now."""
        self.plan = Cut(direction, frames, inside, at, after)

    async def cut_now(self) -> None:
        """Cut all connections."""
        for link in list(self.links):
            await link.close()
            self.count_cut()

    def hold(self, direction: str) -> None:
        """Hold frames in this direction back until `release`."""
        self.holding = direction

    def release(self) -> None:
        """Let all frames pass again."""
        self.holding = ""
        self.notify()

    async def held(self) -> None:
        """Wait until a frame is held back."""
        while not any(link.held for link in self.links):
            await self.changed.wait()

    async def refused(self) -> None:
        """Wait until a connection has been refused."""
        before = self.refusals
        while self.refusals == before:
            await self.changed.wait()

    def notify(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()

    async def wait_for_cuts(self, count: int) -> None:
        """Wait until so many connections have been cut."""
        while self.cuts < count:
            await self.changed.wait()

    def count_cut(self) -> None:
        self.cuts += 1
        self.notify()

    async def serve(self, client: SocketStream) -> None:
        if not self.is_open:
            self.refusals += 1
            self.notify()
            await anyio.aclose_forcefully(client)
            return
        try:
            broker = await anyio.connect_tcp("127.0.0.1", self.broker_port)
        except OSError:
            await anyio.aclose_forcefully(client)
            return
        self.connections += 1
        link = Link(client, broker)
        self.links.add(link)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self.pump, link, TO_BROKER, client, broker)
                group.start_soon(self.pump, link, TO_CLIENT, broker, client)
        finally:
            self.links.discard(link)
            if self.plan is not None and self.plan.link is link:
                self.plan.link = None
            await link.close()

    async def pump(
        self, link: Link, direction: str, source: SocketStream, target: SocketStream
    ) -> None:
        buffer = bytearray()
        try:
            while True:
                buffer += await source.receive()
                while len(buffer) >= 4:
                    (length,) = struct.unpack_from(">I", buffer)
                    if len(buffer) < 4 + length:
                        break
                    frame = bytes(buffer[: 4 + length])
                    del buffer[: 4 + length]
                    await self.pass_by(link, direction)
                    if await self.is_cut(link, direction, frame, target):
                        await link.close()
                        return
                    await target.send(frame)
        except _CLOSED:
            await link.close()

    async def pass_by(self, link: Link, direction: str) -> None:
        """Wait while frames in this direction are held back."""
        if self.holding != direction:
            return  # the other direction may be: `held` is not ours to change
        link.held = True
        while self.holding == direction:
            self.notify()
            await self.changed.wait()
        link.held = False

    async def is_cut(self, link: Link, direction: str, frame: bytes, target: SocketStream) -> bool:
        plan = self.plan
        if plan is None:
            return False
        if plan.after is not None and plan.link is None:
            if direction == TO_BROKER and plan.after(frame):
                plan.link = link
            return False
        if plan.direction != direction or plan.link not in {None, link}:
            return False
        if plan.at is not None and not plan.at(frame):
            return False
        if plan.frames > 0:
            plan.frames -= 1
            return False
        self.plan = None
        self.count_cut()
        if plan.inside:
            await target.send(frame[: min(plan.inside, len(frame) - 1)])
        return True


@asynccontextmanager
async def cutting_proxy(broker_port: int) -> AsyncIterator[CuttingProxy]:
    """Run a proxy in front of the broker at `broker_port`."""
    proxy = CuttingProxy(broker_port)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as group:
        proxy.port = listener.extra(SocketAttribute.local_port)
        group.start_soon(listener.serve, proxy.serve)
        yield proxy
        group.cancel_scope.cancel()
