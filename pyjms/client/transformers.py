"""Calls of message transformers for messages that are sent and received."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.jms.api import MessageTransformer
from pyjms.jms.message import Message

if TYPE_CHECKING:
    from pyjms.client.consumer import ActiveMQMessageConsumer
    from pyjms.client.producer import ActiveMQMessageProducer


def transform_sent(
    transformer: MessageTransformer, producer: ActiveMQMessageProducer, message: Message
) -> Message:
    """Return the message to send: `message` itself if the transformer returns None.

    Raises:
        TypeError: the transformer returned anything else than a message.
    """
    result = transformer.producer_transform(producer.session, producer, message)
    return message if result is None else _check(transformer, "producer_transform", result)


def transform_received(
    transformer: MessageTransformer, consumer: ActiveMQMessageConsumer, message: Message
) -> Message:
    """Return the message to deliver: `message` itself if the transformer returns None.

    A message that is delivered instead is acknowledged like the original.

    Raises:
        TypeError: the transformer returned anything else than a message.
    """
    result = transformer.consumer_transform(consumer.session, consumer, message)
    if result is None or result is message:
        return message
    replacement = _check(transformer, "consumer_transform", result)
    replacement.acknowledger = message.acknowledger
    replacement.provider_delivery = message.provider_delivery
    return replacement


def _check(transformer: MessageTransformer, method: str, result: object) -> Message:
    if isinstance(result, Message):
        return result
    close = getattr(result, "close", None)  # a coroutine that is never awaited warns otherwise
    if close is not None:
        close()
    raise TypeError(
        f"{method} of {type(transformer).__name__} returned a {type(result).__name__}: it must be"
        " a plain function that returns a Message, or None for no change"
    )
