"""Properties by which a message asks the broker to deliver it later. (ActiveMQ ScheduledMessage)

A broker with `scheduler_support` obeys them, ActiveMQ with `schedulerSupport`; others deliver at
once. Delays and periods are milliseconds. What is delivered has `scheduledJobId` instead.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "AMQ_SCHEDULED_CRON",
    "AMQ_SCHEDULED_DELAY",
    "AMQ_SCHEDULED_ID",
    "AMQ_SCHEDULED_PERIOD",
    "AMQ_SCHEDULED_REPEAT",
    "AMQ_SCHEDULER_ACTION",
    "AMQ_SCHEDULER_ACTION_BROWSE",
    "AMQ_SCHEDULER_ACTION_END_TIME",
    "AMQ_SCHEDULER_ACTION_REMOVE",
    "AMQ_SCHEDULER_ACTION_REMOVEALL",
    "AMQ_SCHEDULER_ACTION_START_TIME",
    "AMQ_SCHEDULER_MANAGEMENT_DESTINATION",
    "PYJMS_NEXT_TIME",
]

AMQ_SCHEDULED_DELAY: Final = "AMQ_SCHEDULED_DELAY"
"""Milliseconds until the first delivery."""
AMQ_SCHEDULED_PERIOD: Final = "AMQ_SCHEDULED_PERIOD"
"""Milliseconds between two deliveries."""
AMQ_SCHEDULED_REPEAT: Final = "AMQ_SCHEDULED_REPEAT"
"""How often it is delivered again after the first time; negative: for ever."""
AMQ_SCHEDULED_CRON: Final = "AMQ_SCHEDULED_CRON"
"""Minute, hour, day of month, month, day of week: `0 6 * * 1-5`."""
AMQ_SCHEDULED_ID: Final = "scheduledJobId"
"""Of a delivered message, and of a request to remove one: the job's id."""
AMQ_SCHEDULER_MANAGEMENT_DESTINATION: Final = "ActiveMQ.Scheduler.Management"
"""The topic that takes requests."""
AMQ_SCHEDULER_ACTION: Final = "AMQ_SCHEDULER_ACTION"
"""What a request asks for: BROWSE (with a reply destination), REMOVE or REMOVEALL."""
AMQ_SCHEDULER_ACTION_BROWSE: Final = "BROWSE"
AMQ_SCHEDULER_ACTION_REMOVE: Final = "REMOVE"
AMQ_SCHEDULER_ACTION_REMOVEALL: Final = "REMOVEALL"
AMQ_SCHEDULER_ACTION_START_TIME: Final = "ACTION_START_TIME"
"""Milliseconds since 1970: of BROWSE and REMOVEALL, with the other."""
AMQ_SCHEDULER_ACTION_END_TIME: Final = "ACTION_END_TIME"
PYJMS_NEXT_TIME: Final = "PyJMSNextTime"
"""Of answers to BROWSE, of this broker: when the job is due, in milliseconds since 1970."""
