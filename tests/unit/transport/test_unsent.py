"""Long values that wait to be written: their order, and the memory they share."""

from __future__ import annotations

import socket

import anyio
import pytest

from pyjms.testing.clock import VirtualClock
from pyjms.transport.tcp import CoalescingWriter, SocketWriter
from pyjms.transport.unsent import UnsentBudget, UnsentParts

SIZE = 1000
LIMIT = 3500


class Connections:
    """Connections that share a budget, without sockets."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.budget = UnsentBudget(limit, 30)
        self.ended: list[str] = []

    def connection(self, name: str, *values: bytes) -> UnsentParts:
        parts = UnsentParts()
        parts.count_in(self.budget, lambda _error: self.ended.append(name))
        for value in values:
            parts.add(b"head", value)
        return parts


async def settled() -> None:
    await anyio.wait_all_tasks_blocked()


async def test_a_value_of_many_connections_counts_once() -> None:
    made = Connections()
    value = bytes(SIZE)
    several = [made.connection(str(number), value) for number in range(100)]
    assert made.budget.used == SIZE
    for parts in several[1:]:
        parts.clear()
    assert made.budget.used == SIZE
    assert several[0].take(2) == b"he"
    assert several[0].take(10_000) == b"ad" + value
    assert made.budget.used == 0
    assert several[0].size == 0


async def test_connections_that_take_too_long_end_while_others_need_the_memory() -> None:
    async with VirtualClock() as clock:
        made = Connections()
        for name in ("a", "b", "c"):
            made.connection(name, bytes(SIZE))
            await clock.advance(100)
        assert made.ended == []  # there is room for all
        made.connection("late", bytes(SIZE))
        await settled()
        assert made.ended == ["a"]
        assert made.budget.used == 3 * SIZE


async def test_the_limit_holds_after_the_timeout_without_another_send() -> None:
    async with VirtualClock() as clock:
        made = Connections()
        for name in ("a", "b", "c", "d", "e"):
            made.connection(name, bytes(SIZE))
        await clock.advance(29)
        assert made.ended == []
        await clock.advance(2)
        assert made.ended == ["a", "b"]
        assert made.budget.used == 3 * SIZE


async def test_twice_the_limit_is_allowed_for_a_second_only() -> None:
    async with VirtualClock() as clock:
        made = Connections()
        for number in range(20):
            made.connection(str(number), bytes(SIZE))
        await clock.advance(0.5)
        assert made.ended == []
        await clock.advance(1)
        assert made.budget.used == 7 * SIZE
        assert made.ended == [str(number) for number in range(13)]  # the oldest ones


async def test_who_has_read_a_value_has_time_for_the_next_one() -> None:
    async with VirtualClock() as clock:
        made = Connections()
        reader = made.connection("reader", *(bytes(SIZE) for _ in range(3)))
        made.connection("lazy", bytes(SIZE))
        for _ in range(2):
            await clock.advance(20)
            reader.remove(len(b"head") + SIZE)
            reader.add(b"", bytes(SIZE))
        await settled()
        assert made.ended == ["lazy"]


@pytest.mark.parametrize("rate", [60, 70])
async def test_peers_behind_a_slow_network_may_take_longer(rate: int) -> None:
    async with VirtualClock() as clock:
        made = Connections(limit=8 << 20)
        slow = made.connection("slow", bytes(5 << 20))
        made.connection("lazy", bytes(5 << 20))
        for _ in range(40):
            slow.remove(min(slow.size, rate << 10))
            await clock.advance(1)
        assert made.ended == (["slow"] if rate == 60 else ["lazy"])


async def test_what_is_read_in_time_ends_the_wait() -> None:
    async with VirtualClock() as clock:
        made = Connections()
        several = [made.connection(str(number), bytes(SIZE)) for number in range(4)]
        await clock.advance(20)
        several[2].clear()
        await clock.advance(100)
        assert made.ended == []


async def test_one_value_always_fits() -> None:
    async with VirtualClock() as clock:
        made = Connections(limit=10)
        value = bytes(SIZE)
        for number in range(5):
            made.connection(str(number), value)
        await clock.advance(100)
        assert made.ended == []
        unlimited = Connections(limit=0)
        for number in range(100):
            unlimited.connection(str(number), bytes(SIZE))
        await clock.advance(100)
        assert unlimited.ended == []


@pytest.mark.parametrize("through", ["socket", "stream"])
async def test_values_leave_in_their_places(through: str) -> None:
    own, peer = socket.socketpair()
    peer.setblocking(False)

    class Stream:
        async def send(self, item: bytes) -> None:
            await anyio.wait_writable(own)
            view = memoryview(item)
            while view:
                try:
                    view = view[own.send(view) :]
                except BlockingIOError:
                    await anyio.wait_writable(own)

    own.setblocking(False)
    writer = (
        SocketWriter(None, own)  # type: ignore[arg-type]
        if through == "socket"
        else CoalescingWriter(Stream())  # type: ignore[arg-type]
    )
    long, longer = b"l" * 100_000, b"m" * 3_000_000
    writer.buffer += b"<head><between><end>"
    writer.splice([(6, long), (15, longer)])
    writer.buffer += b"<next>"
    assert writer.queued == 26 + len(long) + len(longer)
    assert writer.congested
    expected = b"<head>" + long + b"<between>" + longer + b"<end><next>"
    received = bytearray()
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(writer.run)
            while len(received) < len(expected):
                await anyio.wait_readable(peer)
                received += peer.recv(1 << 20)
            await writer.drain()
            writer.finish()
        assert bytes(received) == expected
        assert writer.queued == 0
    finally:
        own.close()
        peer.close()


async def test_an_abandoned_writer_gives_the_memory_back() -> None:
    class Stuck:
        async def send(self, item: bytes) -> None:
            await anyio.sleep_forever()

    budget = UnsentBudget(LIMIT, 30)
    writer = CoalescingWriter(Stuck())  # type: ignore[arg-type]
    writer.unsent.count_in(budget, lambda _error: None)
    writer.splice([(0, bytes(SIZE))])
    assert budget.used == SIZE
    writer.abandon()
    assert budget.used == writer.queued == 0
