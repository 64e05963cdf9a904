"""Cron entries in the spelling of brokers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from pyjms.jms.cron import normalize_cron
from pyjms_broker.filters.scheduler.cron import next_tick


@pytest.mark.parametrize(
    ("entry", "normalized"),
    [
        ("0 6 * * 1-5", "0 6 * * 1-5"),
        ("*/5 * * * *", "0,5,10,15,20,25,30,35,40,45,50,55 * * * *"),
        ("*/20 9-17 ? * MON-FRI", "0,20,40 9-17 * * 1-5"),
        ("5/15 * * * *", "5,20,35,50 * * * *"),
        ("10-40/15 0 1 jan,JUL *", "10,25,40 0 1 1,7 *"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * 5-7", "0 0 * * 0,5,6"),
        ("0-59 * * * *", "* * * * *"),
        ("1,2 1,2,3 * * *", "1,2 1-3 * * *"),
        ("0 0 */10 * *", "0 0 1,11,21,31 * *"),
        ("@hourly", "0 * * * *"),
        ("@Daily", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("0 */30 * * * *", "0,30 * * * *"),  # Spring's six fields
    ],
)
def test_entries(entry: str, normalized: str) -> None:
    assert normalize_cron(entry) == normalized
    assert normalize_cron(normalized) == normalized


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("", "write minute, hour"),
        ("* * * *", "write minute, hour"),
        ("*/10 * * * * *", "schedulers of brokers fire at second 0"),
        ("60 * * * *", "the minute '60' is invalid"),
        ("* 24 * * *", "the hour '24'"),
        ("* * 0 * *", "the day of month '0'"),
        ("* * * 13 *", "the month '13'"),
        ("* * * * 8", "the day of week '8'"),
        ("* * * * FRI-MON", "the day of week 'FRI-MON'"),
        ("*/0 * * * *", "the minute"),
        ("5-1 * * * *", "the minute"),
        ("x * * * *", "the minute"),
        ("- * * * *", "the minute"),
        ("0 0 L * *", "the day of month 'L'"),
        ("@never", "write minute, hour"),
        ("0 0 13 * 5", "both restricted"),
    ],
)
def test_invalid_entries(entry: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        normalize_cron(entry)


@functools.cache
def minutes_of_forty_days() -> list[datetime]:
    start = datetime(2024, 2, 27, 23, 58, tzinfo=datetime.now().astimezone().tzinfo)
    return [start + timedelta(minutes=number) for number in range(40 * 24 * 60)]


@pytest.mark.parametrize(
    ("entry", "fires"),
    [
        ("*/7 * * * *", lambda t: t.minute % 7 == 0),
        ("15 */5 * * *", lambda t: t.hour % 5 == 0 and t.minute == 15),
        ("0 0 */2 * *", lambda t: t.day % 2 == 1 and t.hour == t.minute == 0),
        ("30 6 * 2,6/3 *", lambda t: t.month in (2, 6, 9, 12) and (t.hour, t.minute) == (6, 30)),
        (
            "0 12 * * SUN,2-4",
            lambda t: t.isoweekday() in (7, 2, 3, 4) and t.hour == 12 and not t.minute,
        ),
        ("@monthly", lambda t: (t.day, t.hour, t.minute) == (1, 0, 0)),
    ],
)
def test_the_bundled_broker_fires_when_cron_does(
    entry: str, fires: Callable[[datetime], bool]
) -> None:
    start, *minutes = minutes_of_forty_days()
    wanted = [int(moment.timestamp() * 1000) for moment in minutes if fires(moment)]
    now, found = int(start.timestamp() * 1000), []
    for _ in wanted:
        now = next_tick(normalize_cron(entry), now)
        found.append(now)
    assert len(wanted) > 1
    assert found == wanted
