"""The field lists in pyjms/wire/openwire are what the generator writes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pyjms.wire.openwire.commands import TYPES

GENERATOR = Path(__file__).resolve().parents[4] / "tools" / "openwire" / "generate.py"


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("openwire_generate", GENERATOR)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


generate = load_generator()


@pytest.mark.parametrize("path", generate.TARGETS, ids=lambda p: p.stem)
def test_the_committed_code_is_what_the_generator_writes(path: Path) -> None:
    written = generate.render(path, generate.load())
    assert written == path.read_text(encoding="utf-8"), "run python tools/openwire/generate.py"


def test_the_table_has_every_type() -> None:
    structures = generate.load()
    assert {s.code: name for name, s in structures.items()} == {
        code: cls.__name__ for code, cls in TYPES.items()
    }
    for path in generate.TARGETS:
        for name in structures:
            if f"class {name}(" in path.read_text(encoding="utf-8"):
                assert f"# generated: {name}\n" in path.read_text(encoding="utf-8")
