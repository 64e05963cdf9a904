"""The recorded behaviour of Spring and ActiveMQ, beside the repository."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

BESIDE = Path(__file__).resolve().parents[4] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    directory = Path(os.environ.get("PYJMS_SHARED", BESIDE))
    if not (directory / "behaviour").is_dir():
        pytest.skip(f"no recorded behaviour in {directory}")
    return directory


@pytest.fixture(scope="session")
def oracle(shared: Path) -> dict[str, Any]:
    lines = (shared / "behaviour" / "spring-oracle.jsonl").read_text("utf-8").splitlines()
    return {line["scenario"]: line["result"] for line in map(json.loads, lines)}
