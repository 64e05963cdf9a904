"""The Python of the section on ActiveMQ's additions in docs/connections.md runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "connections.md").read_text(encoding="utf-8")
SECTION = TEXT.partition("## ActiveMQ's additions to JMS\n")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_an_example_runs(number: int) -> None:
    exec(compile(BLOCKS[number], f"connections-{number}.py", "exec"), {"__name__": "example"})


def test_there_are_examples() -> None:
    assert len(BLOCKS) == 3
