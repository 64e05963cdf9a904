"""Which event loop a coroutine test runs on: one of the two, or each.

A coroutine test exists on asyncio and on trio. One of them, chosen by the test's name, is enough to
notice what a change breaks: every behaviour has many tests, and half of them run on either loop.
`--every-loop` runs both (`make nightly`, `make test LOOPS=--every-loop`), and `EVERY_LOOP` names the
tests of what differs between the loops: sockets, clocks, cancellation, waking up.

Tests that name their loop themselves run on it.
"""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

import pytest

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


def one_loop_each(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return the tests to leave out: all but one of those that differ only in their event loop.

    The choice depends on the name alone, not on the selection, so that all workers of a run and
    all runs choose alike.
    """
    alike: defaultdict[str, list[tuple[str, pytest.Item]]] = defaultdict(list)
    for item in items:
        loop = _loop(item)
        if loop and not item.nodeid.startswith(EVERY_LOOP):
            alike[_without_loop(item.nodeid, loop)].append((loop, item))
    left_out = []
    for name, found in alike.items():
        chosen = zlib.crc32(name.encode()) % len(found)
        ordered = sorted(found, key=lambda pair: pair[0])
        left_out += [item for place, (_, item) in enumerate(ordered) if place != chosen]
    return left_out


def _loop(item: pytest.Item) -> str | None:
    parameters: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    loop = parameters.get("anyio_backend")
    return loop if isinstance(loop, str) else None


def _without_loop(nodeid: str, loop: str) -> str:
    """Return the name of a test without that of its loop: `t[trio-vm]` -> `t[-vm]`."""
    name, bracket, parameters = nodeid.partition("[")
    return name + bracket + re.sub(rf"(?<![a-z]){loop}(?![a-z])", "", parameters, count=1)
