"""Properties of ActiveMQ's ScheduledMessage, which request a later delivery by the broker.

Brokers with `scheduler_support` (ActiveMQ: `schedulerSupport`) honour them; others deliver at once.
Delays and periods are milliseconds. The delivered message has `scheduledJobId` instead.
"""

from __future__ import annotations

from typing import Final

AMQ_SCHEDULED_DELAY: Final = "AMQ_SCHEDULED_DELAY"
"""Milliseconds until the first delivery."""
AMQ_SCHEDULED_PERIOD: Final = "AMQ_SCHEDULED_PERIOD"
"""Milliseconds between two deliveries."""
AMQ_SCHEDULED_REPEAT: Final = "AMQ_SCHEDULED_REPEAT"
"""The number of deliveries after the first one; negative: no limit."""
AMQ_SCHEDULED_CRON: Final = "AMQ_SCHEDULED_CRON"
"""Minute, hour, day of month, month, day of week: `0 6 * * 1-5`."""
AMQ_SCHEDULED_ID: Final = "scheduledJobId"
"""The id of the job, in a delivered message and in a request to remove the job."""
AMQ_SCHEDULER_MANAGEMENT_DESTINATION: Final = "ActiveMQ.Scheduler.Management"
"""The topic for requests to the scheduler."""
AMQ_SCHEDULER_ACTION: Final = "AMQ_SCHEDULER_ACTION"
"""The kind of a request: BROWSE (with a reply destination), REMOVE or REMOVEALL."""
AMQ_SCHEDULER_ACTION_BROWSE: Final = "BROWSE"
AMQ_SCHEDULER_ACTION_REMOVE: Final = "REMOVE"
AMQ_SCHEDULER_ACTION_REMOVEALL: Final = "REMOVEALL"
AMQ_SCHEDULER_ACTION_START_TIME: Final = "ACTION_START_TIME"
"""The start of the time range of BROWSE and REMOVEALL, in milliseconds since 1970."""
AMQ_SCHEDULER_ACTION_END_TIME: Final = "ACTION_END_TIME"
"""The end of that range."""
PYJMS_NEXT_TIME: Final = "PyJMSNextTime"
"""In replies of this broker to BROWSE: when the job is due, in milliseconds since 1970."""
JMS_DELIVERY_TIME: Final = "JMSDeliveryTime"
"""JMS 2.0's delivery time, as a property."""
