"""How pytest-xdist shares the tests out among its workers.

The unit is a file, so that what is costly to set up once per module stays on one worker. Tests
that use one costly resource per process share a group instead, whatever their file: one Spark
session, with its JVM of about 1 GB, serves all tests that ask for the fixture `spark`. A test
joins a group of its own choice with `pytest.mark.xdist_group("name")`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from xdist.scheduler import LoadGroupScheduling

GROUPS_BY_FIXTURE = {"spark": "spark"}


class FileOrGroupScheduling(LoadGroupScheduling):
    """Send a group to one worker, and what is in no group file by file."""

    def _split_scope(self, nodeid: str) -> str:
        scope = super()._split_scope(nodeid)
        return nodeid.partition("::")[0] if scope == nodeid else str(scope)


def add_groups(items: Iterable[pytest.Item]) -> None:
    """Mark tests that use a resource of `GROUPS_BY_FIXTURE` as members of its group."""
    for item in items:
        names: Any = getattr(item, "fixturenames", ())
        for fixture, group in GROUPS_BY_FIXTURE.items():
            if fixture in names:
                item.add_marker(pytest.mark.xdist_group(group))
