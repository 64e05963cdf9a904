"""The Python of docs/messaging.md runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "messaging.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_an_example_runs(number: int) -> None:
    exec(compile(BLOCKS[number], f"messaging-{number}.py", "exec"), {"__name__": "__main__"})


def test_there_are_examples() -> None:
    assert len(BLOCKS) == 4
