"""The queue in which orders come in: from here they become jobs.

A message with an order is first a message like any other, of the queue `PyJMS.Scheduled`: part
of its transaction, parked while there is no room, known again after a failover. When it is
stored and visible it becomes a job, and leaves the queue when that is on the disk. A crash in
between finds it here; its job has the same id, so there is one of it, and that does not fire
before the message has left. What can be no job goes to the dead letters.
(activemq-broker X8, S1, S9)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from pyjms.errors import JMSException, LocalProtocolError, MessageFormatException
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.copying import copy_for_destination
from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.api.message import MessageReference
from pyjms_broker.region.dead_letter.dead_letters import FAILURE_CAUSE
from pyjms_broker.region.flow.disk_usage import DiskUsage
from pyjms_broker.region.queue.queue import Queue
from pyjms_broker.region.region_broker import RegionBroker
from pyjms_broker.scheduler.addresses import SCHEDULED, check_target
from pyjms_broker.scheduler.deferred_fields import restore_fields
from pyjms_broker.scheduler.deliveries import DEAD_LETTERS
from pyjms_broker.scheduler.schedule_properties import properties_of, read_schedule
from pyjms_broker.store.jobs.api import JobScheduler, ScheduledJob

__all__ = ["ScheduleRequests"]

logger = logging.getLogger(__name__)

_ANY_NUMBER: Final = 1 << 31
"""What came in was checked; a limit that was lowered since does not undo it."""


class ScheduleRequests:
    """The queue's `reader`: nobody else gets its messages, and all of them are stored."""

    is_leased = True

    def __init__(
        self,
        region: RegionBroker,
        chain: Broker,
        jobs: JobScheduler,
        usage: DiskUsage,
        arriving: set[str],
        on_job: Callable[[int], None],
    ) -> None:
        """Have `jobs` take what comes while `usage` has room; `on_job` gets each one's time.

        `arriving` has the ids of those whose messages have not left the queue.
        """
        self._region = region
        self._chain = chain
        self._jobs = jobs
        self._usage = usage
        self._on_job = on_job
        self._arriving = arriving

    def attach(self) -> None:
        """Make the queue, and jobs of what a crash has left in it."""
        queue = self._queue()
        queue.pause()
        queue.reader = self
        self._usage.parent = queue.store_usage
        # also in memory, and for what is not persistent: it all becomes jobs
        queue.needs_disk = True
        queue.store_usage = queue.temp_usage = self._usage
        left = queue.browse()
        if left:
            logger.info("%d scheduled messages go on from where a crash stopped them", len(left))
        for reference in left:
            self.arrived(reference)

    # what the queue asks
    def arrived(self, reference: MessageReference) -> None:
        """Make a job of a message; if the store takes none, it is here until the next start."""
        message = reference.message
        try:
            job, copy = self._job(message)
            done = self._add(job, copy)
        except _NoJob as error:
            self._dead_letter(reference, error)
            return
        except Exception:
            logger.exception("%s: message %s cannot be scheduled", SCHEDULED, reference.message_id)
            return
        if done is None:
            self._leaves(reference, job)
        else:
            done.then(lambda end: self._stored(reference, job, end))

    def keeps(self, reference: MessageReference) -> bool:
        """Its time to live begins when it is delivered (activemq-broker S5)."""
        return True

    def may_purge(self) -> bool:
        logger.warning("%s is what the scheduler takes in: it is not purged", SCHEDULED)
        return False

    def _job(self, message: ActiveMQMessage) -> tuple[ScheduledJob, ActiveMQMessage]:
        """Return the job that a message orders, and the message that it is to deliver."""
        target = message.original_destination
        if target is None:
            raise _NoJob("It was sent here, and not as an order")
        try:
            check_target(target)
            order = read_schedule(message, _ANY_NUMBER)
            if order is None:
                raise _NoJob("It orders nothing")
            copy = copy_for_destination(message, target, None)
            copy.transaction_id = None
            copy.raw = None
            restore_fields(copy, target)
            return order.job(str(message.message_id), message.broker_in_time), copy
        except JMSException as error:
            raise _NoJob(str(error)) from error

    def _add(self, job: ScheduledJob, copy: ActiveMQMessage) -> Completion | None:
        there = self._jobs.get(job.job_id)
        if there is not None and there.execution_count:
            return None  # it goes on as it is: a crash came before the message had left
        self._arriving.add(job.job_id)
        try:
            return self._jobs.add(job, copy)
        except LocalProtocolError as error:
            self._arriving.discard(job.job_id)
            raise _NoJob(str(error)) from error

    def _stored(self, reference: MessageReference, job: ScheduledJob, end: Completion) -> None:
        if end.error is None:
            self._leaves(reference, job)
        else:
            logger.error("The job of %s is not stored: %s", reference.message_id, end.error)

    def _leaves(self, reference: MessageReference, job: ScheduledJob) -> None:
        """Let a message leave before its job fires: so they are in the store's journal, too."""
        try:
            self._remove(reference)
        finally:
            self._arriving.discard(job.job_id)
            self._on_job(job.next_time)

    def _remove(self, reference: MessageReference) -> None:
        self._queue().remove_for_reader(self._region.context, reference)

    def _dead_letter(self, reference: MessageReference, error: Exception) -> None:
        """Send what can be no job away. It stays until its dead letter is safe."""
        logger.error("Message %s goes to the dead letters: %s", reference.message_id, error)
        message = reference.message
        letter = copy_for_destination(
            message, DEAD_LETTERS, message.original_destination or SCHEDULED
        )
        letter.marshalled_properties = encode_map(
            {**_readable_properties(message), FAILURE_CAUSE: str(error)}
        )
        letter.raw = letter.transaction_id = None
        letter.persistent = letter.response_required = True
        letter.expiration = 0
        try:
            sent = self._chain.send(ProducerExchange(self._region.context), letter)
        except JMSException as worse:
            logger.error("Its dead letter was not sent: %s", worse)
            return
        if sent is None:
            self._remove(reference)
        else:
            sent.then(lambda end: None if end.error else self._remove(reference))

    def _queue(self) -> Queue:
        queue = self._chain.add_destination(self._region.context, SCHEDULED).base
        assert isinstance(queue, Queue)
        return queue


class _NoJob(MessageFormatException):
    """A message that no job can be made of."""


def _readable_properties(message: ActiveMQMessage) -> dict[str, object]:
    try:
        return properties_of(message)
    except JMSException:
        return {}
