"""Sends that wait for space in a store are admitted even if a check fails."""

from __future__ import annotations

import pytest

from pyjms.testing.clock import VirtualClock
from pyjms_broker.region.system_usage import POLLING_TIME, DiskUsage
from pyjms_broker.store.api import StoreState


class Disk:
    """A full store; looking at its size may fail."""

    state = StoreState.RUNNING

    def __init__(self) -> None:
        self.bytes = 100
        self.errors: list[Exception] = []

    @property
    def size(self) -> int:
        if self.errors:
            raise self.errors.pop()
        return self.bytes


async def test_polling_continues_after_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    disk, is_admitted = Disk(), list[str]()
    async with VirtualClock() as clock:
        usage = DiskUsage("Temp Store", 100, disk)
        for name in ("first", "second"):
            usage.wait(lambda name=name: is_admitted.append(name))  # type: ignore[misc]
        disk.errors = [OSError("it went away")]
        await clock.advance(POLLING_TIME + 0.1)
        assert "Temp Store: admitting a waiting send failed" in caplog.text
        disk.bytes = 99
        await clock.advance(POLLING_TIME + 0.1)
        assert is_admitted == ["first", "second"]
        await usage.close()
