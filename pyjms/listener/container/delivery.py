"""One delivery of a message to the listener, and the report of its failure.

Each failed attempt is one log line, which names the last line of the handler's code. With
`log_tracebacks` the first attempt is logged with a traceback, without the frames of pyjms. The last
attempt is logged by the client, which says that the message becomes a dead letter, and why; this
module logs it at DEBUG. The body is never logged, though an application's exception may quote it. A
dead letter's cause ends with `cause:` and that exception, whereas Spring's containers leave
`cause:null`. (spring-jms 1.7.2, 11.2)
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import ClassVar, Final

from pyjms import _clock
from pyjms._logger import error_text, one_line, shortened
from pyjms.core.workers import Worker
from pyjms.enums import AcknowledgeMode
from pyjms.errors import Retry
from pyjms.jms.api import Connection, MessageConsumer, Session
from pyjms.jms.message import Message
from pyjms.listener.container.failures import cause_of
from pyjms.listener.container.properties import ContainerProperties
from pyjms.listener.tracebacks import last_frame, users_traceback

__all__ = [
    "ACKNOWLEDGED_BY_THE_CLIENT",
    "ACKNOWLEDGED_FOR_THE_LISTENER",
    "Delivery",
    "log_abandoned",
    "log_failure",
    "log_overridden",
]

ACKNOWLEDGED_BY_THE_CLIENT = (AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK)
"""Modes in which a message is consumed once the listener has it, even if the listener fails."""

ACKNOWLEDGED_FOR_THE_LISTENER = (*ACKNOWLEDGED_BY_THE_CLIENT, AcknowledgeMode.TRANSACTED)
"""Modes in which a listener need not acknowledge messages itself."""

_LONGEST_TEXT: Final = 500


@dataclass(slots=True, eq=False, repr=False)
class Delivery:
    """A received message with the session and consumer that received it.

    `handled` is true once the listener has returned, `is_poison` if the message must not be
    redelivered, `is_given_up` if it is redelivered once more and then sent to the listener's
    dead-letter destination.
    `received_at` is in seconds of `_clock.now()`.
    """

    is_accepted: ClassVar[bool] = False
    """Whether it is handled even if the container has been stopped in the meantime."""

    message: Message
    session: Session
    connection: Connection
    consumer: MessageConsumer
    worker: Worker
    handled: bool = field(default=False, init=False)
    received_at: float = field(default_factory=_clock.now, init=False)
    is_poison: bool = field(default=False, init=False)
    is_given_up: bool = field(default=False, init=False)

    @property
    def subject(self) -> str:
        """The message, described for a log line."""
        return f"message {self.message.message_id}"

    def let_worker_acknowledge(self, message: Message) -> None:
        """Allow a `def` listener to call `message.acknowledge()` in its thread."""
        acknowledger = message.acknowledger
        if acknowledger is not None:
            message.acknowledger = self.worker.on_loop(acknowledger)


def log_abandoned(
    logger: logging.Logger, properties: ContainerProperties, delivery: Delivery
) -> None:
    """Log that a shutdown no longer waits for the handler of a message."""
    message, session = delivery.message, delivery.session
    is_final = not session.transacted and session.acknowledge_mode in ACKNOWLEDGED_BY_THE_CLIENT
    seconds = _clock.now() - delivery.received_at
    logger.warning(
        "Shutdown does not wait any longer for the handler of listener %s, which has run for "
        "%.1f s: %s on %s %s",
        properties.bean_name or properties.destination_description,
        seconds,
        delivery.subject,
        message.destination or properties.destination_description,
        "counts as acknowledged" if is_final else "will be delivered again",
        extra={
            "listener_id": properties.bean_name,
            "destination": properties.destination_description,
            "message_id": message.message_id,
            "seconds": seconds,
        },
    )


def log_failure(
    logger: logging.Logger,
    properties: ContainerProperties,
    error: Exception,
    delivery: Delivery | None,
) -> None:
    """Log a failed delivery if no error handler is set.

    `delivery` is None at the end of an external transaction.
    """
    reason = cause_of(error)
    message = None if delivery is None else delivery.message
    reported_later = delivery is not None and _becomes_dead_letter(properties, delivery)
    is_first = message is None or message.delivery_count <= 1
    has_traceback = is_first and properties.log_tracebacks and not isinstance(reason, Retry)
    logger.log(
        logging.DEBUG if reported_later else logging.WARNING,
        "Listener %s failed%s: %s%s",
        properties.bean_name or properties.destination_description,
        ", at the end of its transaction" if delivery is None else _where(properties, delivery),
        _one_line(reason),
        "" if isinstance(reason, Retry) else last_frame(reason),
        exc_info=users_traceback(reason) if has_traceback else None,
        extra={
            "listener_id": properties.bean_name,
            "destination": properties.destination_description,
            "message_id": None if message is None else message.message_id,
            "correlation_id": None if message is None else message.correlation_id,
        },
    )


def log_overridden(
    logger: logging.Logger, properties: ContainerProperties, error: BaseException
) -> None:
    """Log a listener's error if the rollback has failed too; that error has its own line."""
    reason = cause_of(error)
    logger.error(
        "Application exception overridden by rollback error: %s%s",
        _one_line(reason),
        last_frame(reason),
        exc_info=users_traceback(reason) if properties.log_tracebacks else None,
        extra={
            "listener_id": properties.bean_name,
            "destination": properties.destination_description,
        },
    )


def _where(properties: ContainerProperties, delivery: Delivery) -> str:
    message = delivery.message
    destination = message.destination or properties.destination_description
    text = f" on {destination}, {delivery.subject}, {_attempt(properties, delivery)}"
    if not delivery.handled:
        return text
    step = "commit" if delivery.session.transacted else "acknowledgement"
    return f"{text}: the handler had returned, its {step} failed"


def _attempt(properties: ContainerProperties, delivery: Delivery) -> str:
    count = delivery.message.delivery_count
    if _is_acknowledged(delivery):
        return f"attempt {count}, which is the last: the message counts as acknowledged"
    most = _attempts(properties, delivery)
    return f"attempt {count}" if most is None else f"attempt {count} of {most}"


def _attempts(properties: ContainerProperties, delivery: Delivery) -> int | None:
    """Return the maximum number of deliveries of a message; None: it is not known."""
    policy = getattr(delivery.consumer, "redelivery_policy", None)
    redeliveries = getattr(policy, "maximum_redeliveries", -1)
    if redeliveries < 0:
        return None
    return redeliveries + 1 if properties.dead_letter is None else redeliveries


def _is_acknowledged(delivery: Delivery) -> bool:
    session = delivery.session
    return not session.transacted and session.acknowledge_mode in ACKNOWLEDGED_BY_THE_CLIENT


def _becomes_dead_letter(properties: ContainerProperties, delivery: Delivery) -> bool:
    """Return whether the message becomes a dead letter now, which is logged separately."""
    if _is_acknowledged(delivery) or delivery.handled:
        return False
    if delivery.is_given_up:
        return True
    most = _attempts(properties, delivery)
    if delivery.is_poison:
        return hasattr(delivery.consumer, "redelivery_policy")
    return most is not None and delivery.message.delivery_count >= most


def _one_line(error: BaseException) -> str:
    text = shortened(one_line(error_text(error)), _LONGEST_TEXT)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
