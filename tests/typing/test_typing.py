"""mypy --strict reads these files as a user's and agrees with every assert_type in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api

HERE = Path(__file__).resolve().parent
FILES = sorted(path for path in HERE.glob("*.py") if not path.name.startswith("test_"))


@pytest.mark.timeout(300)
def test_mypy_agrees() -> None:
    config = HERE.parents[1] / "pyproject.toml"
    # unused ignores are errors, too: each marks a call that has to be one
    arguments = ["--strict", "--config-file", str(config), "--warn-unused-ignores"]
    output, errors, status = api.run([*arguments, *map(str, FILES)])
    assert (status, errors) == (0, ""), output
    assert FILES
