"""What is said of a failed delivery: to the dead letter, and in the log.

The log has one line and behind it one traceback, the handler's own. Never the body; an
application's exception may quote it all the same. The dead letter ends in `cause:` and that
exception, where Spring's containers leave `cause:null`. (style 5; spring-jms 1.7.2, 11.2)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Protocol, cast

from pyjms.enums import AcknowledgeMode
from pyjms.errors import (
    ConfigurationException,
    InvalidClientIDException,
    InvalidSelectorException,
    ListenerExecutionFailedException,
    UnsupportedOperationException,
)

if TYPE_CHECKING:
    from pyjms.jms.message import Message
    from pyjms.listener.container.base import AbstractMessageListenerContainer
    from pyjms.listener.container.execution import Delivery

__all__ = [
    "ACKNOWLEDGED_BY_THE_CLIENT",
    "describe",
    "ends_start",
    "is_misconfiguration",
    "log_failure",
    "note_cause",
    "reason_of",
]

ACKNOWLEDGED_BY_THE_CLIENT = (AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK)
"""Modes in which a message is done with when the listener has it, whatever that does."""

_LONGEST_TEXT: Final = 500


_MISCONFIGURATIONS = (
    ConfigurationException,
    InvalidSelectorException,
    UnsupportedOperationException,
)


class _DeliveryNote(Protocol):
    """What a provider keeps with a message for its redelivery."""

    rollback_cause: BaseException | None


def reason_of(error: BaseException) -> BaseException:
    """The handler's own exception, or why it could not be called; other errors as they are."""
    if type(error) is ListenerExecutionFailedException and error.__cause__ is not None:
        return error.__cause__
    return error


def note_cause(message: Message, error: Exception) -> None:
    """Leave word of why `message` failed, for the dead letter that it may become."""
    if hasattr(message._delivery, "rollback_cause"):
        cast(_DeliveryNote, message._delivery).rollback_cause = reason_of(error)


def describe(error: BaseException) -> str:
    """The text of an error for a log line, with its linked exception's unless that repeats it."""
    text = str(error) or type(error).__name__
    linked = getattr(error, "linked_exception", None) or error.__cause__
    if linked is None or (str(linked) and str(linked) in text):
        return text
    return f"{text}; nested exception is {type(linked).__name__}: {linked}"


def is_misconfiguration(error: BaseException) -> bool:
    """Whether trying again is of no use: what was asked for is wrong, not the connection."""
    return isinstance(error, _MISCONFIGURATIONS)


def ends_start(error: BaseException) -> bool:
    """Whether an application must not start with it: also a client id that somebody else has.

    A container by itself keeps trying to get that, as Spring's does.
    """
    return is_misconfiguration(error) or isinstance(error, InvalidClientIDException)


def log_failure(
    logger: logging.Logger,
    container: AbstractMessageListenerContainer,
    error: Exception,
    delivery: Delivery | None,
) -> None:
    """Log a failed delivery that no error handler hears of; None: at the end of an
    external transaction.
    """
    reason = reason_of(error)
    message = None if delivery is None else delivery.message
    logger.warning(
        "Execution of JMS message listener failed, and no ErrorHandler has been set. "
        "Listener %s%s: %s",
        container.bean_name or container.destination_description,
        ", at the end of its transaction" if delivery is None else _where(container, delivery),
        _one_line(reason),
        exc_info=reason,
        extra={
            "listener_id": container.bean_name,
            "destination": container.destination_description,
            "message_id": None if message is None else message.message_id,
        },
    )


def _where(container: AbstractMessageListenerContainer, delivery: Delivery) -> str:
    message = delivery.message
    destination = message.destination or container.destination_description
    text = f" on {destination}, message {message.message_id}, {_attempt(delivery)}"
    if not delivery.handled:
        return text
    step = "commit" if delivery.session.transacted else "acknowledgement"
    return f"{text}: it had returned, its {step} failed"


def _attempt(delivery: Delivery) -> str:
    count = delivery.message.delivery_count
    session = delivery.session
    if not session.transacted and session.acknowledge_mode in ACKNOWLEDGED_BY_THE_CLIENT:
        return f"attempt {count}, which is the last: it counts as acknowledged"
    policy = getattr(delivery.consumer, "redelivery_policy", None)
    redeliveries = getattr(policy, "maximum_redeliveries", -1)
    return f"attempt {count} of {redeliveries + 1}" if redeliveries >= 0 else f"attempt {count}"


def _one_line(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())
    except Exception as second:  # an application's class
        text = f"its text cannot be had: {type(second).__name__}"
    if len(text) > _LONGEST_TEXT:
        text = text[: _LONGEST_TEXT - 3] + "..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
