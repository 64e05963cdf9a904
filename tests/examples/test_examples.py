"""Every example runs as a separate program and prints the documented output."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kit.processes.forked_python import run_python

ROOT = Path(__file__).resolve().parents[2]


def run(*args: str, **environment: str) -> str:
    done = run_python(*args, cwd=ROOT, timeout=120, env={**os.environ, **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_topic_every_subscriber_gets_every_text() -> None:
    assert sorted(run("examples/topic.py").splitlines()) == sorted(
        f"subscriber {s}: text {t}" for s in (1, 2) for t in (1, 2, 3)
    )


def test_queue_failure_ends_in_the_dead_letter_queue() -> None:
    out = run("examples/queue_failure.py")
    assert "handled good" in out
    assert "handled better" in out
    assert "dead after 7 attempts: bad" in out
    assert "Delivery[7] exceeds redelivery policy limit" in out


def test_plain_api_receives_what_it_sent() -> None:
    assert run("examples/plain_api.py").splitlines() == [f"received Hello {n}" for n in range(1, 6)]


@pytest.mark.timeout(150)
def test_flights_every_number_adds_up() -> None:
    out = run("-m", "examples.flights", PYJMS_APP__RECORDS="1000")  # all of them: make run
    assert out.count("  ok ") == 4
    assert "NOT" not in out
    lines = out.splitlines()
    assert len(lines) <= 18  # with those of examples.board on one screen
    assert max(map(len, lines)) < 140


def test_the_tutorial_s_texts_arrive_as_its_readme_says() -> None:
    lines = run("-m", "examples.tutorial")
    readme = (ROOT / "examples" / "tutorial" / "README.md").read_text(encoding="utf-8")
    assert lines == readme.split("```text\n")[1].split("```")[0]
