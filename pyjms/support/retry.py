"""Retry policies: the number and delays of a listener's redeliveries, and its dead letters.

A policy is applied to the redelivery policy of the listener's consumers (ActiveMQ's), and adds two
features to it: which exceptions are retried, and a dead-letter destination per listener.

*Dead letters.* A provider makes dead letters only of messages that were rolled back, and determines
their destination. A copy that is sent in the session's transaction works with every broker and any
destination, and needs no rollback: so one message of a batch can be rejected while the others are
committed. `send_dead_letter` does that, in the transaction that consumes the message. The copy has
the body, the properties and the headers of the message, except id, time and destination; it does
not expire. It also has these properties:

    dlqDeliveryFailureCause              the reason, in the format of ActiveMQ's brokers
    pyjms_failure_type, _failure_text    class and text of the reason, as set by our broker
    pyjms_original_destination           `queue://orders`, for a redrive
    pyjms_original_message_id            the id that the message had
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from pyjms.client.policies import RedeliveryPolicy
from pyjms.errors import MessageFormatException, RemoteError
from pyjms.jms.api import Session
from pyjms.jms.destination import Destination
from pyjms.jms.failure_reason import FAILURE_CAUSE, FAILURE_TEXT, FAILURE_TYPE, ORIGINAL_DESTINATION
from pyjms.jms.message import Message, TextMessage
from pyjms.runtime.clock import check_seconds
from pyjms.runtime.keywords import constructor_names_keywords
from pyjms.runtime.logging import error_text, one_line, shorten

REMOTE_ERROR: Final = "pyjms_error_type"
"""Property of a reply that tells an error: the name of its type. The body is its text."""


@constructor_names_keywords
@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How a message is retried whose handler raised. None: the connection's redelivery policy
    applies.

    Immutable; any number of listeners may share a policy. ActiveMQ: RedeliveryPolicy.

    Attributes:
        maximum: redeliveries before the message becomes a dead letter; 0: none, -1: no limit.
        initial_delay: seconds before the first redelivery, and before each one without multiplier.
        multiplier: the factor by which each further delay grows; 1: all delays are equal.
        max_delay: the longest delay in seconds.
        jitter: the fraction by which each delay varies at random, from 0 to 1.
        retry_on: the exceptions that are retried; after others the message becomes a dead letter
            at once.
        no_retry_for: exceptions among these that are not retried.
        dead_letter: the destination of this listener's dead letters, sent in the transaction that
            consumes the message; None: the broker's dead-letter destination.

    Raises:
        TypeError: a number or an exception type is something else.
        ValueError: a number is out of its range, or `max_delay` less than `initial_delay`.

    Example:
        patient = RetryPolicy(maximum=3, initial_delay=1.0, multiplier=2.0)


        @jms_listener("orders.new", retry=patient)
        def on_order(order: dict[str, int]) -> None:
            print(order["id"])
    """

    maximum: int | None = None
    initial_delay: float | None = None
    multiplier: float | None = None
    max_delay: float | None = None
    jitter: float | None = None
    retry_on: tuple[type[BaseException], ...] = (Exception,)
    no_retry_for: tuple[type[BaseException], ...] = ()
    dead_letter: str | None = None

    def __post_init__(self) -> None:
        for name in ("initial_delay", "max_delay"):
            if getattr(self, name) is not None:
                check_seconds(name, getattr(self, name))
        first, most = self.initial_delay, self.max_delay
        if first is not None and most is not None and most < first:
            raise ValueError(f"max_delay ({most:g} s) is less than initial_delay ({first:g} s)")
        if self.maximum is not None and self.maximum < -1:
            raise ValueError(f"'maximum' must be -1 (no limit) or more: {self.maximum}")
        if self.multiplier is not None and self.multiplier < 1:
            raise ValueError(f"'multiplier' must be 1 or more: {self.multiplier}")
        if self.jitter is not None and not 0 <= self.jitter <= 1:
            raise ValueError(f"'jitter' must be from 0 to 1: {self.jitter}")
        for name in ("retry_on", "no_retry_for"):
            given = getattr(self, name)
            kinds = (given,) if isinstance(given, type) else tuple(given)
            object.__setattr__(self, name, kinds)  # frozen
            for kind in kinds:
                if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                    raise TypeError(f"{name!r} takes types of exceptions, not {kind!r}")

    def apply(self, policy: RedeliveryPolicy) -> RedeliveryPolicy:
        """Return `policy` with the attributes that are set here replaced."""
        multiplier, jitter = self.multiplier, self.jitter
        changes: dict[str, Any] = {
            "maximum_redeliveries": self.maximum,
            "initial_redelivery_delay": self.initial_delay,
            "redelivery_delay": self.initial_delay,
            "maximum_redelivery_delay": self.max_delay,
            "back_off_multiplier": multiplier,
            "use_exponential_back_off": None if multiplier is None else multiplier > 1,
            "collision_avoidance_percent": None if jitter is None else round(jitter * 100),
            "use_collision_avoidance": None if jitter is None else jitter > 0,
        }
        return replace(policy, **{name: v for name, v in changes.items() if v is not None})

    def retries(self, error: BaseException) -> bool:
        """Return whether exceptions of the type of `error` are retried."""
        return isinstance(error, self.retry_on) and not isinstance(error, self.no_retry_for)

    def with_changes(self, changes: Mapping[str, Any]) -> RetryPolicy:
        """Return the policy with the `changes` that are not None.

        Raises:
            TypeError: it has no attribute of that name.
        """
        return replace(self, **{name: v for name, v in changes.items() if v is not None})

    def without_delays(self) -> RetryPolicy:
        """Return the policy with the connection's delays, for tests."""
        return replace(self, initial_delay=None, multiplier=None, max_delay=None, jitter=None)

    @classmethod
    def names(cls) -> frozenset[str]:
        """Return the names of the attributes."""
        return frozenset(field.name for field in fields(cls))


ORIGINAL_MESSAGE_ID: Final = "pyjms_original_message_id"

_LONGEST_TEXT: Final = 2048


async def send_dead_letter(
    session: Session, destination: Destination, message: Message, reason: BaseException
) -> None:
    """Send a copy of `message` with the reason to `destination`, in the session's transaction."""
    dead = sendable_copy(message)
    text = one_line(shorten(error_text(reason), _LONGEST_TEXT))
    name = qualified_name(type(reason))
    dead.properties[FAILURE_CAUSE] = f"{name}: {text}" if text else name
    dead.properties[FAILURE_TYPE] = name
    dead.properties[FAILURE_TEXT] = text
    if message.destination is not None:
        dead.properties[ORIGINAL_DESTINATION] = message.destination.qualified_name
    if message.message_id is not None:
        dead.properties[ORIGINAL_MESSAGE_ID] = message.message_id
    async with await session.create_producer(destination) as producer:
        await producer.send(
            dead, delivery_mode=message.delivery_mode, priority=message.priority, time_to_live=0
        )


def error_reply(session: Session, error: BaseException) -> Message:
    """Return a reply that tells an error: its type and text, no traceback."""
    reply = session.create_text_message(shorten(error_text(error), _LONGEST_TEXT))
    reply.properties[REMOTE_ERROR] = qualified_name(type(error))
    return reply


def checked_reply(reply: Message | None) -> Message | None:
    """Return a reply that is the result; None: there is none, or the result is None."""
    if reply is None:
        return None
    text = reply.text if isinstance(reply, TextMessage) else ""
    name = reply.properties.get(REMOTE_ERROR)
    if not isinstance(name, str):
        return None if text is None else reply
    raise RemoteError(text or "", type_name=name)


def qualified_name(kind: type) -> str:
    """Return a type's name with its module, but for the built-in ones."""
    name = kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"


def sendable_copy(message: Message) -> Message:
    """Return a copy of a received message whose properties can be changed.

    Sending it does not change the headers of `message`. The body is shared.
    """
    clone = copy.copy(message)
    try:
        values = dict(message.property_values())
    except MessageFormatException:  # damaged properties: keep at least the body
        values = {}
    clone.clear_properties()
    clone.property_values().update(values)
    return clone
