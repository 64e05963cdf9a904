"""The log of failing handlers: few lines, with the information that an operator needs."""

from __future__ import annotations

import json
import logging
import traceback

import pytest

from pyjms import PyjmsSettings, jms_listener
from pyjms.testing.app import JmsTestApp
from pyjms.testing.clock import VirtualClock


def _lines(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [r for r in caplog.records if r.name.startswith("pyjms.") and r.levelno >= 30]


def _charge(number: str) -> None:
    raise RuntimeError(f"no money for {number}")


async def test_the_first_attempt_has_a_traceback_and_the_last_one_the_outcome(
    jms_app: JmsTestApp, caplog: pytest.LogCaptureFixture
) -> None:
    @jms_listener("orders", id="orders")
    async def handle(text: str) -> None:
        _charge(text)

    given = {"activemq": {"redelivery": {"maximum": 2}}, "logging": {"tracebacks": True}}
    await jms_app.start(handle, settings=PyjmsSettings.model_validate(given))
    await jms_app.template.convert_and_send("orders", "7")
    await jms_app.drained("orders")
    first, second, last = _lines(caplog)
    assert "attempt 1 of 3: RuntimeError: no money for 7" in first.getMessage()
    assert first.exc_info is not None
    frames = traceback.extract_tb(first.exc_info[2])
    assert [frame.name for frame in frames] == ["handle", "_charge"]
    assert "attempt 2 of 3: RuntimeError: no money for 7" in second.getMessage()
    assert second.exc_info is None
    assert "is refused after delivery 3 and becomes a dead letter" in last.getMessage()
    assert last.getMessage().startswith("Listener orders: message ID:")
    line = _charge.__code__.co_firstlineno + 1
    place = f" (test_failure_log.py:{line})"
    assert last.getMessage().endswith(f"Cause: RuntimeError: no money for 7{place}")
    [dead] = await jms_app.dead_letters()
    assert {(r.destination, r.message_id) for r in (first, second, last)} == {  # type: ignore[attr-defined]  # by `extra`
        ("orders", dead.message_id)
    }
    assert dead.properties["pyjms_failure_type"] == "RuntimeError"
    assert dead.properties["pyjms_failure_text"] == "no money for 7"


async def test_a_blocking_handlers_traceback_is_its_own(
    jms_app: JmsTestApp, caplog: pytest.LogCaptureFixture
) -> None:
    @jms_listener("orders")
    def handle(text: str) -> None:
        _charge(text)

    given = {"activemq": {"redelivery": {"maximum": 1}}, "logging": {"tracebacks": True}}
    await jms_app.start(handle, settings=PyjmsSettings.model_validate(given))
    await jms_app.template.convert_and_send("orders", "7")
    await jms_app.drained("orders")
    first = _lines(caplog)[0]
    assert first.exc_info is not None
    assert [f.name for f in traceback.extract_tb(first.exc_info[2])] == ["handle", "_charge"]


async def test_a_failure_is_one_line_that_names_where(
    jms_app: JmsTestApp, caplog: pytest.LogCaptureFixture
) -> None:
    @jms_listener("orders", id="orders")
    def handle(text: str) -> None:
        json.loads(text)  # the line of the handler is named, not that of the library

    await jms_app.start(handle)
    await jms_app.template.convert_and_send("orders", "{", correlation_id="c1")
    await jms_app.drained("orders")
    lines = _lines(caplog)
    assert [record.exc_info for record in lines] == [None] * 7
    line = handle.__code__.co_firstlineno + 2
    for record in lines:
        assert record.getMessage().startswith("Listener orders")
        assert record.getMessage().endswith(f" (test_failure_log.py:{line})")
    assert vars(lines[0])["correlation_id"] == "c1"


@pytest.mark.parametrize("stopped", [True, False])
async def test_repeated_dead_letters_are_summed_up(
    stopped: bool, jms_app: JmsTestApp, jms_clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    @jms_listener("orders")
    async def handle(number: int) -> None:
        raise AssertionError("it is no number")

    await jms_app.start(handle)
    for _ in range(29):
        await jms_app.template.convert_and_send("orders", "x")
    await jms_app.drained("orders")
    assert len(_lines(caplog)) == 3
    if stopped:
        await jms_app.stop()
    else:
        await jms_clock.advance(2.0)
    assert len(_lines(caplog)) == 4
    summary = _lines(caplog)[-1].getMessage()
    assert summary.startswith("26 more messages were refused in ")
    assert summary.endswith("and become dead letters: 26 of queue://orders")
    assert len(await jms_app.dead_letters()) == 29


async def test_a_later_burst_is_logged_separately(
    jms_app: JmsTestApp, jms_clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    @jms_listener("orders")
    async def handle(number: int) -> None:
        raise AssertionError("it is no number")

    await jms_app.start(handle)
    for _ in range(2):
        for _ in range(3):
            await jms_app.template.convert_and_send("orders", "x")
        await jms_app.drained("orders")
        await jms_clock.advance(2.5)
    assert len(_lines(caplog)) == 6
