"""`make pythons`: the tests that run programs of users, on every Python of this machine, in parallel.

Each Python but the one of `.venv` gets an environment of its own below `.venv`, with the project
and what it needs. Pythons are looked for on PATH and among pyenv's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.kit.processes.interpreters import VERSIONS

ROOT = Path(__file__).resolve().parents[3]
TESTS = ("tests/integration/sync/test_scripts.py", "tests/programs")
PACKAGES = (
    f"{ROOT}[uvloop]",
    "pytest",
    "fastapi",
    "httpx",
    "httpx2",
    "flask",
    "django",
    "gunicorn",
)
"""What programs of users need: this project, and what its recipes are about."""


def find(version: str) -> str | None:
    """Return the path of a Python that runs, or None."""
    named = shutil.which(f"python{version}")
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for path in [*([named] if named else []), *map(str, reversed(pyenv))]:
        done = subprocess.run([path, "-c", ""], capture_output=True, check=False)
        if done.returncode == 0:
            return path
    return None


def prepare(version: str, python: str) -> Path:
    """Make the environment of a version; return its Python."""
    folder = ROOT / ".venv" / "pythons" / version
    made = folder / "bin" / "python"
    ready = folder / "ready"
    packages = " ".join(PACKAGES)
    if not ready.exists() or ready.read_text(encoding="utf-8") != packages:
        print(f"Python {version}: installing", flush=True)
        subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
        quiet = ["install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([made, "-m", "pip", *quiet, "--editable", *PACKAGES], check=True)
        ready.write_text(packages, encoding="utf-8")
    return made


def main() -> int:
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    pythons = {version: find(version) for version in VERSIONS if version != own}
    made = [str(prepare(version, python)) for version, python in pythons.items() if python]
    absent = [version for version, python in pythons.items() if python is None]
    print(f"Pythons: {own} and {len(made)} more; absent: {', '.join(absent) or 'none'}", flush=True)
    environment = {**os.environ, "TEST_PYTHONS": os.pathsep.join(made)}
    shared_out = ["-n", "auto", "--dist", "load", "--max-worker-restart", "0"]
    shared_out += ["--reruns", os.environ.get("RERUNS", "0"), "-rR"]
    # what failed last is not for the runs beside it: see `ALONE` in the Makefile
    shared_out += ["-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "pythons", *shared_out, *TESTS]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
