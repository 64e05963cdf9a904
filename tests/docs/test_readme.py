"""The README can be published, and its commands and Python run as they stand."""

from __future__ import annotations

import re

from pyjms.runtime.distribution import DISTRIBUTION
from tests.kit.source_tree import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_template_of_the_readme_works() -> None:
    (code,) = [block for block in BLOCKS if block.startswith("from pyjms")]
    exec(compile(code, "sending.py", "exec"), {})


def test_the_readme_is_short_and_goes_without_the_folder_that_it_is_in() -> None:
    """It is the distribution's long description: a package index has no files beside it."""
    assert len(README.splitlines()) <= 120
    assert re.findall(r"\]\((?!https?://)[^)]*\)", README) == []
    assert f"pip install {DISTRIBUTION} " in README


def test_the_files_that_the_readme_names_exist() -> None:
    named = set(re.findall(r"`((?:docs|examples|config)/[\w./-]*)`", README))
    assert named
    assert {name for name in named if not (ROOT / name).exists()} == set()
