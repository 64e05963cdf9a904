"""A job: the schedule of a message to be sent later.

Times are milliseconds since 1970, delays and periods are milliseconds, as in the messages'
properties and in the journal. (activemq-persistence E3, E4)
"""

from __future__ import annotations

from typing import Final, NamedTuple

DEFAULT_SCHEDULER: Final = "JMS"
"""The name of the scheduler for messages delayed by clients."""
EARLIEST: Final = 0
LATEST: Final = (1 << 63) - 1
"""The range of times that the journal can represent."""


class ScheduledJob(NamedTuple):
    """The schedule and state of a message to be sent later, without the message."""

    job_id: str
    start_time: int
    """The time at which it was added."""
    next_time: int
    """The time at which it is due."""
    cron_entry: str = ""
    """A cron entry of five fields; empty if there is none."""
    delay: int = 0
    period: int = 0
    repeat: int = 0
    """The number of repetitions after `next_time`; negative: unlimited."""
    execution_count: int = 0
    """The number of times it was sent."""
