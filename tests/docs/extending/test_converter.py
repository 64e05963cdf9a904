"""The recipe of a message converter in docs/extending.md works as an installed package."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.recipes import install, recipe_files, run_recipe


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = recipe_files("A message converter")
    assert set(files) == {"pyproject.toml", "pyjms_csv.py", "send_table.py", "test_pyjms_csv.py"}
    install(files, tmp_path)
    return tmp_path


def test_the_converter_recipe_passes_the_contract(folder: Path) -> None:
    output = run_recipe(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_pyjms_csv.py")
    assert " passed" in output
    assert "skipped" not in output


def test_the_converter_of_an_installed_package_is_used_by_its_content_type(folder: Path) -> None:
    assert run_recipe(folder, "send_table.py", fresh=True) == "[{'city': 'Oslo', 'trips': '7'}]\n"
