"""Calls of message transformers for messages that are sent and received."""

from __future__ import annotations

from typing import cast

from pyjms.client.interfaces import ClientSession
from pyjms.jms.api import MessageConsumer, MessageProducer, MessageTransformer, Session
from pyjms.jms.message import Message

__all__ = ["transformed_delivery", "transformed_send"]


def transformed_send(
    transformer: MessageTransformer,
    session: ClientSession,
    producer: MessageProducer,
    message: Message,
) -> Message:
    """Return the transformed message to send, or `message` if the transformer returns None.

    Raises:
        TypeError: the transformer returned anything else.
    """
    result = transformer.producer_transform(cast("Session", session), producer, message)
    return message if result is None else _checked(transformer, "producer_transform", result)


def transformed_delivery(
    transformer: MessageTransformer,
    session: ClientSession,
    consumer: MessageConsumer,
    message: Message,
) -> Message:
    """Return the transformed message to deliver, or `message` if the transformer returns None.

    Raises:
        TypeError: the transformer returned anything else.
    """
    result = transformer.consumer_transform(cast("Session", session), consumer, message)
    if result is None or result is message:
        return message
    replacement = _checked(transformer, "consumer_transform", result)
    replacement.acknowledger = message.acknowledger
    replacement.provider_delivery = message.provider_delivery
    return replacement


def _checked(transformer: MessageTransformer, method: str, result: object) -> Message:
    if isinstance(result, Message):
        return result
    close = getattr(result, "close", None)  # a coroutine that is never awaited warns otherwise
    if close is not None:
        close()
    raise TypeError(
        f"{method} of {type(transformer).__name__} returned a {type(result).__name__}: it must be"
        " a plain function that returns a Message, or None for no change"
    )
