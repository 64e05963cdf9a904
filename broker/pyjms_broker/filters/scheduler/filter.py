"""The broker filter that intercepts scheduled messages and delivers them when due.

It also serves management requests on the topic ActiveMQ.Scheduler.Management, which list and remove
jobs. See `job_dispatcher` for the theory of operation.
(ActiveMQ SchedulerBroker; activemq-broker B1, S1 to S9; activemq-persistence E4)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Final

from pyjms.errors import IllegalStateException, JMSException, MessageFormatException
from pyjms.jms.destination import Destination
from pyjms.jms.message import DUPLICATE_ID_PROPERTY
from pyjms.jms.scheduled import (
    AMQ_SCHEDULED_ID,
    AMQ_SCHEDULER_ACTION,
    AMQ_SCHEDULER_ACTION_BROWSE,
    AMQ_SCHEDULER_ACTION_END_TIME,
    AMQ_SCHEDULER_ACTION_REMOVE,
    AMQ_SCHEDULER_ACTION_REMOVEALL,
    AMQ_SCHEDULER_ACTION_START_TIME,
    PYJMS_NEXT_TIME,
)
from pyjms.jms.types import Long
from pyjms.runtime import clock as _clock
from pyjms.runtime import event_loop as _wakeup
from pyjms.runtime.ids import IdGenerator
from pyjms.wire.openwire.commands import ActiveMQMessage, ConnectionInfo, MessageId, ProducerId
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.completion import COMPLETED, Completion, wait_for
from pyjms_broker.api.context import ConnectionContext, ProducerExchange
from pyjms_broker.api.message import copy_for_destination
from pyjms_broker.filters.scheduler.job_dispatcher import JobDispatcher, copy_of_job
from pyjms_broker.filters.scheduler.schedule_properties import (
    SCHEDULED,
    check_source,
    check_target,
    is_management,
    number_of,
    properties_of,
    read_schedule,
)
from pyjms_broker.filters.scheduler.schedule_requests import ScheduleRequests, defer_fields
from pyjms_broker.region.base_destination import ADVISORY_TYPE
from pyjms_broker.region.flow_control import abort_blocked_sends
from pyjms_broker.region.region_broker import RegionBroker
from pyjms_broker.region.system_usage import DiskUsage
from pyjms_broker.store.jobs.api import EARLIEST, LATEST, ScheduledJob
from pyjms_broker.store.jobs.scheduler import JobScheduler, JobSchedulerStore

_MAX_BROWSE_REQUESTS: Final = 100
"""The maximum number of concurrent lists of one connection."""


class Management:
    """Executes the requests. Lists are sent in background tasks, one message at a time."""

    def __init__(self, jobs: JobScheduler, chain: Broker) -> None:
        self._jobs = jobs
        self._chain = chain
        self._producer_id = ProducerId(IdGenerator().generate())
        self._sequence = itertools.count(1)
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
                    entry = self._entry(job, message, to)
                    await wait_for(self._chain.send(exchange, entry))
                await _clock.sleep(0)  # a long list must not block the event loop
        finally:
            abort_blocked_sends(context)

    def _entry(
        self, job: ScheduledJob, message: ActiveMQMessage, to: Destination
    ) -> ActiveMQMessage:
        """Return the entry of a job in the response to BROWSE."""
        copy = copy_of_job(
            job, message, (DUPLICATE_ID_PROPERTY,), {PYJMS_NEXT_TIME: Long(job.next_time)}
        )
        copy.message_id = MessageId(None, self._producer_id, next(self._sequence))
        copy.producer_id = self._producer_id
        copy.original_destination, copy.destination = message.destination, to
        copy.type = ADVISORY_TYPE
        copy.persistent = copy.response_required = False
        copy.expiration = 0
        return copy

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


class SchedulerBroker(BrokerFilter):
    """Schedules messages in a job store, which must be open from before `start` to after `stop`."""

    passes_plain = True

    def __init__(
        self,
        next_broker: Broker,
        region: RegionBroker,
        store: JobSchedulerStore,
        usage: DiskUsage,
        max_repeat_allowed: int,
    ) -> None:
        super().__init__(next_broker)
        self._max_repeat_allowed = max_repeat_allowed
        self._dispatcher = JobDispatcher(next_broker, region, store, usage)
        self._requests = ScheduleRequests(self._dispatcher, next_broker, region)
        self._management = Management(self._dispatcher.jobs, next_broker)
        self._dispatching: _wakeup.BackgroundTask | None = None

    @property
    def scheduler_support(self) -> bool:
        """Always True: messages are scheduled."""
        return True

    async def start(self) -> None:
        await self.next.start()
        self._requests.attach()
        self._dispatching = _wakeup.spawn(self._dispatcher.run, name="message scheduler")

    async def stop(self) -> None:
        await _wakeup.end_tasks(self._dispatching)
        await self._management.close()
        await self._dispatcher.close()
        await self.next.stop()

    def remove_connection(
        self, context: ConnectionContext, info: ConnectionInfo, error: Exception | None
    ) -> None:
        self._management.remove_connection(context)
        self.next.remove_connection(context, info, error)

    def remove_destination(
        self, context: ConnectionContext, destination: Destination, timeout: float
    ) -> None:
        if destination == SCHEDULED:
            raise IllegalStateException(
                f"{destination} is reserved for the scheduler: it cannot be removed"
            )
        self.next.remove_destination(context, destination, timeout)

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        to, context = message.destination, exchange.context
        # dead letters and advisories are never scheduled
        if to is None or (context.is_broker and not exchange.is_redelivery):
            return self.next.send(exchange, message)
        if is_management(to):
            return self._management.serve(context, message)
        check_source(to)
        if read_schedule(message, self._max_repeat_allowed) is None:
            return self.next.send(exchange, message)
        check_target(to)
        forwarding = exchange.for_internal()
        copy = copy_for_destination(message, SCHEDULED, to)
        defer_fields(copy, to, is_redelivery=exchange.is_redelivery)
        return self.next.send(forwarding, copy)
