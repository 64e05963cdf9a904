"""The Python code of README and docs passes mypy, as in the editor of a user who copies it."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from mypy import api

from tests.kit.processes.children import ROOT

PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NO_PROGRAMS: Final = ("decisions.md", "specification")
"""Pages, or folders of pages, with Python that is not a program."""

BLOCK: Final = re.compile(r"^```python\n(?:# (\S+)\.py\n)?(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTIONS: Final = """\
[mypy]
check_untyped_defs = True
explicit_package_bases = True
ignore_missing_imports = True
[mypy-pyjms.*,pyjms_broker.*]
ignore_errors = True
"""
"""Errors of the framework are found by `make check`: here, as for its users, only its types count."""
SPARK: Final = "from pyspark.sql import SparkSession\n\nspark: SparkSession\n"


def programs_of(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the module names and the text of a page's programs; the last version of each."""
    name = re.sub(r"\W", "_", str(page.relative_to(ROOT)))
    found = {}
    for number, (module, text) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8"))):
        found[module or f"{name}_{number}"] = text
    for module, text in found.items():
        if page.name.startswith("spark") and "spark." in text and "spark =" not in text:
            yield module, SPARK + text
        elif _awaits_at_its_top(text):
            yield module, f"async def main() -> None:\n{textwrap.indent(text, '    ')}"
        else:
            yield module, text


def _awaits_at_its_top(text: str) -> bool:
    try:
        compile(text, "example.py", "exec", ast.PyCF_ONLY_AST)
        compile(text, "example.py", "exec", dont_inherit=True)
    except SyntaxError:
        return True
    return False


def groups_of_pages() -> list[dict[str, str]]:
    """Return programs by module name, so that no page's module hides that of another one."""
    groups: list[dict[str, str]] = []
    for page in PAGES:
        if any(name in page.parts for name in NO_PROGRAMS):
            continue
        programs = dict(programs_of(page))
        group = next((each for each in groups if not each.keys() & programs.keys()), None)
        if group is None:
            groups.append(programs)
        else:
            group.update(programs)
    return groups


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a package for each group, whose modules import one another from their own."""
    for number, group in enumerate(groups_of_pages()):
        package = tmp_path / f"pages_{number}"
        package.mkdir()
        modules = "|".join(group)
        for module, text in group.items():
            own = re.sub(rf"(?m)^from ({modules}) import", r"from .\1 import", text)
            own = re.sub(rf"(?m)^import ({modules})$", r"from . import \1", own)
            (package / f"{module}.py").write_text(own, encoding="utf-8")
    return tmp_path


def test_programs_of_pages_pass_mypy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All in one run, as each loads the types of the whole framework first."""
    (folder / "mypy.ini").write_text(OPTIONS, encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MYPYPATH", f"{ROOT}:{ROOT / 'broker'}")
    cache = ROOT / ".mypy_cache" / "docs"
    report, errors, code = api.run(["--cache-dir", str(cache), "."])
    assert (code, errors) == (0, ""), report
