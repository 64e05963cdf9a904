"""Dead-letter strategies, which determine the destinations of undeliverable messages.

(activemq-broker L1 to L7)
"""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TypedDict, Unpack

from pyjms.jms.destination import DEFAULT_DEAD_LETTER_QUEUE, Destination, Queue, Topic
from pyjms.wire.message_audit import MessageAudit
from pyjms_broker.api.message import MessageReference
from pyjms_broker.api.policies import DeadLetterStrategy
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.attribute import attribute, count, duration, flag


def audited_producers(default: int) -> int:
    """Declare the attribute for the number of producers of an audit."""
    return count(default, "Number of producers that the audit remembers.", minimum=1)


def audit_depth(default: int, audit: str = "the audit") -> int:
    """Declare the attribute for the number of messages of each producer."""
    return count(default, f"Number of messages of each producer that {audit} remembers.", minimum=1)


class DeadLetterOptions(TypedDict, total=False):
    """The options of every strategy; see `DeadLetterAttributes` for the defaults."""

    process_expired: bool
    process_non_persistent: bool
    expiration: float
    enable_audit: bool
    max_producers_to_audit: int
    max_audit_depth: int


@dataclass(kw_only=True, eq=False, repr=False)
class DeadLetterAttributes:
    """The attributes of every strategy."""

    process_expired: bool = flag("Whether expired messages are kept as dead letters.", default=True)
    process_non_persistent: bool = flag("Whether non-persistent messages are kept.")
    expiration: float = duration(0.0, "Time until dead letters expire; 0: never.")
    enable_audit: bool = flag(
        "Whether dead letters with a repeated message id are discarded.", default=True
    )
    max_producers_to_audit: int = audited_producers(64)
    max_audit_depth: int = audit_depth(2048)


@dataclass(kw_only=True, eq=False, repr=False)
class AbstractDeadLetterStrategy(DeadLetterAttributes, DeadLetterStrategy):
    """The base class of the strategies. Source: ActiveMQ AbstractDeadLetterStrategy."""

    def is_send_to_dead_letter_queue(self, reference: MessageReference) -> bool:
        """Return whether the message is dead-lettered (activemq-broker L1).

        This records the message, so that a second call returns False.
        """
        if self.enable_audit and self._audit(reference).is_duplicate(reference.message_id):
            return False
        if not reference.persistent and not self.process_non_persistent:
            return False
        return self.process_expired or not reference.is_expired()

    def rollback(self, reference: MessageReference) -> None:
        """Remove the record of the message, so that it can be dead-lettered again."""
        self._audit(reference).forget(reference.message_id)

    @abstractmethod
    def _audit(self, reference: MessageReference) -> MessageAudit:
        """Return the audit that covers the message."""

    def _new_audit(self) -> MessageAudit:
        return MessageAudit(self.max_audit_depth, self.max_producers_to_audit)


class SharedDeadLetterStrategy(AbstractDeadLetterStrategy):
    """One dead letter queue for all destinations (activemq-broker L2)."""

    def __init__(
        self, *, dead_letter_queue: Destination | None = None, **options: Unpack[DeadLetterOptions]
    ) -> None:
        super().__init__(**options)
        self.dead_letter_queue = dead_letter_queue or Queue(DEFAULT_DEAD_LETTER_QUEUE)
        self._shared_audit = self._new_audit()

    def dead_letter_destination(
        self, reference: MessageReference, subscription: Subscription | None
    ) -> Destination | None:
        return self.dead_letter_queue

    def is_dead_letter_destination(self, destination: Destination) -> bool:
        return destination == self.dead_letter_queue

    def _audit(self, reference: MessageReference) -> MessageAudit:
        return self._shared_audit


def _to_queue(origins: str) -> bool:
    return flag(
        f"Whether the dead letters of {origins} go to a queue; false: to a topic.", default=True
    )


@dataclass(kw_only=True, eq=False, repr=False)
class IndividualDeadLetterAttributes:
    """The additional attributes of `IndividualDeadLetterStrategy`."""

    queue_prefix: str = attribute(
        f"{DEFAULT_DEAD_LETTER_QUEUE}.Queue.", "Prefix of the dead-letter destinations of queues."
    )
    topic_prefix: str = attribute(
        f"{DEFAULT_DEAD_LETTER_QUEUE}.Topic.", "Prefix of the dead-letter destinations of topics."
    )
    queue_suffix: str | None = attribute(None, "Suffix of the dead-letter destinations of queues.")
    topic_suffix: str | None = attribute(None, "Suffix of the dead-letter destinations of topics.")
    use_queue_for_queue_messages: bool = _to_queue("queues")
    use_queue_for_topic_messages: bool = _to_queue("topics")
    destination_per_durable_subscriber: bool = flag(
        "Whether each durable subscription has its own dead-letter destination."
    )
    max_destinations_to_audit: int = count(
        10_000, "Number of destinations that the audit remembers.", minimum=1
    )


@dataclass(kw_only=True, eq=False, repr=False)
class IndividualDeadLetterStrategy(IndividualDeadLetterAttributes, AbstractDeadLetterStrategy):
    """A dead-letter destination for each destination, named by prefix and suffix.

    (activemq-broker L3)
    """

    _audits: OrderedDict[Destination, MessageAudit] = field(default_factory=OrderedDict, init=False)

    def dead_letter_destination(
        self, reference: MessageReference, subscription: Subscription | None
    ) -> Destination | None:
        source = reference.destination.destination
        if source.is_queue:
            prefix, suffix = self.queue_prefix, self.queue_suffix
            queue = self.use_queue_for_queue_messages
        else:
            prefix, suffix = self.topic_prefix, self.topic_suffix
            queue = self.use_queue_for_topic_messages
        name = prefix + source.physical_name
        if self.destination_per_durable_subscriber and subscription is not None:
            info = subscription.info
            if source.is_topic and info.subscription_name is not None:
                name += f".{info.client_id}:{info.subscription_name}"
        name += suffix or ""
        return Queue(name) if queue else Topic(name)

    def is_dead_letter_destination(self, destination: Destination) -> bool:
        name = destination.physical_name
        return any(
            prefix and name.startswith(prefix) and name.endswith(suffix or "")
            for prefix, suffix in (
                (self.queue_prefix, self.queue_suffix),
                (self.topic_prefix, self.topic_suffix),
            )
        )

    def _audit(self, reference: MessageReference) -> MessageAudit:
        source = reference.destination.destination
        audit = self._audits.get(source)
        if audit is None:
            audit = self._audits[source] = self._new_audit()
            if len(self._audits) > self.max_destinations_to_audit:
                self._audits.popitem(last=False)
        else:
            self._audits.move_to_end(source)
        return audit


class DiscardingDeadLetterStrategy(AbstractDeadLetterStrategy):
    """Keeps no dead letters (activemq-broker L4)."""

    def is_send_to_dead_letter_queue(self, reference: MessageReference) -> bool:
        return False

    def rollback(self, reference: MessageReference) -> None:
        """Do nothing: no message was recorded."""

    def _audit(self, reference: MessageReference) -> MessageAudit:
        """Return an empty audit: no message is recorded."""
        return self._new_audit()

    def dead_letter_destination(
        self, reference: MessageReference, subscription: Subscription | None
    ) -> Destination | None:
        return None

    def is_dead_letter_destination(self, destination: Destination) -> bool:
        return False
