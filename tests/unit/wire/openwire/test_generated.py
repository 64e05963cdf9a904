"""The field lists in pyjms/wire/openwire are what the generator writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.codegen import generate
from pyjms.wire.openwire.commands import TYPES


@pytest.mark.parametrize("path", generate.TARGETS, ids=lambda p: p.stem)
def test_the_committed_code_is_what_the_generator_writes(path: Path) -> None:
    written = generate.render(path, generate.load())
    assert written == path.read_text(encoding="utf-8"), "run python -m config.codegen.generate"


def test_the_table_has_every_type() -> None:
    structures = generate.load()
    assert {s.code: name for name, s in structures.items()} == {
        code: cls.__name__ for code, cls in TYPES.items()
    }
    for path in generate.TARGETS:
        for name in structures:
            if f"\nclass {name}(" in path.read_text(encoding="utf-8"):
                assert f"# generated: {name}\n" in path.read_text(encoding="utf-8")
