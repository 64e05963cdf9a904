"""What the process uses: its load between two looks, and its memory."""

from __future__ import annotations

from pyjms.runtime.machine import (
    ProcessMeter,
    available_memory,
    machine_memory,
    most_resident_memory,
    resident_memory,
)
from pyjms.testing.clock import VirtualClock


async def test_the_load_is_that_since_the_last_look() -> None:
    async with VirtualClock() as clock:
        meter = ProcessMeter()
        assert meter.process_load == 0.0
        assert sum(range(300_000))
        await clock.advance(10)
        load = meter.process_load
        assert 0 < load < 1
        await clock.advance(0.5)
        assert meter.process_load == load  # too soon to tell another
        assert -1 <= meter.system_load <= 1


def test_the_memory_of_the_process_is_less_than_the_available_one() -> None:
    used = resident_memory()
    assert used is None or 0 < used <= available_memory() <= machine_memory()
    assert 0 < most_resident_memory() <= machine_memory()


def test_threads_are_counted() -> None:
    assert ProcessMeter().most_threads >= 1
