"""What a message orders by its properties: when it is delivered, how often.

(activemq-broker S1 to S4)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pyjms import _clock
from pyjms.errors import MessageFormatException
from pyjms.jms.scheduled import (
    AMQ_SCHEDULED_CRON,
    AMQ_SCHEDULED_DELAY,
    AMQ_SCHEDULED_ID,
    AMQ_SCHEDULED_PERIOD,
    AMQ_SCHEDULED_REPEAT,
)
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms.wire.openwire.primitives import decode_map
from pyjms_broker.scheduler.cron import next_tick
from pyjms_broker.store.jobs.api import ScheduledJob

__all__ = [
    "SCHEDULE_PROPERTIES",
    "ScheduleProperties",
    "number_of",
    "properties_of",
    "read_schedule",
]

SCHEDULE_PROPERTIES: Final = (
    AMQ_SCHEDULED_DELAY,
    AMQ_SCHEDULED_PERIOD,
    AMQ_SCHEDULED_REPEAT,
    AMQ_SCHEDULED_CRON,
)
_MARKED: Final = (AMQ_SCHEDULED_DELAY, AMQ_SCHEDULED_PERIOD, AMQ_SCHEDULED_CRON)
_BEGINNING: Final = b"AMQ_SCHEDULED_"
_LONGEST: Final = 1 << 53
"""Milliseconds: far beyond any calendar, and no time overflows its eight bytes."""


class ScheduleProperties(NamedTuple):
    """Milliseconds, as the properties have them."""

    delay: int
    period: int
    repeat: int
    cron: str

    def job(self, job_id: str, now: int) -> ScheduledJob:
        """Return the job that begins now.

        Raises:
            MessageFormatException: the cron entry never fires.
        """
        start = next_tick(self.cron, now) if self.cron else now
        wait = self.delay if self.delay > 0 else max(self.period, 0)
        return ScheduledJob(
            job_id, now, start + wait, self.cron, self.delay, self.period, self.repeat
        )


def read_schedule(message: ActiveMQMessage, most_repeats: int) -> ScheduleProperties | None:
    """Return what a message orders; None: it is to be delivered now.

    Raises:
        MessageFormatException: an order is none; the text names the property.
    """
    marshalled = message.marshalled_properties
    if marshalled is None or _BEGINNING not in marshalled:
        return None
    properties = properties_of(message)
    if AMQ_SCHEDULED_ID in properties or not any(name in properties for name in _MARKED):
        return None
    order = ScheduleProperties(
        number_of(properties, AMQ_SCHEDULED_DELAY) or 0,
        number_of(properties, AMQ_SCHEDULED_PERIOD) or 0,
        number_of(properties, AMQ_SCHEDULED_REPEAT) or 0,
        _cron_of(properties),
    )
    _check(order, most_repeats)
    return order


def properties_of(message: ActiveMQMessage) -> dict[str, object]:
    """Return the application's properties, in a dict of one's own."""
    marshalled = message.marshalled_properties
    return {} if marshalled is None else dict(decode_map(marshalled))


def number_of(properties: Mapping[str, object], name: str) -> int | None:
    """Return a number, which may be a text; None: it is not there.

    Raises:
        MessageFormatException: it is no whole number, or out of range.
    """
    value = properties.get(name)
    if value is None:
        return None
    try:
        number = int(value) if isinstance(value, str) else value
    except ValueError:
        number = None
    if not isinstance(number, int) or isinstance(number, bool):
        raise MessageFormatException(f"Property {name} is no whole number")
    if abs(number) > _LONGEST:
        raise MessageFormatException(f"Property {name} is too large: {number}")
    return number


def _cron_of(properties: Mapping[str, object]) -> str:
    value = properties.get(AMQ_SCHEDULED_CRON)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MessageFormatException(f"Property {AMQ_SCHEDULED_CRON} is no text")
    return value.strip()


def _check(order: ScheduleProperties, most_repeats: int) -> None:
    if order.repeat > most_repeats:
        raise MessageFormatException(
            "The scheduled repeat value is too large",
            hint=f"{most_repeats} at most (max_scheduler_repeat_allowed); -1 is for ever",
        )
    if order.cron:
        next_tick(order.cron, _clock.time_ms())
    if order.repeat < 0 and order.cron:
        raise MessageFormatException(
            f"{AMQ_SCHEDULED_REPEAT} is endless, of each time of {AMQ_SCHEDULED_CRON}",
            hint=f"give {AMQ_SCHEDULED_REPEAT} a number, or leave it out",
        )
    if order.repeat < 0 and order.period <= 0:
        raise MessageFormatException(
            f"{AMQ_SCHEDULED_REPEAT} is endless, without an {AMQ_SCHEDULED_PERIOD}",
            hint=f"set {AMQ_SCHEDULED_PERIOD} to the milliseconds between two deliveries",
        )
