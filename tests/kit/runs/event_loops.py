"""Which event loop a coroutine test runs on: one of the two, or each.

A coroutine test may run on asyncio and on trio. One of them, chosen by the test's name, is enough to
notice what a change breaks: every behaviour has many tests, and half of them run on either loop.
`--every-loop` runs both (`make nightly`, `make test LOOPS=--every-loop`), and `EVERY_LOOP` names the
tests of what differs between the loops: sockets, clocks, cancellation, waking up.

Tests that name their loop themselves run on it.

anyio's runner of tests is for trio a host with a guest, which waits for events in another thread.
The two changes of threads of each wait are an eighth of the processor time of tests on trio. The host
has nothing else to do meanwhile, so `wait_for_events_in_one_thread` has it wait itself.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, Final

from anyio._backends import _trio
from outcome import Outcome, Value
from trio._core import _run

LOOPS: Final = ("asyncio", "trio")
EVERY_LOOP: Final = (
    "tests/unit/connection/",
    "tests/unit/core/",
    "tests/unit/listener/container/",
    "tests/unit/testing/",
    "tests/unit/transport/",
    "tests/integration/app/test_shutdown.py",
    "tests/integration/client/connection/test_loops.py",
    "tests/integration/client/session/test_session.py",
    "tests/integration/failover/test_cancelled_starts.py",
    "tests/integration/listener/test_cancelled_close.py",
)
"""Files and folders whose tests run on both loops always."""


def loops_of(nodeid: str) -> tuple[str, ...]:
    """Return the event loops that the test function of this name runs on.

    The choice depends on the name alone, not on the selection, so that all workers of a run and
    all runs choose alike.
    """
    if nodeid.startswith(EVERY_LOOP):
        return LOOPS
    return (LOOPS[zlib.crc32(nodeid.encode()) % len(LOOPS)],)


def wait_for_events_in_one_thread() -> None:
    """Have tests on trio wait for events in the thread that they run in."""
    create = _trio.TrioBackend.create_test_runner

    def create_test_runner(options: dict[str, Any]) -> _trio.TestRunner:
        runner = create(options)
        call_soon = runner._call_queue.put

        def wait_soon(wait: Callable[[], Any], deliver: Callable[[Outcome[Any]], object]) -> None:
            """Wait after the host has looked whether the test, or fixture, has ended."""

            def wait_and_deliver() -> None:
                try:
                    events = wait()
                except BaseException:  # Ctrl-C: the runner still has to end its fixtures
                    call_soon(wait_and_deliver)
                    raise
                deliver(Value(events))

            call_soon(wait_and_deliver)

        _run.start_thread_soon = wait_soon  # type: ignore[assignment,attr-defined]
        return runner

    _trio.TrioBackend.create_test_runner = create_test_runner  # type: ignore[method-assign]
