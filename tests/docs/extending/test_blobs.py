"""The recipe of a storage of blob messages in docs/extending-client.md works as an installed package."""

from __future__ import annotations

from pathlib import Path

from tests.kit.recipes import install, recipe_files, run_recipe


def test_bodies_are_stored_by_an_installed_strategy(tmp_path: Path) -> None:
    files = recipe_files("A storage of blob messages")
    assert set(files) == {"pyproject.toml", "pyjms_sqlite_blobs.py", "send_blob.py"}
    install(files, tmp_path)
    assert run_recipe(tmp_path, "send_blob.py", fresh=True) == "b'a long film'\nThere is no blob \n"
