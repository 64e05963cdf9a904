"""Which Python a program of a user runs on: each of this machine's, or one of them.

With `--one-python-each` the programs are shared out among the versions that it names, in turn by
their names: each version runs some of them. What a change breaks on one Python only is seldom in a
single place. `make pythons` by itself runs each program on each version.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest


def one_version_each(items: Iterable[pytest.Item], versions: Sequence[str]) -> list[pytest.Item]:
    """Return the tests to leave out: programs on any but one of the versions, in turn.

    Args:
        items: All tests of the run, in the order that each of its workers collects.
        versions: Such as `3.11`; the versions that have the packages.
    """
    programs = [
        (_without_version(item.nodeid, version), version, item)
        for item in items
        if (version := _version(item))
    ]
    names = dict.fromkeys(name for name, _, _ in programs)
    chosen = {name: versions[place % len(versions)] for place, name in enumerate(names)}
    return [item for name, version, item in programs if version != chosen[name]]


def _version(item: pytest.Item) -> str | None:
    if item.get_closest_marker("pythons") is None:
        return None
    version = getattr(getattr(item, "callspec", None), "params", {}).get("version")
    return version if isinstance(version, str) else None


def _without_version(nodeid: str, version: str) -> str:
    name, bracket, parameters = nodeid.partition("[")
    return name + bracket + parameters.replace(version, "", 1)
