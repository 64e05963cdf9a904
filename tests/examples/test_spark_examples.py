"""The Spark examples as separate programs: they take long, so they run nightly.

`make run` ends with the first of them; their functions are tested in `tests/integration/examples`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _needs_spark() -> None:
    pytest.importorskip("pyspark")


def run(*args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *args],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NOT" not in done.stdout
    return done.stdout


@pytest.mark.fact("spark-pipeline 8.1")
def test_three_pipelines_killed_once_lose_and_double_nothing(tmp_path: Path) -> None:
    chart = tmp_path / "chart.svg"
    out = run("examples.board", "--all", "--days", "2", "--chart", str(chart))
    assert "ok  0 lost, 0 duplicated" in out
    assert "ok  alerts: exactly those" in out
    assert "ok  cancelled: exactly those" in out
    assert "ok  archive: exactly those" in out
    assert "ok  the journal explains every message" in out
    assert ET.parse(chart).getroot().tag.endswith("svg")


def test_the_output_of_one_pipeline_fits_on_a_screen_beside_that_of_the_flights() -> None:
    out = run("examples.board", "--days", "1")
    assert len(out.splitlines()) <= 28


@pytest.mark.fact("spark-pipeline 8.2")
def test_flights_find_their_weather_and_late_ones_are_dropped() -> None:
    out = run("examples.weather")
    assert "290 flights left late in bad weather; 20 came too late" in out
    assert out.count("KiB in the state") >= 2
    assert out.count("  ok ") == 3


@pytest.mark.fact("spark-pipeline 8.3")
def test_the_audit_explains_every_message_and_replays_an_hour() -> None:
    out = run("examples.audit")
    assert "694 handled, 6 refused, 150 left alone" in out
    assert out.count("  ok ") == 3
