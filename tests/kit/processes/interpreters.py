"""The Python interpreters on which programs of users are run in separate processes.

Found without downloading anything: the interpreter of this test run, those that `TEST_PYTHONS`
names (paths, separated as in PATH), and `python3.11` and so on of PATH. An interpreter counts if it
can import what pyjms depends on; otherwise the tests on that version skip and say what is absent.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache

import pytest

_PROBE = """
import sys
import anyio, dependency_injector, lark, pydantic_settings, rich, tenacity, typer, yaml
print("%d.%d" % sys.version_info[:2])
"""
_PROBE_TIMEOUT = 60


def interpreter(version: str) -> str:
    """Return the path of the interpreter of this version, or skip the test."""
    reasons = []
    for path in _candidates(version):
        found, error = _probe(path)
        if found == version:
            return path
        if error:
            reasons.append(f"{path}: {error}")
    why = "; ".join(reasons) or "it is not on PATH"
    pytest.skip(
        f"there is no python{version} with the packages of pyjms ({why}): `pip install` them for it, "
        "and name it in TEST_PYTHONS"
    )


def _candidates(version: str) -> list[str]:
    own = [sys.executable] if version == _version(sys.version_info) else []
    named = [path for path in os.environ.get("TEST_PYTHONS", "").split(os.pathsep) if path]
    on_path = shutil.which(f"python{version}")
    return [*own, *named, *([on_path] if on_path else [])]


def _version(info: tuple[int | str, ...]) -> str:
    return f"{info[0]}.{info[1]}"


@cache
def _probe(path: str) -> tuple[str, str]:
    """Return the version of an interpreter that has the packages, and why it is unusable."""
    try:
        done = subprocess.run(
            [path, "-c", _PROBE],
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT,
            check=False,
        )
    except OSError as error:
        return "", str(error)
    if done.returncode:
        return "", (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return done.stdout.strip(), ""
