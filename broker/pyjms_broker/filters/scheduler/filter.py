"""The broker filter that intercepts scheduled messages and delivers them when due.

It also serves management requests on the topic ActiveMQ.Scheduler.Management, which list and remove
jobs. See `job_dispatcher` for the theory of operation.
(ActiveMQ SchedulerBroker; activemq-broker B1, S1 to S9; activemq-persistence E4)

A message with a schedule is first sent to the queue `PyJMS.Scheduled` as an ordinary message: part
of its transaction, subject to flow control, checked for duplicates after a failover. When it is
stored and visible, its job is added to the job store; when the job is durable, the message is
removed. After a crash in between, the message is still in the queue; the job that it becomes at the
next start has the same id, so there is only one job, and it does not fire before the message has
been removed. Messages that cannot become jobs are sent to the dead-letter queue.
(activemq-broker X8, S1, S9)

Some fields of a message are deferred while it is in this queue:

- The duplicate id (`_AMQ_DUPL_ID`): a queue drops a message whose id it has already received, but
  the same id for another destination belongs to another message. The queue of requests has messages
  for all destinations, so the id is prefixed with the destination.
- The text of a redelivery's message id, which is the same in each queue that has a copy of the
  message; stores drop a message whose text they already have.
- The expiration: the time to live begins with the delivery, so the request must not expire earlier.
  (activemq-broker S5)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Final

from pyjms.errors import (
    IllegalStateException,
    JMSException,
    LocalProtocolError,
    MessageFormatException,
)
from pyjms.jms import scheduled
from pyjms.jms.destination import Destination
from pyjms.jms.failure_reason import FAILURE_CAUSE
from pyjms.jms.metadata import DUPLICATE_ID_PROPERTY
from pyjms.jms.types import Long
from pyjms.runtime import clock as _clock
from pyjms.runtime import event_loop
from pyjms.runtime.ids import IdGenerator
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.commands import ActiveMQMessage, ConnectionInfo, MessageId, ProducerId
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.api.access import is_scheduler_management
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.completion import COMPLETED, Completion, completion_of, wait_for
from pyjms_broker.api.context import ConnectionContext, ProducerExchange
from pyjms_broker.api.fields import readable_properties
from pyjms_broker.api.message import MessageReference, copy_for_destination
from pyjms_broker.filters.scheduler.job_dispatcher import DEAD_LETTERS, JobDispatcher, copy_of_job
from pyjms_broker.filters.scheduler.schedule_properties import (
    SCHEDULED,
    check_source,
    check_target,
    number_of,
    read_schedule,
)
from pyjms_broker.region.base_destination import ADVISORY_TYPE
from pyjms_broker.region.flow_control import abort_blocked_sends
from pyjms_broker.region.queue import Queue
from pyjms_broker.region.region_broker import RegionBroker
from pyjms_broker.region.system_usage import DiskUsage
from pyjms_broker.store.jobs.api import EARLIEST, LATEST, ScheduledJob
from pyjms_broker.store.jobs.scheduler import JobScheduler, JobSchedulerStore

logger = get_logger(__name__)

_EXPIRATION: Final = "PyJMSScheduledExpiration"
_ID_TEXT: Final = "PyJMSScheduledMessageID"
_DEFERRED: Final = (DUPLICATE_ID_PROPERTY.encode(), _EXPIRATION.encode(), _ID_TEXT.encode())


def defer_fields(
    copy: ActiveMQMessage, target: Destination, *, is_redelivery: bool = False
) -> None:
    """Prefix the duplicate id of a copy with `target`, and move its expiration to a property.

    The text of a redelivery's message id also becomes a property.
    """
    text = _text_of(copy) if is_redelivery else None
    if text is None and not copy.expiration and not _has_deferred(copy):
        return
    properties = copy.properties
    for name in (_EXPIRATION, _ID_TEXT):  # a sender's values must not be restored
        properties.pop(name, None)
    if text is not None:
        properties[_ID_TEXT] = text
        _set_text(copy, None)
    if DUPLICATE_ID_PROPERTY in properties:
        properties[DUPLICATE_ID_PROPERTY] = f"{_prefix(target)}{properties[DUPLICATE_ID_PROPERTY]}"
    if copy.expiration:
        properties[_EXPIRATION] = Long(copy.expiration)
        copy.expiration = 0
    copy.marshalled_properties = encode_map(properties)
    copy.raw = None


def restore_fields(copy: ActiveMQMessage, target: Destination) -> None:
    """Restore a copy's original duplicate id, expiration and text of the message id."""
    if not _has_deferred(copy):
        return
    properties = copy.properties
    expiration = properties.pop(_EXPIRATION, None)
    if isinstance(expiration, int):
        copy.expiration = expiration
    text = properties.pop(_ID_TEXT, None)
    if isinstance(text, str):
        _set_text(copy, text)
    if DUPLICATE_ID_PROPERTY in properties:
        properties[DUPLICATE_ID_PROPERTY] = str(properties[DUPLICATE_ID_PROPERTY]).removeprefix(
            _prefix(target)
        )
    copy.marshalled_properties = encode_map(properties)
    copy.raw = None


def _has_deferred(copy: ActiveMQMessage) -> bool:
    marshalled = copy.marshalled_properties
    return marshalled is not None and any(name in marshalled for name in _DEFERRED)


def _text_of(copy: ActiveMQMessage) -> str | None:
    return None if copy.message_id is None else copy.message_id.text_view


def _set_text(copy: ActiveMQMessage, text: str | None) -> None:
    message_id = copy.message_id
    if message_id is not None:
        copy.message_id = MessageId(text, message_id.producer_id, message_id.producer_sequence_id)


def _prefix(target: Destination) -> str:
    return f"{target.qualified_name}|"


_UNLIMITED: Final = 1 << 31
"""The repeat count was checked when sent; a limit that was lowered later does not apply."""


class ScheduleRequests:
    """The queue's reader, which gets all messages; all of them are stored on disk.

    The jobs whose requests are still in the queue are in the dispatcher's `arriving`.
    """

    is_leased = True

    def __init__(self, dispatcher: JobDispatcher, chain: Broker, region: RegionBroker) -> None:
        """Accept requests while the dispatcher's usage is below its limit."""
        self._dispatcher = dispatcher
        self._jobs = dispatcher.jobs
        self._usage = dispatcher.usage
        self._arriving = dispatcher.arriving
        self._chain = chain
        self._region = region

    def attach(self) -> None:
        """Create the queue, and turn requests left by a crash into jobs."""
        queue = self._queue()
        queue.pause()
        queue.reader = self
        self._usage.parent = queue.store_usage
        # even without a persistent store and for non-persistent messages, as all become jobs
        queue.needs_disk = True
        queue.store_usage = queue.temp_usage = self._usage
        pending = queue.browse()
        if pending:
            logger.info(
                "%s: scheduling %d messages that were pending when the broker stopped",
                SCHEDULED,
                len(pending),
            )
        for reference in pending:
            self.on_arrival(reference)

    # the interface of the queue's reader
    def on_arrival(self, reference: MessageReference) -> None:
        """Turn a request into a job; if the store fails, it stays until the next start."""
        message = reference.message
        try:
            job, copy = self._job(message)
            done = self._add(job, copy)
        except _InvalidRequestError as error:
            self._dead_letter(reference, error)
            return
        except Exception:
            logger.exception(
                "%s: message %s could not be scheduled; it is tried again at the next start",
                SCHEDULED,
                reference.message_id,
            )
            return
        done.then(lambda end: self._on_stored(reference, job, end))

    def keeps(self, reference: MessageReference) -> bool:
        """Return True: requests do not expire before their delivery (activemq-broker S5)."""
        return True

    def may_purge(self) -> bool:
        logger.warning("%s is reserved for the scheduler: it is not purged", SCHEDULED)
        return False

    def _job(self, message: ActiveMQMessage) -> tuple[ScheduledJob, ActiveMQMessage]:
        """Return the job that a request describes, and the message that it delivers."""
        target = message.original_destination
        if target is None:
            raise _InvalidRequestError(
                f"The message was sent to {SCHEDULED} directly, not as a schedule request"
            )
        try:
            check_target(target)
            schedule = read_schedule(message, _UNLIMITED)
            if schedule is None:
                raise _InvalidRequestError("The message has no AMQ_SCHEDULED_* properties")
            copy = copy_for_destination(message, target, None)
            copy.transaction_id = None
            copy.raw = None
            restore_fields(copy, target)
            return schedule.job(str(message.message_id), message.broker_in_time), copy
        except JMSException as error:
            raise _InvalidRequestError(str(error)) from error

    def _add(self, job: ScheduledJob, copy: ActiveMQMessage) -> Completion:
        existing = self._jobs.get(job.job_id)
        if existing is not None and existing.execution_count:
            return COMPLETED  # a crash prevented the removal of its request: keep the job
        self._arriving.add(job.job_id)
        try:
            return self._jobs.add(job, copy)
        except LocalProtocolError as error:
            self._arriving.discard(job.job_id)
            raise _InvalidRequestError(str(error)) from error

    def _on_stored(self, reference: MessageReference, job: ScheduledJob, end: Completion) -> None:
        """Remove a request, then let its job fire, so that they are in this order on disk."""
        if end.error is not None:
            logger.error(
                "%s: the job of message %s was not stored: %s",
                SCHEDULED,
                reference.message_id,
                end.error,
            )
            return
        try:
            self._remove(reference)
        finally:
            self._arriving.discard(job.job_id)
            self._dispatcher.wake(job.next_time)

    def _remove(self, reference: MessageReference) -> None:
        self._queue().remove_for_reader(self._region.context, reference)

    def _dead_letter(self, reference: MessageReference, error: Exception) -> None:
        """Send the dead letter of an invalid request; remove the request when it is stored."""
        logger.error(
            "%s: message %s is sent to the dead-letter queue: %s",
            SCHEDULED,
            reference.message_id,
            error,
        )
        message = reference.message
        dead_letter = copy_for_destination(
            message, DEAD_LETTERS, message.original_destination or SCHEDULED
        )
        dead_letter.marshalled_properties = encode_map(
            {**readable_properties(message), FAILURE_CAUSE: str(error)}
        )
        dead_letter.raw = dead_letter.transaction_id = None
        dead_letter.persistent = dead_letter.response_required = True
        dead_letter.expiration = 0
        try:
            sent = completion_of(
                self._chain.send(ProducerExchange(self._region.context), dead_letter),
                self._chain,
                "send",
            )
        except JMSException as send_error:
            logger.error(
                "%s: the dead letter of message %s was not sent: %s",
                SCHEDULED,
                reference.message_id,
                send_error,
            )
            return
        sent.then(lambda end: None if end.error else self._remove(reference))

    def _queue(self) -> Queue:
        queue = self._chain.add_destination(self._region.context, SCHEDULED).base
        assert isinstance(queue, Queue)
        return queue


class _InvalidRequestError(MessageFormatException):
    """A message in the queue cannot become a job."""


_MAX_BROWSE_REQUESTS: Final = 100
"""The maximum number of concurrent lists of one connection."""


class Management:
    """Executes the requests. Lists are sent in background tasks, one message at a time."""

    def __init__(self, jobs: JobScheduler, chain: Broker) -> None:
        self._jobs = jobs
        self._chain = chain
        self._producer_id = ProducerId(IdGenerator().generate())
        self._sequence = itertools.count(1)
        self._tasks: dict[event_loop.BackgroundTask, ConnectionContext] = {}

    def serve(self, context: ConnectionContext, request: ActiveMQMessage) -> Completion:
        """Execute a request; completed when its changes are durable."""
        properties = request.properties
        action = properties.get(scheduled.AMQ_SCHEDULER_ACTION)
        execute = _ACTIONS.get(action) if isinstance(action, str) else None
        if execute is None:
            raise MessageFormatException(
                f"Property {scheduled.AMQ_SCHEDULER_ACTION} is none of {', '.join(_ACTIONS)}"
            )
        return execute(self, context, request, properties)

    def remove_connection(self, context: ConnectionContext) -> None:
        """Stop sending lists to a client that has disconnected."""
        for task, requester in self._tasks.items():
            if requester is context:
                task.cancel()

    async def close(self) -> None:
        """Stop sending lists."""
        await event_loop.end_tasks(*self._tasks)

    def browse(
        self, context: ConnectionContext, request: ActiveMQMessage, properties: Mapping[str, object]
    ) -> Completion:
        if request.reply_to is None:
            raise MessageFormatException(
                f"{scheduled.AMQ_SCHEDULER_ACTION} {scheduled.AMQ_SCHEDULER_ACTION_BROWSE} needs a"
                " reply destination",
                hint="set JMSReplyTo",
            )
        check_target(request.reply_to)
        start, end = _times(properties)
        self._tasks = {task: owner for task, owner in self._tasks.items() if not task.done}
        if sum(owner is context for owner in self._tasks.values()) >= _MAX_BROWSE_REQUESTS:
            raise JMSException(
                f"More than {_MAX_BROWSE_REQUESTS} {scheduled.AMQ_SCHEDULER_ACTION_BROWSE} requests"
                " at a time on one connection",
                hint="receive the replies before sending further requests",
            )
        task = event_loop.spawn(self._send, request.reply_to, start, end, name="list of jobs")
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
            job, message, (DUPLICATE_ID_PROPERTY,), {scheduled.PYJMS_NEXT_TIME: Long(job.next_time)}
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
        job_id = properties.get(scheduled.AMQ_SCHEDULED_ID)
        if not isinstance(job_id, str):
            raise MessageFormatException(
                f"{scheduled.AMQ_SCHEDULER_ACTION} {scheduled.AMQ_SCHEDULER_ACTION_REMOVE} needs"
                f" the property {scheduled.AMQ_SCHEDULED_ID}",
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
    scheduled.AMQ_SCHEDULER_ACTION_BROWSE: Management.browse,
    scheduled.AMQ_SCHEDULER_ACTION_REMOVE: Management.remove,
    scheduled.AMQ_SCHEDULER_ACTION_REMOVEALL: Management.remove_all,
}


def _times(properties: Mapping[str, object]) -> tuple[int, int]:
    """Return the first and the last time of a request; all times unless both are given."""
    start = number_of(properties, scheduled.AMQ_SCHEDULER_ACTION_START_TIME)
    end = number_of(properties, scheduled.AMQ_SCHEDULER_ACTION_END_TIME)
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
        self._dispatching: event_loop.BackgroundTask | None = None

    @property
    def scheduler_support(self) -> bool:
        """Always True: messages are scheduled."""
        return True

    async def start(self) -> None:
        await self.next.start()
        self._requests.attach()
        self._dispatching = event_loop.spawn(self._dispatcher.run, name="message scheduler")

    async def stop(self) -> None:
        await event_loop.end_tasks(self._dispatching)
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
        if is_scheduler_management(to):
            return self._management.serve(context, message)
        check_source(to)
        if read_schedule(message, self._max_repeat_allowed) is None:
            return self.next.send(exchange, message)
        check_target(to)
        forwarding = exchange.for_internal()
        copy = copy_for_destination(message, SCHEDULED, to)
        defer_fields(copy, to, is_redelivery=exchange.is_redelivery)
        return self.next.send(forwarding, copy)
