"""Some cases of each test: for runs that repeat tests which another run has made whole.

With `--cases 2` a test function runs with two of its parameter sets at most, chosen by their names:
all workers and all runs choose alike, and the cases of a file come from all parts of its lists.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable

import pytest


def beyond(number: int, items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return the tests to leave out so that each function has this number of cases at most."""
    cases: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    return [
        item
        for of_one in cases.values()
        for item in sorted(of_one, key=lambda each: zlib.crc32(each.nodeid.encode()))[number:]
    ]
