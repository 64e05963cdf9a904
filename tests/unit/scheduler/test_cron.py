"""Cron entries with ActiveMQ's syntax."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from pyjms.errors import MessageFormatException
from pyjms_broker.filters.scheduler.cron import next_tick


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    monkeypatch.setenv("TZ", getattr(request, "param", "UTC"))
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def ticks(entry: str, start: str, count: int) -> list[str]:
    at = int(datetime.fromisoformat(start).timestamp() * 1000)
    found = []
    for _ in range(count):
        at = next_tick(entry, at)
        assert at % 60_000 == 0
        local = datetime.fromtimestamp(at / 1000)  # noqa: DTZ006
        found.append(local.isoformat(" ", "minutes"))
    return found


@pytest.mark.fact("activemq-broker S7")
@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize(
    ("entry", "start", "expected"),
    [
        ("* * * * *", "2026-11-22 10:00:00", ["2026-11-22 10:01", "2026-11-22 10:02"]),
        ("? ? ? ? ?", "2026-11-22 10:00:59", ["2026-11-22 10:01", "2026-11-22 10:02"]),
        ("30 6 * * *", "2026-11-22 06:30:00", ["2026-11-23 06:30", "2026-11-24 06:30"]),
        ("0,15 9-10 * * *", "2026-11-22 09:00:00", ["2026-11-22 09:15", "2026-11-22 10:00"]),
        ("*/20 * * * *", "2026-11-22 10:20:00", ["2026-11-22 10:40", "2026-11-22 11:00"]),
        ("0 0 1-30/7 * *", "2026-11-22 10:00", ["2026-11-28 00:00", "2026-12-07 00:00"]),
        ("0 8 * * 0", "2026-11-22 09:00", ["2026-11-29 08:00", "2026-12-06 08:00"]),
        ("0 8 * * 1-5", "2026-11-20 09:00", ["2026-11-23 08:00", "2026-11-24 08:00"]),
        ("0 0 29 2 *", "2026-11-22 09:00", ["2028-02-29 00:00", "2032-02-29 00:00"]),
        ("59 23 31 12 *", "2026-12-31 23:59", ["2027-12-31 23:59", "2028-12-31 23:59"]),
        ("0 0 13 * 5", "2026-02-28 10:00", ["2026-03-06 00:00", "2026-03-13 00:00"]),
    ],
)
def test_times_of_an_entry(entry: str, start: str, expected: list[str]) -> None:
    assert ticks(entry, start, 2) == expected


@pytest.mark.fact("activemq-broker S7")
@pytest.mark.parametrize("zone", ["Europe/Berlin"], indirect=True)
def test_times_are_local_across_daylight_saving_changes(zone: None) -> None:
    assert os.environ["TZ"] == "Europe/Berlin"
    assert ticks("30 2 * * *", "2026-03-28 12:00", 2)[1] == "2026-03-30 02:30"
    assert len(set(ticks("30 2 * * *", "2026-03-28 12:00", 3))) == 3
    autumn = ticks("30 2 * * *", "2026-10-24 12:00", 3)
    assert autumn == ["2026-10-25 02:30", "2026-10-26 02:30", "2026-10-27 02:30"]


@pytest.mark.fact("activemq-broker S7")
@pytest.mark.parametrize("zone", ["Europe/Berlin"], indirect=True)
@pytest.mark.parametrize("hour", ["*", "?"])
def test_an_hour_that_occurs_twice_fires_twice_if_unrestricted(zone: None, hour: str) -> None:
    start = int(datetime(2026, 10, 25, 1, 30).timestamp() * 1000)  # noqa: DTZ001
    at, found = start, []
    for _ in range(6):
        at = next_tick(f"*/30 {hour} * * *", at)
        found.append((at - start) // 60_000)
    assert found == [30, 60, 90, 120, 150, 180]
    assert ticks("0 2-3 * * *", "2026-10-25 01:30", 2) == ["2026-10-25 02:00", "2026-10-25 03:00"]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kathmandu", "UTC"], indirect=True)
@pytest.mark.parametrize("entry", ["* * * * *", "7,41 * * * *", "5 3,17 * * *", "0 0 1 * 1"])
def test_the_next_time_is_the_first_matching_minute(zone: None, entry: str) -> None:
    minutes, hours, *_ = (
        range(60) if field == "*" else [int(each) for each in field.split(",")]
        for field in entry.split()
    )
    start = int(datetime(2026, 10, 31, 22, 58).timestamp() * 1000)  # noqa: DTZ001
    for late in range(0, 6 * 3_600_000, 437_000):
        at = next_tick(entry, start + late)
        passed = range((start + late) // 60_000 + 1, at // 60_000 + 1)
        moments = [datetime.fromtimestamp(minute * 60) for minute in passed]  # noqa: DTZ006
        fires = [m.minute in minutes and m.hour in hours for m in moments]
        if entry.startswith("0 0"):
            fires = [
                due and (m.day == 1 or m.weekday() == 0)
                for due, m in zip(fires, moments, strict=True)
            ]
        assert fires.index(True) == len(fires) - 1


@pytest.mark.fact("activemq-broker S7")
@pytest.mark.parametrize(
    ("entry", "wrong"),
    [
        ("* * * *", "4 fields"),
        ("* * * * * *", "6 fields"),
        ("", "0 fields"),
        ("60 * * * *", "minute"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day of month"),
        ("* * * 13 *", "month"),
        ("* * * * 7", "day of week"),
        ("* * * * MON", "day of week"),
        ("5-1 * * * *", "minute"),
        ("*/0 * * * *", "minute"),
        ("*/x * * * *", "minute"),
        ("1-5/7 * * * *", "minute"),
        (", * * * *", "minute"),
        ("² * * * *", "minute"),
        ("0 0 31 2 *", "matches no day"),
        ("1," * 1000 + "1 * * * *", "fields"),
    ],
)
def test_an_invalid_entry_is_refused_by_its_field(entry: str, wrong: str) -> None:
    with pytest.raises(MessageFormatException, match=wrong):
        next_tick(entry, 1_700_000_000_000)
