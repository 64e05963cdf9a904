"""The recipes of docs/extending*.md, installed as third-party packages.

A recipe is a section of one of these files. Each of its code blocks that begins with a comment such as
`# pyproject.toml` is a file of the package. `install` writes the files and the metadata that an
installer would make of `pyproject.toml`, so that entry points are found in a process that has
the folder on its path.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

from tests.kit.processes.forked_python import run_python

__all__ = ["install", "recipe_files", "run_recipe"]

ROOT = Path(__file__).resolve().parents[2]
EXTENDING = ("extending.md", "extending-client.md", "extending-broker.md")
_BLOCK = re.compile(r"^```\w+\n# (\S+\.\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def recipe_files(section: str, document: Path | None = None) -> dict[str, str]:
    """Return the files of the recipe under the heading `section`, by name."""
    names = (document,) if document else [ROOT / "docs" / name for name in EXTENDING]
    text = "".join(path.read_text(encoding="utf-8") for path in names)
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert section in sections, f"there is no section {section!r}"
    return {name: body.lstrip("\n") for name, body in _BLOCK.findall(sections[section])}


def install(files: dict[str, str], folder: Path) -> None:
    """Install a package of these files, one of them `pyproject.toml`, in `folder`."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    project = tomllib.loads(files["pyproject.toml"])["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = project.get("entry-points", {})
    (info / "entry_points.txt").write_text(
        "\n".join(
            f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in points.items())
            for group, points in groups.items()
        )
    )


def run_recipe(folder: Path, *arguments: str, timeout: int = 50, fresh: bool = False) -> str:
    """Run `python *arguments` with the package in `folder` installed, and return its output."""
    done = run_python(
        *arguments,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
        merge=True,
        timeout=timeout,
        fresh=fresh,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
