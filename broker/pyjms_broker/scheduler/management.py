"""Management requests on the topic ActiveMQ.Scheduler.Management: list and remove jobs.

(activemq-broker S8; activemq-persistence E4)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyjms import _clock, _wakeup
from pyjms.errors import JMSException, MessageFormatException
from pyjms.jms.destination import Destination
from pyjms.jms.scheduled import (
    AMQ_SCHEDULED_ID,
    AMQ_SCHEDULER_ACTION,
    AMQ_SCHEDULER_ACTION_BROWSE,
    AMQ_SCHEDULER_ACTION_END_TIME,
    AMQ_SCHEDULER_ACTION_REMOVE,
    AMQ_SCHEDULER_ACTION_REMOVEALL,
    AMQ_SCHEDULER_ACTION_START_TIME,
    AMQ_SCHEDULER_MANAGEMENT_DESTINATION,
)
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import COMPLETED, Completion, wait_for
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.region.flow.flow_control import abort_blocked_sends
from pyjms_broker.scheduler.deliveries import Deliveries
from pyjms_broker.scheduler.reserved_queues import check_target
from pyjms_broker.scheduler.schedule_properties import number_of, properties_of
from pyjms_broker.store.jobs.api import EARLIEST, LATEST, JobScheduler

__all__ = ["Management", "is_management"]

_TOPIC: Final = AMQ_SCHEDULER_MANAGEMENT_DESTINATION.lower()
_MAX_BROWSE_REQUESTS: Final = 100
"""The maximum number of concurrent lists of one connection."""


def is_management(destination: Destination | None) -> bool:
    """Return whether a destination is the management topic, ignoring case."""
    return (
        destination is not None
        and destination.is_topic
        and destination.physical_name.lower() == _TOPIC
    )


class Management:
    """Executes the requests. Lists are sent in background tasks, one message at a time."""

    def __init__(self, jobs: JobScheduler, deliveries: Deliveries, chain: Broker) -> None:
        self._jobs = jobs
        self._deliveries = deliveries
        self._chain = chain
        self._tasks: dict[_wakeup.BackgroundTask, ConnectionContext] = {}

    def serve(self, context: ConnectionContext, request: ActiveMQMessage) -> Completion:
        """Execute a request; completed when its changes are durable.

        Raises:
            MessageFormatException: the action is unknown, or a required property is missing.
            JMSException: too many lists are being sent, or the reply destination is reserved.
        """
        properties = properties_of(request)
        action = properties.get(AMQ_SCHEDULER_ACTION)
        execute = _ACTIONS.get(action) if isinstance(action, str) else None
        if execute is None:
            raise MessageFormatException(
                f"Property {AMQ_SCHEDULER_ACTION} is none of {', '.join(_ACTIONS)}"
            )
        return execute(self, context, request, properties)

    def remove_connection(self, context: ConnectionContext) -> None:
        """Stop sending lists to a client that has disconnected."""
        for task, requester in self._tasks.items():
            if requester is context:
                task.cancel()

    async def close(self) -> None:
        """Stop sending lists."""
        await _wakeup.end_tasks(*self._tasks)

    def browse(
        self, context: ConnectionContext, request: ActiveMQMessage, properties: Mapping[str, object]
    ) -> Completion:
        if request.reply_to is None:
            raise MessageFormatException(
                f"{AMQ_SCHEDULER_ACTION} {AMQ_SCHEDULER_ACTION_BROWSE} needs a reply destination",
                hint="set JMSReplyTo",
            )
        check_target(request.reply_to)
        start, end = _times(properties)
        self._tasks = {task: owner for task, owner in self._tasks.items() if not task.done}
        if sum(owner is context for owner in self._tasks.values()) >= _MAX_BROWSE_REQUESTS:
            raise JMSException(
                f"More than {_MAX_BROWSE_REQUESTS} {AMQ_SCHEDULER_ACTION_BROWSE} requests at a"
                " time on one connection",
                hint="receive the replies before sending further requests",
            )
        task = _wakeup.spawn(self._send, request.reply_to, start, end, name="list of jobs")
        self._tasks[task] = context
        return COMPLETED

    async def _send(self, to: Destination, start: int, end: int) -> None:
        context = ConnectionContext()
        exchange = ProducerExchange(context)
        try:
            for job in self._jobs.jobs(start, end):
                message = self._jobs.message(job.job_id)
                if message is not None:
                    listed = self._deliveries.listed(job, message, to)
                    await wait_for(self._chain.send(exchange, listed))
                await _clock.sleep(0)  # a long list must not block the event loop
        finally:
            abort_blocked_sends(context)

    def remove(
        self, context: ConnectionContext, request: ActiveMQMessage, properties: Mapping[str, object]
    ) -> Completion:
        job_id = properties.get(AMQ_SCHEDULED_ID)
        if not isinstance(job_id, str):
            raise MessageFormatException(
                f"{AMQ_SCHEDULER_ACTION} {AMQ_SCHEDULER_ACTION_REMOVE} needs the property"
                f" {AMQ_SCHEDULED_ID}",
                hint="set it to the id of the job",
            )
        return self._jobs.remove(job_id, sync=True)

    def remove_all(
        self, context: ConnectionContext, request: ActiveMQMessage, properties: Mapping[str, object]
    ) -> Completion:
        return self._jobs.remove_range(*_times(properties))


_Action = Callable[
    [Management, ConnectionContext, ActiveMQMessage, Mapping[str, object]], Completion
]
_ACTIONS: Final[dict[str, _Action]] = {
    AMQ_SCHEDULER_ACTION_BROWSE: Management.browse,
    AMQ_SCHEDULER_ACTION_REMOVE: Management.remove,
    AMQ_SCHEDULER_ACTION_REMOVEALL: Management.remove_all,
}


def _times(properties: Mapping[str, object]) -> tuple[int, int]:
    """Return the first and the last time of a request; all times unless both are given."""
    start = number_of(properties, AMQ_SCHEDULER_ACTION_START_TIME)
    end = number_of(properties, AMQ_SCHEDULER_ACTION_END_TIME)
    return (EARLIEST, LATEST) if start is None or end is None else (start, end)
