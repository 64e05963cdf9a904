"""A broker under load, kills, pauses, disk faults and hostile clients at once, and the account."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.kit.soak.outcome import run_soak

MINUTES = float(os.environ.get("TEST_SOAK_MINUTES", "60"))


@pytest.mark.parametrize(
    "minutes",
    [
        pytest.param(1.5, id="short", marks=[pytest.mark.nightly, pytest.mark.timeout(900)]),
        pytest.param(
            MINUTES,
            id="long",
            marks=[pytest.mark.nightly, pytest.mark.timeout(60 * MINUTES + 1800)],
        ),
    ],
)
def test_nothing_is_lost_and_memory_is_bounded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], minutes: float
) -> None:
    seed = int(os.environ.get("TEST_SOAK_SEED", time.time_ns() % 1_000_000))
    with capsys.disabled():
        print(f"\nTEST_SOAK_SEED={seed}, events and logs in {tmp_path}", flush=True)
        outcome = run_soak(tmp_path, seed, 60 * minutes)
        print(outcome.report, flush=True)
    assert not outcome.failures, "\n".join([*outcome.failures, outcome.report])
