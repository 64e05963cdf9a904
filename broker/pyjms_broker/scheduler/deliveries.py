"""The messages that a job sends: delivered copies, list entries, dead letters.

(activemq-broker S5, S8)
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from pyjms import _clock
from pyjms._ids import IdGenerator
from pyjms.jms.destination import DEFAULT_DEAD_LETTER_QUEUE, Destination, Queue
from pyjms.jms.properties import DUPLICATE_ID_PROPERTY, FAILURE_CAUSE
from pyjms.jms.scheduled import AMQ_SCHEDULED_ID, PYJMS_NEXT_TIME
from pyjms.jms.types import Long
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageId, ProducerId
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.api.copying import copy_command
from pyjms_broker.region.base_destination import ADVISORY_TYPE
from pyjms_broker.scheduler.schedule_properties import SCHEDULE_PROPERTIES, properties_of
from pyjms_broker.store.jobs.api import ScheduledJob

__all__ = ["DEAD_LETTERS", "Deliveries"]

DEAD_LETTERS: Final = Queue(DEFAULT_DEAD_LETTER_QUEUE)


class Deliveries:
    """Copies a job's message, with a separate message id for each repetition.

    The id is derived from the job's id and its execution count. A repetition that is sent twice,
    after a crash or because one of several destinations was full, therefore has the same id both
    times, and queues drop the duplicate.
    """

    def __init__(self) -> None:
        self._producer_id = ProducerId(IdGenerator().generate())
        self._sequence = itertools.count(1)

    def of(self, job: ScheduledJob, message: ActiveMQMessage) -> ActiveMQMessage:
        """Return the message for the destination; its time to live begins now."""
        is_repeated = bool(job.repeat or job.execution_count or job.cron_entry)
        without = (
            (*SCHEDULE_PROPERTIES, DUPLICATE_ID_PROPERTY) if is_repeated else SCHEDULE_PROPERTIES
        )
        copy = self._copy(job, message, without)
        if is_repeated:
            copy.message_id = _id_of(job)
        if message.timestamp > 0 and message.expiration > 0:
            now = _clock.time_ms()
            copy.expiration = now + message.expiration - message.timestamp
            copy.timestamp = now
        copy.response_required = True  # the send completes when the message is stored
        return copy

    def listed(
        self, job: ScheduledJob, message: ActiveMQMessage, to: Destination
    ) -> ActiveMQMessage:
        """Return the entry of a job in the response to BROWSE (activemq-broker S8)."""
        copy = self._copy(
            job, message, (DUPLICATE_ID_PROPERTY,), **{PYJMS_NEXT_TIME: Long(job.next_time)}
        )
        copy.message_id = MessageId(None, self._producer_id, next(self._sequence))
        copy.producer_id = self._producer_id
        copy.original_destination, copy.destination = message.destination, to
        copy.type = ADVISORY_TYPE
        copy.persistent = copy.response_required = False
        copy.expiration = 0
        return copy

    def dead_letter(
        self, job: ScheduledJob, message: ActiveMQMessage, error: Exception
    ) -> ActiveMQMessage:
        """Return the dead letter of a message that cannot be delivered."""
        copy = self._copy(
            job,
            message,
            (*SCHEDULE_PROPERTIES, DUPLICATE_ID_PROPERTY),
            **{FAILURE_CAUSE: str(error)},
        )
        copy.message_id = _id_of(job)
        copy.original_destination, copy.destination = message.destination, DEAD_LETTERS
        copy.persistent = copy.response_required = True
        copy.expiration = 0
        return copy

    def _copy(
        self, job: ScheduledJob, message: ActiveMQMessage, without: Sequence[str], **more: object
    ) -> ActiveMQMessage:
        properties = properties_of(message)
        for name in without:
            properties.pop(name, None)
        properties |= {AMQ_SCHEDULED_ID: job.job_id, **more}
        copy = copy_command(message)
        copy.marshalled_properties = encode_map(properties)
        copy.raw = None
        return copy


def _id_of(job: ScheduledJob) -> MessageId:
    """Return the message id of a job's current execution."""
    return MessageId(None, ProducerId(job.job_id), job.execution_count + 1)
