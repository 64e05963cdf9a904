"""Normalisation of cron entries, so that all brokers' schedulers interpret them in the same way.

ActiveMQ's scheduler supports five numeric fields, and for `/n` selects the values divisible by n.
So names, macros and steps are replaced by numbers before an entry is sent: `*/20 9-17 * * MON-FRI`
becomes `0,20,40 9-17 * * 1-5`. (activemq-broker S7)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_MONTHS: Final = "jan feb mar apr may jun jul aug sep oct nov dec"
_DAYS: Final = "sun mon tue wed thu fri sat"
_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_WITH_SECONDS: Final = 6


@dataclass(frozen=True)
class _Field:
    name: str
    first: int
    last: int
    names: str = ""

    def number(self, text: str) -> int:
        if text.isascii() and text.isdigit():
            return int(text)
        names = self.names.split()
        if text.lower() in names:
            return names.index(text.lower()) + self.first
        raise ValueError

    def values(self, text: str) -> list[int]:
        """Return the values of one part of the field, such as `5`, `1-5`, `*/15` or `5/15`."""
        span, slash, step = text.partition("/")
        first, dash, last = span.partition("-")
        if span in ("*", "?"):
            start, end = self.first, self.last
        else:
            start = self.number(first)
            end = self.number(last) if dash else self.last if slash else start
        width = self.number(step) if slash else 1
        if not (self.first <= start <= end <= self.limit and width >= 1):
            raise ValueError
        return list(range(start, end + 1, width))

    @property
    def limit(self) -> int:
        """The largest number that may be written: Sunday is 0 and 7."""
        return 7 if self.name == "day of week" else self.last

    def normalize(self, text: str) -> str:
        found = {value for part in text.split(",") for value in self.values(part)}
        if self.name == "day of week":
            found = {value % 7 for value in found}
        if len(found) == self.last - self.first + 1:
            return "*"
        return ",".join(_runs(sorted(found)))


_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 6, _DAYS),
)


def normalize_cron(entry: str) -> str:
    """Return the entry with five fields of numbers: minute, hour, day, month, day of week.

    Names (`MON`, `JAN`), steps (`*/5`, `10-40/5`), `?`, the macros `@hourly`, `@daily`, `@weekly`,
    `@monthly` and `@yearly`, and six fields whose first field, the seconds of Spring's entries, is
    0, are also accepted.
    """
    fields = _MACROS.get(entry.strip().lower(), entry).split()
    if len(fields) == _WITH_SECONDS and fields[0] in ("0", "00"):
        del fields[0]
    if len(fields) != len(_FIELDS):
        seconds = len(fields) == _WITH_SECONDS
        raise ValueError(
            f"Invalid cron entry {entry!r}: "
            + (
                "schedulers of brokers fire at second 0: write 0 as its seconds, or use fixed_rate"
                if seconds
                else "write minute, hour, day of month, month and day of week, as in '0 6 * * 1-5'"
            )
        )
    found = []
    for field, text in zip(_FIELDS, fields, strict=True):
        try:
            found.append(field.normalize(text))
        except ValueError:
            raise ValueError(
                f"Invalid cron entry {entry!r}: the {field.name} {text!r} is invalid: write "
                f"numbers from {field.first} to {field.last} as n, n-m, n,m, * or */n"
            ) from None
    if found[2] != "*" and found[4] != "*":
        raise ValueError(
            f"Invalid cron entry {entry!r}: day of month and day of week are both restricted, "
            "which brokers interpret differently: use two schedules"
        )
    return " ".join(found)


def _runs(values: list[int]) -> list[str]:
    """Return the values, with ranges for three or more consecutive ones."""
    runs: list[list[int]] = []
    for value in values:
        if runs and runs[-1][-1] == value - 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    texts: list[str] = []
    for run in runs:
        texts += [f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(value) for value in run]
    return texts
