"""Cron entries: five fields, in the machine's time zone, firing at second 0.

The syntax is ActiveMQ's: `x/n` means the values of x that are divisible by n. If day of month and
day of week are both restricted, the entry fires on a day that matches either one, as in crontab(5)
and unlike ActiveMQ. (activemq-broker S7)
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple

from pyjms.errors import MessageFormatException
from pyjms.runtime import clock as _clock
from pyjms_broker.store.jobs.api import LATEST, ScheduledJob

_MAX_LENGTH: Final = 1000
_CACHED: Final = 1000
_MINUTE: Final = 60_000
_DAYS_AHEAD: Final = 9 * 366
"""Two leap days are at most eight years apart, around 2100."""
_ALL: Final = ("*", "?")


class _Field(NamedTuple):
    name: str
    first: int
    last: int


_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12),
    _Field("day of week", 0, 6),
)


class _Cron(NamedTuple):
    """The values of an entry's fields."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool
    """Whether both day fields are restricted, so that a day has to match only one of them."""
    every_hour: bool
    """Whether the hour is unrestricted, so that an hour that occurs twice fires twice."""

    def matches(self, day: date) -> bool:
        """Return whether it fires on a day of one of its months."""
        by_month, by_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_month or by_week if self.either else by_month and by_week


@lru_cache(maxsize=_CACHED)
def _parse(entry: str) -> _Cron:
    """Parse an entry such as `30 6 * * 1-5`."""
    fields = entry.split()
    if len(fields) != len(_FIELDS) or len(entry) > _MAX_LENGTH:
        raise MessageFormatException(
            f"Invalid cron entry {entry[:80]!r}: {len(fields)} fields, {len(entry)} characters",
            hint="use five fields: minute, hour, day of month, month, day of week (0 is Sunday)",
        )
    minutes, hours, days, months, weekdays = (
        _values(text, field, entry) for text, field in zip(fields, _FIELDS, strict=True)
    )
    return _Cron(
        tuple(sorted(minutes)),
        tuple(sorted(hours)),
        days,
        months,
        weekdays,
        fields[2] not in _ALL and fields[4] not in _ALL,
        fields[1] in _ALL,
    )


def next_tick(entry: str, after_ms: int) -> int:
    """Return the next time at which the entry fires, at the start of a minute after `after_ms`.

    Times are milliseconds since the epoch.
    """
    return _next_tick(entry, after_ms // _MINUTE * _MINUTE, time.tzname)


@lru_cache(maxsize=_CACHED)  # thousands of jobs may have the same entry, and be due together
def _next_tick(entry: str, after_ms: int, _zone: tuple[str, str]) -> int:
    cron = _parse(entry)
    now = datetime.fromtimestamp(after_ms / 1000)  # noqa: DTZ006 - the machine's own zone
    day = now.date()
    end = day + timedelta(days=_DAYS_AHEAD)
    first_hour = now.hour - 1  # where the clock is set back
    while day < end:
        if day.month not in cron.months:
            day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
            first_hour = 0
            continue
        if cron.matches(day):
            for hour in cron.hours:
                if hour >= first_hour:
                    for tick in _ticks(cron, day, hour):
                        if tick > after_ms:
                            return tick
        day += timedelta(days=1)
        first_hour = 0
    raise MessageFormatException(
        f"Invalid cron entry {entry!r}: it matches no day",
        hint="use a day of month that the month has",
    )


def _ticks(cron: _Cron, day: date, hour: int) -> Iterator[int]:
    """Yield the times of an hour of a day at which the entry fires.

    When daylight saving starts, times in the skipped hour fire as if the clock had not been set.
    When it ends, an hour occurs twice: it fires twice if every hour does, otherwise once.
    """
    start = _time(day, hour, 0)
    if all(_time(day, hour, 59, fold) - start == 59 * _MINUTE for fold in (0, 1)):
        yield from (start + minute * _MINUTE for minute in cron.minutes)
        return
    first = [_time(day, hour, minute) for minute in cron.minutes]
    yield from first
    if cron.every_hour:
        second = [_time(day, hour, minute, fold=1) for minute in cron.minutes]
        yield from (late for late, early in zip(second, first, strict=True) if late > early)


def _time(day: date, hour: int, minute: int, fold: int = 0) -> int:
    moment = datetime(day.year, day.month, day.day, hour, minute, fold=fold)  # noqa: DTZ001 - local
    return int(moment.timestamp()) * 1000


def _values(text: str, field: _Field, entry: str) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        values, slash, step = part.partition("/")
        numbers = _range(values, field, entry)
        if slash:
            divisor = _number(step, field, entry)
            if divisor < 1:
                raise _invalid(field, entry)
            numbers = [number for number in numbers if number % divisor == 0]
        found.update(numbers)
    if not found:
        raise _invalid(field, entry)
    return frozenset(found)


def _range(text: str, field: _Field, entry: str) -> list[int]:
    if text in _ALL:
        return list(range(field.first, field.last + 1))
    first, dash, last = text.partition("-")
    start = _number(first, field, entry)
    end = _number(last, field, entry) if dash else start
    if not field.first <= start <= end <= field.last:
        raise _invalid(field, entry)
    return list(range(start, end + 1))


def _number(text: str, field: _Field, entry: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise _invalid(field, entry)
    return int(text)


def _invalid(field: _Field, entry: str) -> MessageFormatException:
    return MessageFormatException(
        f"Invalid cron entry {entry!r}: the {field.name} is invalid",
        hint=f"use numbers from {field.first} to {field.last} as `*`, `n`, `n-m` or `n,m`; `x/n` "
        "selects the values of x that are divisible by n",
    )


def next_time(job: ScheduledJob) -> int | None:
    """Return the next time of a job that is delivered now; None after its last delivery.

    Deliveries that were missed while the broker was down are skipped: the next time is in the
    future, on the job's original schedule.
    """
    if job.repeat < 0 and job.period <= 0:
        raise MessageFormatException(
            f"Job {job.job_id} repeats endlessly without a period",
            hint="schedule the message again, with AMQ_SCHEDULED_PERIOD",
        )
    now = _clock.time_ms()
    if job.cron_entry:
        return next_tick(job.cron_entry, now)
    if not job.repeat:
        return None
    following = _next_repetition(job, now)
    if following > LATEST:
        raise MessageFormatException(
            f"Job {job.job_id} would be due again after the latest time that can be stored",
            hint="schedule the message again, with a shorter AMQ_SCHEDULED_PERIOD",
        )
    return following


def _next_repetition(job: ScheduledJob, now: int) -> int:
    period = max(job.period, 0)
    late = now - job.next_time - period
    if late < 0 or not period:
        return job.next_time + period
    return now + period - late % period
