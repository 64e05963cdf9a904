"""The watchdog of an event loop: what it measures, and whom it names."""

from __future__ import annotations

import gc
import logging
import threading
import time

import pytest

from pyjms.runtime.watchdog import LoopWatchdog, watch_loop
from tests.kit.waiting import until


def hold_the_loop(watchdog: LoopWatchdog) -> None:
    """Return once the watchdog has noticed."""
    while watchdog.held_count == 0:
        time.sleep(0.005)


async def test_what_holds_the_loop_is_named(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "pyjms.runtime.watchdog")
    watchdog = LoopWatchdog("broker b", limit=0.02)
    watchdog.users = 1
    try:
        hold_the_loop(watchdog)
        await until(lambda: "was held for" in caplog.text)
    finally:
        watchdog.release()
    first = caplog.records[0].getMessage()
    assert first.startswith("The event loop of broker b is held for more than 0.02 s by ")
    assert "runtime/test_watchdog.py:" in first
    assert "hold_the_loop < " in first
    assert watchdog.longest_lag >= 0.02


async def test_users_of_one_loop_share_a_watchdog() -> None:
    callbacks = len(gc.callbacks)
    threads = set(threading.enumerate())  # a loop that other tests share may have one
    first, second = watch_loop("one"), watch_loop("two")
    assert first is second
    first.release()
    assert watch_loop("three") is first
    first.release()
    first.release()
    assert len(gc.callbacks) == callbacks
    other = watch_loop("four")
    assert other is not first
    other.release()
    await until(
        lambda: (
            not any(
                "pyjms watchdog" in thread.name for thread in set(threading.enumerate()) - threads
            )
        )
    )
