"""Which event loop a coroutine test runs on: one of the two, or each.

A coroutine test may run on asyncio and on trio. One of them, chosen by the test's name, is enough to
notice what a change breaks: every behaviour has many tests, and half of them run on either loop.
`--every-loop` runs both (`make nightly`, `make test LOOPS=--every-loop`), and `EVERY_LOOP` names the
tests of what differs between the loops: sockets, clocks, cancellation, waking up.

Tests that name their loop themselves run on it.
"""

from __future__ import annotations

import zlib
from typing import Final

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
