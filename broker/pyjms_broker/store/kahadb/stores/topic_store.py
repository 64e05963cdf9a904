"""The store of a topic in a KahaDB journal, with its durable subscriptions.

(activemq-persistence S3, K31)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms._logger import get_logger
from pyjms.errors import JMSException
from pyjms.wire.kahadb.codec import encode_command
from pyjms.wire.kahadb.commands import KahaSubscriptionCommand
from pyjms.wire.kahadb.frames import decode_subscription_info, encode_frame, subscription_key
from pyjms.wire.openwire.commands import SubscriptionInfo
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.store.api import (
    OperationContext,
    Position,
    Positions,
    StoredMessage,
    StoredSubscription,
    SubscriptionKey,
)
from pyjms_broker.store.damage import is_damage
from pyjms_broker.store.kahadb.index import TopicIndex
from pyjms_broker.store.kahadb.records import reference_metadata, remove_record
from pyjms_broker.store.kahadb.stores.message_store import KahaDBMessageStore
from pyjms_broker.store.kahadb.transactions.operations import Operation, OperationKind

if TYPE_CHECKING:
    from pyjms_broker.api.message import MessageReference

__all__ = ["KahaDBTopicMessageStore"]

logger = get_logger(__name__)


class KahaDBTopicMessageStore(KahaDBMessageStore):
    """The store of a topic, which keeps nothing without durable subscriptions.

    (activemq-persistence K11)
    """

    _index: TopicIndex

    def add_message(self, context: OperationContext, reference: MessageReference) -> Completion:
        """See MessageStore. A message that no subscription needs gets position 0 and no number."""
        if context.xid is None and not self._index.subscriptions and not self.is_removed:
            metadata = reference_metadata(reference, self._prioritized)
            reference.position = Position(metadata.level, 0)
            return COMPLETED
        return super().add_message(context, reference)

    def remove_all_messages(self, context: OperationContext) -> Completion:
        """See MessageStore. Messages are removed one by one, because the subscriptions remain."""
        return self._remove_each()

    def add_subscription(self, subscription: StoredSubscription, retroactive: bool) -> Completion:
        """See TopicMessageStore. An existing one is replaced.

        Raises:
            JMSException: another subscription has its key in the journal, `clientId:name`.
        """
        db = self._db
        name = subscription.key
        self._check_owner(name)
        info = encode_frame(
            SubscriptionInfo(
                client_id=name.client_id,
                destination=self.destination,
                selector=subscription.selector,
                subscription_name=name.subscription_name,
                subscribed_destination=subscription.destination,
                no_local=subscription.no_local,
            ),
            db.format.version,
        )
        key = subscription_key(*name)
        self.delete_subscription(name)
        command = KahaSubscriptionCommand(self._kaha, key, retroactive, info)
        waiter = Completion()
        location = db.append(encode_command(command), waiter, sync=True)
        db.updater.subscribe(self._index, key, info, retroactive, location)
        return waiter

    def delete_subscription(self, key: SubscriptionKey) -> Completion:
        """See TopicMessageStore."""
        db, text = self._db, subscription_key(*key)
        if self.lookup_subscription(key) is None:
            return COMPLETED
        waiter = Completion()
        command = KahaSubscriptionCommand(self._kaha, text)
        location = db.append(encode_command(command), waiter, sync=True)
        db.updater.unsubscribe(self._index, text, location)
        return waiter

    def lookup_subscription(self, key: SubscriptionKey) -> StoredSubscription | None:
        """See TopicMessageStore."""
        known = self._index.subscriptions.get(subscription_key(*key))
        found = None if known is None else self._stored(known.info)
        return found if found is not None and found.key == key else None

    def _check_owner(self, key: SubscriptionKey) -> None:
        """Reject the key of another subscription: `a`, `b:c` and `a:b`, `c` have the same key."""
        known = self._index.subscriptions.get(subscription_key(*key))
        other = key if known is None else self._stored(known.info).key
        if other != key:
            raise JMSException(
                f"The durable subscription {key.subscription_name!r} of {key.client_id!r} cannot "
                f"be stored: it has the key of {other.subscription_name!r} of {other.client_id!r}",
                hint="use client ids and subscription names without colons",
            )

    def subscriptions(self) -> list[StoredSubscription]:
        """See TopicMessageStore."""
        found = []
        for key, known in self._index.subscriptions.items():
            try:
                found.append(self._stored(known.info))
            except Exception as error:
                if not is_damage(error):
                    raise
                logger.error(
                    "%s: the durable subscription %s cannot be read and is quarantined: %s",
                    self.destination,
                    key,
                    error,
                )
        return found

    def acknowledge(
        self, context: OperationContext, key: SubscriptionKey, reference: MessageReference
    ) -> Completion:
        """See TopicMessageStore."""
        db, index = self._db, self._index
        text, message_id = subscription_key(*key), str(reference.message_id)
        if context.xid is not None:
            if self.is_removed:
                return COMPLETED
            operation = Operation(
                OperationKind.ACKNOWLEDGE, self._kaha, message_id, key=text, reference=reference
            )
            self._transactions.add(context.xid, operation)
            return COMPLETED
        position = reference.position
        entry = index.find(message_id) if position is None else index.get(position)
        if entry is None or not index.is_pending(text, entry.position):
            return COMPLETED
        sync = context.response_required
        waiter = Completion() if sync else COMPLETED
        payload = remove_record(self._part, message_id, text, ack=b"")
        location = db.append(payload, waiter, sync=sync, soon=not sync)
        db.updater.acknowledge(index, text, entry, location)
        return waiter

    def next_subscription_messages(
        self, key: SubscriptionKey, after: Position | None, limit: int, skip: Positions = ()
    ) -> list[StoredMessage]:
        """See TopicMessageStore."""
        text, index = subscription_key(*key), self._index
        if text not in index.subscriptions:
            return []
        return self._read(lambda: index.page_for_subscription(text, after, limit, skip))

    def subscription_message_count(self, key: SubscriptionKey) -> int:
        """See TopicMessageStore."""
        known = self._index.subscriptions.get(subscription_key(*key))
        return 0 if known is None else known.pending_count

    def _stored(self, frame: bytes) -> StoredSubscription:
        info = decode_subscription_info(frame, self._db.format.version)
        return StoredSubscription(
            SubscriptionKey(info.client_id or "", info.subscription_name or ""),
            info.subscribed_destination or info.destination or self.destination,
            info.selector,
            info.no_local,
        )
