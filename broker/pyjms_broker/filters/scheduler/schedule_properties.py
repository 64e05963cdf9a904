"""The AMQ_SCHEDULED_* properties of a message, which define its schedule, and its limits.

Scheduled deliveries are sent by the broker, which may write to its internal queues. Without
`check_target`, a client could reach them through a schedule: a message in `PyJMS.Scheduled` that is
not a schedule request would stay there forever, and a lease request would have no owner.

A broker without a scheduler delivers messages with these properties at once, like ActiveMQ. Unlike
ActiveMQ, it logs that once per destination, with the name of the setting. A message that also has
the JMS header of its delivery time was sent with a delivery delay: JMS forbids to deliver it before
that time, so it is refused. (activemq-broker S1 to S4, S12)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pyjms.errors import IllegalStateException, MessageFormatException
from pyjms.jms.destination import Destination
from pyjms.jms.destination import Queue as QueueDestination
from pyjms.jms.scheduled import (
    AMQ_SCHEDULED_CRON,
    AMQ_SCHEDULED_DELAY,
    AMQ_SCHEDULED_ID,
    AMQ_SCHEDULED_PERIOD,
    AMQ_SCHEDULED_REPEAT,
    JMS_DELIVERY_TIME,
)
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ProducerExchange
from pyjms_broker.api.names import is_internal
from pyjms_broker.filters.scheduler.cron import next_tick
from pyjms_broker.store.jobs.api import ScheduledJob

logger = get_logger(__name__)

SCHEDULE_PROPERTIES: Final = (
    AMQ_SCHEDULED_DELAY,
    AMQ_SCHEDULED_PERIOD,
    AMQ_SCHEDULED_REPEAT,
    AMQ_SCHEDULED_CRON,
)
_TRIGGERS: Final = (AMQ_SCHEDULED_DELAY, AMQ_SCHEDULED_PERIOD, AMQ_SCHEDULED_CRON)
"""Properties that each make a message a scheduled one, unlike AMQ_SCHEDULED_REPEAT alone."""
PREFIX: Final = b"AMQ_SCHEDULED_"
"""Bytes in the marshalled properties of every message that may have a schedule."""
_MAX_NUMBER: Final = 1 << 53
"""Milliseconds beyond any calendar; sums of such times still fit in eight bytes."""


class ScheduleProperties(NamedTuple):
    """The schedule of a message; delay and period in milliseconds, as in the properties."""

    delay: int
    period: int
    repeat: int
    cron: str

    def job(self, job_id: str, now: int) -> ScheduledJob:
        """Return the job that starts at `now`, in milliseconds since the epoch."""
        start = next_tick(self.cron, now) if self.cron else now
        wait = self.delay if self.delay > 0 else max(self.period, 0)
        return ScheduledJob(
            job_id, now, start + wait, self.cron, self.delay, self.period, self.repeat
        )


def read_schedule(message: ActiveMQMessage, max_repeat: int) -> ScheduleProperties | None:
    """Return the schedule of a message; None if it should be delivered now."""
    marshalled = message.marshalled_properties
    if marshalled is None or PREFIX not in marshalled:
        return None
    properties = message.properties
    if not _asks(properties):
        return None
    schedule = ScheduleProperties(
        number_of(properties, AMQ_SCHEDULED_DELAY) or 0,
        number_of(properties, AMQ_SCHEDULED_PERIOD) or 0,
        number_of(properties, AMQ_SCHEDULED_REPEAT) or 0,
        _cron_of(properties),
    )
    _check(schedule, max_repeat)
    return schedule


def asks_for_schedule(message: ActiveMQMessage) -> bool:
    """Return whether a broker with a scheduler would not deliver the message at once."""
    return _asks(message.properties)


def _asks(properties: Mapping[str, object]) -> bool:
    triggered = any(name in properties for name in _TRIGGERS)
    return triggered and AMQ_SCHEDULED_ID not in properties


def number_of(properties: Mapping[str, object], name: str) -> int | None:
    """Return an integer property, which may be a string of digits; None if it is not set."""
    value = properties.get(name)
    if value is None:
        return None
    try:
        number = int(value) if isinstance(value, str) else value
    except ValueError:
        number = None
    if not isinstance(number, int) or isinstance(number, bool):
        raise MessageFormatException(f"Property {name} is not an integer", hint="set it to a long")
    if abs(number) > _MAX_NUMBER:
        raise MessageFormatException(
            f"Property {name} is too large: {number}", hint=f"use {_MAX_NUMBER} at most"
        )
    return number


def _cron_of(properties: Mapping[str, object]) -> str:
    value = properties.get(AMQ_SCHEDULED_CRON)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MessageFormatException(
            f"Property {AMQ_SCHEDULED_CRON} is not a string",
            hint="set it to a cron entry such as `30 6 * * 1-5`",
        )
    return value.strip()


def _check(schedule: ScheduleProperties, max_repeat: int) -> None:
    if schedule.repeat > max_repeat:
        raise MessageFormatException(
            "The scheduled repeat value is too large",  # ActiveMQ's message
            hint=f"use {max_repeat} at most (max_scheduler_repeat_allowed), or -1 for no limit",
        )
    if schedule.cron:
        next_tick(schedule.cron, _clock.time_ms())
    if schedule.repeat < 0 and schedule.cron:
        raise MessageFormatException(
            f"{AMQ_SCHEDULED_REPEAT} is endless for each time of {AMQ_SCHEDULED_CRON}",
            hint=f"set {AMQ_SCHEDULED_REPEAT} to a number, or leave it out",
        )
    if schedule.repeat < 0 and schedule.period <= 0:
        raise MessageFormatException(
            f"{AMQ_SCHEDULED_REPEAT} is endless without {AMQ_SCHEDULED_PERIOD}",
            hint=f"set {AMQ_SCHEDULED_PERIOD} to the milliseconds between two deliveries",
        )


SCHEDULED: Final = QueueDestination("PyJMS.Scheduled")


def check_source(destination: Destination) -> None:
    """Check that a client does not send to the queue of schedule requests, even in a composite."""
    if is_internal(destination) and SCHEDULED in destination.composite_destinations:
        raise IllegalStateException(
            f"{SCHEDULED} is reserved for the scheduler",
            hint="send to the destination itself, with AMQ_SCHEDULED_DELAY",
        )


def check_target(destination: Destination) -> None:
    """Check that a scheduled delivery or reply does not go to an internal queue."""
    if is_internal(destination):
        raise IllegalStateException(
            f"{destination} is reserved for the broker: the scheduler does not send to it"
        )


MAXIMUM_WARNINGS: Final = 100
"""The maximum number of logged destinations, whose names are chosen by clients."""


class UnscheduledSendsBroker(BrokerFilter):
    """Delivers scheduled messages at once, with a warning, and refuses delivery delays."""

    passes_plain = True

    def __init__(self, next_broker: Broker) -> None:
        super().__init__(next_broker)
        self._warned: set[Destination] = set()

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        marshalled = message.marshalled_properties
        if marshalled is not None and PREFIX in marshalled and not exchange.context.is_broker:
            self._check(message, is_bridge=exchange.context.network_connection)
        return self.next.send(exchange, message)

    def _check(self, message: ActiveMQMessage, *, is_bridge: bool) -> None:
        to, warned = message.destination, self._warned
        # a bridge would send what is refused again, for ever
        may_be_refused = JMS_DELIVERY_TIME in message.properties and not is_bridge
        if to is None or (to in warned and not may_be_refused):
            return
        if not asks_for_schedule(message):
            return
        if may_be_refused:
            raise IllegalStateException(
                f"{to}: a message with a delivery delay is refused, because this broker has no "
                "scheduler: set scheduler_support: true (in a URL: schedulerSupport=true)"
            )
        if len(warned) < MAXIMUM_WARNINGS:
            warned.add(to)
            logger.warning(
                "%s: a message with a delay or schedule (AMQ_SCHEDULED_*) is delivered at once, "
                "because this broker has no scheduler; set scheduler_support: true (in a URL: "
                "schedulerSupport=true)",
                to,
            )
