"""The clock that tests turn."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from pyjms.runtime import clock as _clock
from pyjms.testing.clock import VirtualClock


async def test_it_is_in_force_inside_its_block_only() -> None:
    before = _clock._clock
    async with VirtualClock(start=5, time_ms=1_000_000) as clock:
        assert _clock.now() == 5
        assert _clock.time_ms() == 1_000_000
        await clock.advance(1.5)
        assert (_clock.now(), _clock.time_ms()) == (6.5, 1_001_500)
    assert _clock._clock is before


async def test_sleepers_wake_in_order_and_at_their_second(clock: VirtualClock) -> None:
    woken = []
    start = clock.now()

    async def sleeper(name: str, *waits: Any) -> None:
        for seconds in waits:
            await _clock.sleep(seconds)
            woken.append((name, clock.now() - start))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sleeper, "a", 3, 1)
        tasks.start_soon(sleeper, "b", 2, 1.5)
        await clock.advance(1.9)
        assert woken == []
        await clock.advance(10)
    assert woken == [("b", 2), ("a", 3), ("b", 3.5), ("a", 4)]
    assert clock.now() - start == pytest.approx(11.9)


@pytest.mark.parametrize(("seconds", "runs_out"), [(2, True), (4, False), (None, False), (0, True)])
async def test_timeouts(seconds: int | None, runs_out: bool, clock: VirtualClock) -> None:
    done = []

    async def worker() -> None:
        with _clock.timeout(seconds) as scope:
            await _clock.sleep(3)
        done.append(scope.cancelled_caught)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(worker)
        await clock.advance(5)
    assert done == [runs_out]
    assert clock._next_deadline() is None


async def test_a_cancelled_sleep_leaves_no_deadline(clock: VirtualClock) -> None:
    with _clock.timeout(1):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_clock.sleep, 100)
            tasks.start_soon(clock.advance, 2)
    assert clock._next_deadline() is None
    await _clock.sleep(0)


async def test_autojump_runs_through_the_night(jumping: VirtualClock) -> None:
    start = jumping.now()
    order = []

    async def sleeper(seconds: float) -> None:
        await _clock.sleep(seconds)
        order.append(jumping.now() - start)

    async with anyio.create_task_group() as tasks:
        for seconds in (8 * 3600, 60, 3600):
            tasks.start_soon(sleeper, seconds)
    assert order == [60, 3600, 8 * 3600]
    with _clock.timeout(10) as scope:
        await anyio.sleep_forever()
    assert scope.cancelled_caught
