"""Retries: whether a failed delivery leads to a redelivery, after what delay, or to a dead letter.

Theory of operation
-------------------

Redelivery is the provider's task: a rollback causes it, the redelivery policy of the consumer
counts and delays it. This module sets the reason, `rollback_cause` of the provider's record:

    PoisonMessageException, Reject     no redelivery: the message becomes a dead letter
    Retry(delay)                       a redelivery after `delay` seconds
    anything else                      as the redelivery policy says

The listener's RetryPolicy, if there is one, decides which of these an exception becomes.

*A dead-letter destination per listener.* A policy with a `dead_letter` requires that the message is
sent there in the transaction that consumes it. The transaction that has just failed cannot be used:
what the handler sent in it must be rolled back. So the message is redelivered once more, without
delay, and then sent to the dead-letter destination instead of being passed to the handler. Such
messages are recognised by their ids (`_given_up`, bounded), or by their delivery count: the
consumer's policy allows one more redelivery than the RetryPolicy does. If that send fails as well,
for example because a permission is missing, the provider refuses the message, and the broker makes
it a dead letter.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Protocol, cast

from pyjms._logger import get_logger, one_line
from pyjms.client.options import RedeliveryPolicy
from pyjms.errors import PoisonMessageException, Retry
from pyjms.jms.destination import parse_destination
from pyjms.jms.message import Message
from pyjms.listener.container.delivery import Delivery
from pyjms.listener.container.failures import cause_of, poison_cause
from pyjms.listener.container.properties import ContainerProperties
from pyjms.support.dead_letters import send_dead_letter
from pyjms.support.retry import RetryPolicy, delay_before

__all__ = ["Retries"]

logger: Final = get_logger(__name__)

_MOST_GIVEN_UP: Final = 1000
"""The number of messages that are remembered until their last redelivery. A message that has been
forgotten is passed to the handler again."""


class _RecordsCause(Protocol):
    """A provider's record of a delivery, with the reason for a dead letter."""

    rollback_cause: BaseException | None


class Retries:
    """Decides how the failed deliveries of one container continue."""

    def __init__(self, properties: ContainerProperties) -> None:
        self._properties = properties
        self._given_up: OrderedDict[str, BaseException] = OrderedDict()

    def record(self, delivery: Delivery, error: Exception, message: Message) -> None:
        """Set why `message` of `delivery` failed and how it continues in the provider's record."""
        record = message.provider_delivery
        policy = self._properties.retry
        refuses = self._properties.unreadable_messages == "dead_letter"
        poison = poison_cause(error, refuses_unreadable=refuses)
        cause: BaseException = poison or cause_of(error)
        if policy is not None:
            cause = self._by_policy(policy, delivery, message, cause)
        if hasattr(record, "rollback_cause"):
            delivery.is_poison = isinstance(cause, PoisonMessageException)
            cast(_RecordsCause, record).rollback_cause = cause

    def reason_to_give_up(self, message: Message, consumer: object) -> BaseException | None:
        """Return why a message is sent to the dead-letter destination; None: it is handled."""
        policy = self._properties.retry
        if policy is None or policy.dead_letter is None:
            return None
        reason = self._given_up.get(message.message_id or "")
        most = _maximum(policy, consumer)
        if reason is None and most >= 0 and message.delivery_count > most + 1:
            deliveries = message.delivery_count - 1
            reason = PoisonMessageException(f"was delivered {deliveries} times before")
        return reason

    async def give_up(self, delivery: Delivery, reason: BaseException) -> None:
        """Send the message to the dead-letter destination, in its session's transaction.

        Raises:
            JMSException: the broker does not accept it.
        """
        message, name = delivery.message, self._properties.dead_letter
        assert name is not None
        await send_dead_letter(delivery.session, parse_destination(name), message, reason)
        self._given_up.pop(message.message_id or "", None)
        logger.warning(
            "Listener %s sends message %s of %s to %s after attempt %d: %s: %s",
            self._properties.bean_name or self._properties.destination_description,
            message.message_id,
            message.destination or self._properties.destination_description,
            name,
            message.delivery_count - 1,
            type(reason).__name__,
            one_line(str(reason)),
            extra={
                "listener_id": self._properties.bean_name,
                "destination": self._properties.destination_description,
                "message_id": message.message_id,
            },
        )

    def _by_policy(
        self, policy: RetryPolicy, delivery: Delivery, message: Message, cause: BaseException
    ) -> BaseException:
        is_poison = isinstance(cause, PoisonMessageException)
        if not is_poison and not isinstance(cause, Retry) and not policy.retries(cause):
            is_poison = True
            cause = _caused(PoisonMessageException(str(cause)), cause)
        most = _maximum(policy, delivery.consumer)
        is_last = most >= 0 and message.delivery_count > most
        if policy.dead_letter is not None and (is_poison or is_last):
            self._remember(message, cause.__cause__ or cause if is_poison else cause)
            delivery.is_given_up = True
            return _caused(Retry(delay=0.0), cause)
        if is_poison or (isinstance(cause, Retry) and cause.delay is not None):
            return cause
        own = getattr(delivery.consumer, "redelivery_policy", None)
        if not isinstance(own, RedeliveryPolicy):
            return cause
        return _caused(Retry(delay=delay_before(own, message.delivery_count)), cause)

    def _remember(self, message: Message, reason: BaseException) -> None:
        self._given_up[message.message_id or ""] = reason
        if len(self._given_up) > _MOST_GIVEN_UP:
            self._given_up.popitem(last=False)


def _maximum(policy: RetryPolicy, consumer: object) -> int:
    """Return the maximum number of redeliveries to the handler; -1: no limit."""
    own = getattr(consumer, "redelivery_policy", None)
    if not isinstance(own, RedeliveryPolicy):
        return -1 if policy.maximum is None else policy.maximum
    most = own.maximum_redeliveries
    return most if most < 0 or policy.dead_letter is None else most - 1


def _caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error
