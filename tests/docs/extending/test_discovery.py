"""The recipe of a discovery agent in docs/extending-client.md works as an installed third-party package."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.recipes import install, recipe_files, run_recipe


@pytest.mark.fact("activemq-edges U7")
def test_an_installed_agent_announces_and_finds(tmp_path: Path) -> None:
    files = recipe_files("A discovery agent")
    assert set(files) == {"pyproject.toml", "pyjms_brokerlist.py", "send_to_found.py"}
    install(files, tmp_path)
    output = run_recipe(tmp_path, "send_to_found.py", fresh=True)
    assert output == "connected to tcp\nleft: []\n"
