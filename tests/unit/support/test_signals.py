"""Signals that ask a process to stop."""

from __future__ import annotations

import logging
import signal

import anyio
import pytest

from pyjms.runtime.signals import stop_on_signals
from pyjms.testing.clock import VirtualClock


async def test_a_signal_delivered_twice_requests_a_stop_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    stopping = anyio.Event()
    async with (
        VirtualClock() as clock,
        stop_on_signals(stopping, logging.getLogger("test"), "the rest"),
    ):
        signal.raise_signal(signal.SIGINT)
        await stopping.wait()
        await clock.advance(0.4)
        signal.raise_signal(signal.SIGTERM)
        await anyio.wait_all_tasks_blocked()
    assert [record.getMessage() for record in caplog.records] == ["SIGINT: finishing the rest"]
