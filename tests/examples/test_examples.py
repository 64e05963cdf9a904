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


@pytest.mark.timeout(150)
@pytest.mark.fact("spring-jms 11.6")
def test_virtual_topic_six_texts_42_calls_6_dead_letters() -> None:
    lines = run("examples/virtual_topic.py").splitlines()
    assert lines[-1] == "6 texts, 42 calls, 6 dead letters"
    assert sorted(lines[:-1]) == [f"queue: text {n}" for n in range(1, 7)]


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


@pytest.mark.fact("jms-api 2.13")
def test_listener_and_receive_do_not_go_together() -> None:
    assert (
        "IllegalStateException: Cannot synchronously receive a message when a MessageListener is set"
        in run("examples/listener_and_receive.py")
    )


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
