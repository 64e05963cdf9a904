"""Creation and sending of dead letters, and their order in the store.

A message is removed only after its dead letter is stored. One journal keeps its records in order:
after a crash it never has the removal without the dead letter. With two journals the removal may
become durable first, and a crash would then lose the message altogether.
(activemq-broker L1 to L7, R9; activemq-persistence K25)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination
from pyjms.jms.failure_reason import FAILURE_CAUSE, FAILURE_TEXT, FAILURE_TYPE, ORIGINAL_EXPIRATION
from pyjms.jms.metadata import DUPLICATE_ID_PROPERTY
from pyjms.jms.types import Long
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageId, Throwable
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.api.completion import COMPLETED, Completion, all_of, completion_of
from pyjms_broker.api.context import ProducerExchange
from pyjms_broker.api.message import MessageReference, OperationContext, Position, copy_command
from pyjms_broker.api.policies import DeadLetterStrategy
from pyjms_broker.api.subscription import Subscription

if TYPE_CHECKING:
    from pyjms_broker.region.region_broker import RegionBroker

_NO_LISTENERS_ERROR: Final = "java.lang.Throwable"

logger = get_logger(__name__)

ORIGINAL_DELIVERY_MODE: Final = "originalDeliveryMode"
NON_PERSISTENT: Final = "NON_PERSISTENT"


def send_to_dead_letter_queue(
    broker: RegionBroker,
    reference: MessageReference,
    subscription: Subscription | None,
    cause: Throwable | None,
) -> bool:
    """Send a dead letter if the destination's strategy requires it; return whether it was sent.

    If a dead letter could not be sent or stored, the strategy's audit drops the message's id, so
    that the dead letter may be sent again.
    """
    if reference.dead_letter.done:
        reference.dead_letter = COMPLETED
    strategy = reference.destination.dead_letter_strategy
    if not strategy.is_send_to_dead_letter_queue(reference):
        return False
    target = strategy.dead_letter_destination(reference, subscription)
    if target is None or target == reference.destination.destination:
        return False
    try:
        copy = dead_letter(reference, target, cause, strategy.expiration)
        copy.response_required = (
            broker.store_capabilities.has_several_journals or _must_delay_response(reference)
        )
        stored = completion_of(
            broker.root.send(ProducerExchange(broker.context), copy), broker.root, "send"
        )
    except Exception:
        strategy.rollback(reference)
        raise
    broker.mark_dead_letter_queue(target)
    if stored is not COMPLETED:
        stored.then(lambda done: _rollback_if_failed(strategy, reference, done))
        reference.dead_letter = all_of([reference.dead_letter, stored])
    return True


def _must_delay_response(reference: MessageReference) -> bool:
    """Return whether the response to a persistent send must wait for the dead letter.

    That is so for a message that expires before it arrives, because no store has it.
    """
    message = reference.message
    return reference.position is None and message.persistent and message.response_required


def _rollback_if_failed(
    strategy: DeadLetterStrategy, reference: MessageReference, done: Completion
) -> None:
    if done.error is not None:
        logger.warning(
            "%s: the dead letter of message %s could not be stored: %s (hint: a stored message is "
            "not removed, and is available again after a restart)",
            reference.destination,
            reference.message_id,
            done.error,
        )
        strategy.rollback(reference)


def unstored_dead_letter(
    reference: MessageReference, error: Exception, *, store_failed: bool
) -> str:
    """Return the log message about a dead letter that its store has refused after the send.

    Stores with one journal write the removal of the message behind its dead letter. If the journal
    has failed (`store_failed`), a stored message is therefore not removed either.
    """
    message = reference.message
    text = (
        f"{message.destination}: the dead letter of message {reference.message_id} from "
        f"{message.original_destination} could not be stored"
    )
    was_stored = _properties(reference).get(ORIGINAL_DELIVERY_MODE) != NON_PERSISTENT
    if store_failed and was_stored:
        return (
            f"{text}: {error} (hint: no message is lost; resolve the error and restart the broker: "
            f"then either the message is on {message.original_destination} again, or its dead "
            f"letter is on {message.destination})"
        )
    return (
        f"{text} and is lost: {error} (hint: resolve the error; the sender must send the message "
        "again)"
    )


def _properties(reference: MessageReference) -> dict[str, object]:
    try:
        return dict(reference.properties)
    except JMSException:
        return {}


def dead_letter(
    reference: MessageReference, target: Destination, cause: Throwable | None, expiration: float
) -> ActiveMQMessage:
    """Return the copy for `target`; it expires after `expiration` seconds, 0: never."""
    message = reference.message
    message_id = reference.message_id
    try:
        properties = dict(reference.properties)
    except JMSException:
        logger.warning(
            "The properties of message %s cannot be decoded; its dead letter has none", message_id
        )
        properties = {}
    properties.pop(DUPLICATE_ID_PROPERTY, None)  # it applies to the original destination only
    properties.setdefault(ORIGINAL_EXPIRATION, Long(message.expiration))
    if not message.persistent:
        properties[ORIGINAL_DELIVERY_MODE] = NON_PERSISTENT
    if cause is not None:
        properties[FAILURE_CAUSE] = throwable_text(cause)
        properties.update(_failure(cause))
    copy = copy_command(message)
    copy.message_id = MessageId(
        message_id.text_view, message_id.producer_id, message_id.producer_sequence_id
    )
    copy.original_destination = message.destination
    copy.original_transaction_id = message.transaction_id or message.original_transaction_id
    copy.transaction_id = None
    copy.destination = target
    copy.redelivery_counter = 0
    copy.persistent = True
    copy.expiration = _clock.time_ms() + int(expiration * 1000) if expiration > 0 else 0
    copy.jms_xgroup_first_for_consumer = False
    copy.marshalled_properties = encode_map(properties)
    copy.response_required = False
    return copy


def _failure(cause: Throwable) -> dict[str, str]:
    """Return the listener's error, which is at the end of ActiveMQ's text, if anywhere."""
    own = cause.cause or cause
    if own.class_name in (None, _NO_LISTENERS_ERROR):
        return {}
    return {FAILURE_TYPE: own.class_name or "", FAILURE_TEXT: own.message or ""}


def throwable_text(cause: Throwable) -> str:
    """Return the text of a Throwable as Java prints it: class and message."""
    name = cause.class_name or "java.lang.Throwable"
    return name if cause.message is None else f"{name}: {cause.message}"


class DeadLetterOrdering:
    """Messages of one queue or durable subscription whose dead letters are being stored.

    They are no longer in memory but still in the store, and must not be paged in.
    """

    __slots__ = ("_excluded", "positions")

    def __init__(self, excluded: set[Position] | None) -> None:
        """Also add the positions to `excluded`, if a prioritized source needs that set."""
        self.positions: set[Position] = set()
        """The positions of the messages, including those whose dead letters could not be stored
        and that have not been dispatched again."""
        self._excluded = excluded

    def entered_memory(self, position: Position | None) -> None:
        """Note that a message is in memory, where a consumer can be given it again."""
        if position is not None:
            self.positions.discard(position)
            if self._excluded is not None:
                self._excluded.add(position)

    def left_memory(self, position: Position | None) -> None:
        """Note that a message is no longer in memory; it may be paged in, unless it is one."""
        excluded = self._excluded
        if excluded is not None and position is not None and position not in self.positions:
            excluded.discard(position)

    def remove_after(
        self,
        dead_letter: Completion,
        context: OperationContext,
        reference: MessageReference,
        remove: Callable[[OperationContext, MessageReference], Completion],
    ) -> Completion:
        """Call `remove`, which changes the store, once `dead_letter` is done.

        If the dead letter cannot be stored, the result is its error and nothing is removed: the
        message is available again after a restart, or when its owner restores it to memory.
        """
        if dead_letter.done and dead_letter.error is None:
            return remove(context, reference)
        position = reference.position
        if position is not None:
            self.positions.add(position)
            if self._excluded is not None:
                self._excluded.add(position)
        removed = Completion()
        outside_transaction = OperationContext(None, context.response_required)

        def remove_now(done: Completion) -> None:
            if done.error is not None:
                removed.complete(done.error)
                return
            try:
                stored = remove(outside_transaction, reference)
            except Exception as error:
                removed.complete(error)
                return
            if position is not None:
                self._discard(position)
            stored.then(lambda result: removed.complete(result.error))

        dead_letter.then(remove_now)
        return removed

    def _discard(self, position: Position) -> None:
        self.positions.discard(position)
        if self._excluded is not None:
            self._excluded.discard(position)
