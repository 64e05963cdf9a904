"""Environments of the tests' programs of users for the other Pythons of this machine.

Each Python but the one of `.venv` gets an environment of its own below `.venv`, with the project
and what it needs. Pythons are looked for on PATH and among pyenv's. This module needs the standard
library only: its environments can be made while `.venv` itself is.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
ROOT = Path(__file__).resolve().parents[3]
OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"
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


def prepare_all() -> dict[str, str]:
    """Make the environments that are absent; return the Python of each, by its version."""
    found = {version: find(version) for version in VERSIONS if version != OWN}
    return {version: str(prepare(version, path)) for version, path in found.items() if path}


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
        quiet = ["install", "--quiet", "--no-compile", "--disable-pip-version-check"]
        subprocess.run([made, "-m", "pip", *quiet, "--editable", *PACKAGES], check=True)
        ready.write_text(packages, encoding="utf-8")
    return made


if __name__ == "__main__":
    prepare_all()
