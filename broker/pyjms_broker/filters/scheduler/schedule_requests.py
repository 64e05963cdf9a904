"""The queue of schedule requests, `PyJMS.Scheduled`, whose messages become jobs.

A message with a schedule is first sent to this queue as an ordinary message: part of its
transaction, subject to flow control, checked for duplicates after a failover. When it is stored and
visible, its job is added to the job store; when the job is durable, the message is removed. After a
crash in between, the message is still in the queue; the job that it becomes at the next start has
the same id, so there is only one job, and it does not fire before the message has been removed.
Messages that cannot become jobs are sent to the dead-letter queue.
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

from typing import Final

from pyjms.errors import JMSException, LocalProtocolError, MessageFormatException
from pyjms.jms.destination import Destination
from pyjms.jms.message import DUPLICATE_ID_PROPERTY, FAILURE_CAUSE
from pyjms.jms.types import Long
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageId
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.completion import completion_of as checked
from pyjms_broker.api.context import ProducerExchange
from pyjms_broker.api.message import MessageReference, copy_for_destination
from pyjms_broker.filters.scheduler.job_dispatcher import DEAD_LETTERS, JobDispatcher
from pyjms_broker.filters.scheduler.schedule_properties import (
    SCHEDULED,
    check_target,
    properties_of,
    read_schedule,
)
from pyjms_broker.region.queue import Queue
from pyjms_broker.region.region_broker import RegionBroker
from pyjms_broker.store.jobs.api import ScheduledJob

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
    properties = properties_of(copy)
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
    properties = properties_of(copy)
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


logger = get_logger(__name__)

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
            {**_readable_properties(message), FAILURE_CAUSE: str(error)}
        )
        dead_letter.raw = dead_letter.transaction_id = None
        dead_letter.persistent = dead_letter.response_required = True
        dead_letter.expiration = 0
        try:
            sent = checked(
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


def _readable_properties(message: ActiveMQMessage) -> dict[str, object]:
    try:
        return properties_of(message)
    except JMSException:
        return {}
