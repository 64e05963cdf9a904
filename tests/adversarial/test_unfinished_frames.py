"""Frames that begin and do not end: they share a limited amount of memory."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from pyjms.errors import RemoteProtocolError
from pyjms.jms.destination import Queue
from pyjms.runtime import clock as _clock
from pyjms.testing.clock import VirtualClock
from pyjms.wire.limits import FrameBudget, UnfinishedFrame
from pyjms_broker.service import BrokerService
from tests.kit.brokers.openwire_attacker import Connect

Q = Queue("q")
SIZE = 300 << 10
LIMIT = 1 << 20  # three of them


@pytest.fixture
async def service() -> AsyncIterator[BrokerService]:
    service = BrokerService("attacked", persistent=False, unfinished_frames_limit=LIMIT)
    service.add_connector("tcp://127.0.0.1:0")
    await service.start()
    yield service
    await service.stop()


async def begin_frame(attacker: Any) -> None:
    await attacker.stream.send(struct.pack(">i", SIZE) + bytes(1000))


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        await anyio.sleep(0.01)
    raise AssertionError("the condition did not become true")


async def test_unfinished_frames_share_a_limited_memory(
    service: BrokerService, peer: Connect, serves: Callable[[], Any]
) -> None:
    attackers = [await peer(f"attacker{number}") for number in range(6)]
    for number, attacker in enumerate(attackers):
        await attacker.connect()
        await begin_frame(attacker)
        if number < 3:
            await until(lambda: service.frame_budget.used >= (number + 1) * SIZE)  # noqa: B023
        else:
            await attacker.closed()
    assert service.frame_budget.used == 3 * SIZE
    await serves()
    for attacker in attackers:
        await attacker.leave()
    await until(lambda: service.frame_budget.used == 0)


async def test_complete_frames_give_their_memory_back(
    service: BrokerService, peer: Connect, serves: Callable[[], Any]
) -> None:
    sender = await peer("sender")
    await sender.connect()
    for _ in range(10):  # three times the limit
        assert await sender.ask(sender.message(Q, bytes(SIZE)))
    assert service.frame_budget.used == 0
    await serves()


class Frames:
    """Connections that share a budget, without bytes."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.budget = FrameBudget(limit, 30, _clock.now)
        self.ended: list[str] = []

    def connection(self, name: str) -> UnfinishedFrame:
        frame = UnfinishedFrame(self.budget)
        frame.fail = lambda _error: self.ended.append(name)
        return frame


async def test_slow_frames_end_when_others_need_their_memory() -> None:
    async with VirtualClock() as clock:
        frames = Frames()
        for name in ("a", "b", "c"):
            frames.connection(name).update(0, SIZE)
            await clock.advance(10)
        await clock.advance(9)
        late = frames.connection("late")
        late.update(0, SIZE)  # `a` has taken 39 seconds, `b` 29
        assert frames.ended == ["a"]
        with pytest.raises(RemoteProtocolError, match="No memory for a frame of 307200 bytes"):
            frames.connection("later").update(0, SIZE)
        assert frames.budget.used == 3 * SIZE


async def test_a_frame_counts_once_however_often_data_comes() -> None:
    frames = Frames()
    frame = frames.connection("a")
    for _ in range(5):
        frame.update(0, SIZE)
    assert frames.budget.used == SIZE
    frame.update(1, SIZE)  # the next frame, of the same size
    assert frames.budget.used == SIZE
    frame.update(2, 0)
    assert frames.budget.used == 0


async def test_small_frames_do_not_count_and_one_frame_always_fits() -> None:
    frames = Frames(limit=1000)
    frames.connection("small").update(0, 60_000)
    assert frames.budget.used == 0
    frames.connection("large").update(0, SIZE)
    assert frames.budget.used == SIZE
    with pytest.raises(RemoteProtocolError):
        frames.connection("another").update(0, SIZE)
    unlimited = Frames(limit=0)
    for number in range(100):
        unlimited.connection(str(number)).update(0, SIZE)
    assert unlimited.ended == []
