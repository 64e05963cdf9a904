"""Messages in the broker's internal queues, where clients cannot send."""

from __future__ import annotations

import itertools

from pyjms.jms.destination import Queue
from pyjms.wire.openwire.commands import ActiveMQTextMessage, MessageId, ProducerId
from pyjms.wire.openwire.primitives import encode_text
from pyjms_broker.api.context import ProducerExchange
from pyjms_broker.service import BrokerService

_numbers = itertools.count(1)


def store_internal(
    service: BrokerService, queue: str, text: str, original: Queue | None = None
) -> None:
    """Put a message into an internal queue, as only the broker itself can."""
    message = ActiveMQTextMessage()
    message.message_id = MessageId(None, ProducerId("broker"), next(_numbers))
    message.destination = Queue(queue)
    message.original_destination = original
    message.persistent = True
    message.content = encode_text(text)
    service.broker.send(ProducerExchange(service.region_broker.context), message)
