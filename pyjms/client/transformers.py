"""Calls of message transformers for messages that are sent and received."""

from __future__ import annotations

from typing import cast

from pyjms.client.interfaces import ClientSession
from pyjms.jms.api import MessageConsumer, MessageProducer, MessageTransformer, Session
from pyjms.jms.message import Message

__all__ = ["transformed"]


def transformed(
    transformer: MessageTransformer,
    session: ClientSession,
    user: MessageProducer | MessageConsumer,
    message: Message,
) -> Message:
    """Return what a transformer makes of a message that `user` sends or delivers.

    It is `message` itself if the transformer returns None. A message that is delivered instead is
    acknowledged like the original.

    Raises:
        TypeError: the transformer returned anything else.
    """
    caller = cast("Session", session)
    if isinstance(user, MessageProducer):
        sent = transformer.producer_transform(caller, user, message)
        return message if sent is None else _checked(transformer, "producer_transform", sent)
    delivered = transformer.consumer_transform(caller, user, message)
    if delivered is None or delivered is message:
        return message
    replacement = _checked(transformer, "consumer_transform", delivered)
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
