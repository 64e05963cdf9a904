"""Which build runs, and PYJMS_PURE."""

from __future__ import annotations

import os
import shutil
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import pyjms
from pyjms.runtime.build import PURE_VARIABLE
from tests.kit.processes.forked_python import run_python

CODE = "from pyjms.runtime.build import build_name; print(build_name())"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the package, in which one module has a file like an extension beside it."""
    package = Path(pyjms.__file__).parent
    shutil.copytree(package, tmp_path / "pyjms", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / f"pyjms/wire/limits{EXTENSION_SUFFIXES[0]}").write_bytes(b"not one that is used")
    return tmp_path


def _build(folder: Path, **environment: str) -> str:
    done = run_python(
        "-c",
        CODE,
        cwd=folder,
        fresh=True,
        env={**os.environ, "PYTHONPATH": str(folder), **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_module_with_an_extension_is_compiled(installed: Path) -> None:
    assert _build(installed) == "compiled"


@pytest.mark.parametrize(("value", "name"), [("1", "pure Python"), ("0", "compiled")])
def test_the_variable_prefers_the_sources(installed: Path, value: str, name: str) -> None:
    assert _build(installed, **{PURE_VARIABLE: value}) == name
