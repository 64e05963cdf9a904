"""What all layers of the broker share, and what a plug-in implements.

`Broker` and `BrokerFilter` are the filter chain, `BrokerDestination` and `DestinationFilter` the
destinations, `Subscription` a consumer, `MessageReference` a message inside the broker. A call
whose work may finish later returns a `Completion`; `COMPLETED` is the one for finished work.
Nothing here imports another package of the broker.
"""

from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import COMPLETED, Completion, all_of, wait_for
from pyjms_broker.api.context import (
    BlockedSend,
    ClientConnection,
    ConnectionContext,
    SecurityContext,
)
from pyjms_broker.api.dead_letter import DeadLetterStrategy
from pyjms_broker.api.destination import (
    BrokerDestination,
    DestinationFilter,
    DestinationStatistics,
    RegionDestination,
)
from pyjms_broker.api.exchange import ConsumerExchange, ProducerExchange
from pyjms_broker.api.filter import BrokerFilter, BrokerPlugin
from pyjms_broker.api.message import MessageReference, Position, StoredMessage, SubscriptionKey
from pyjms_broker.api.recovery import MessageQuery, SubscriptionRecovery, SubscriptionRecoveryPolicy
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.api.transaction import PendingWork, Synchronization, Transaction, TransactionState
from pyjms_broker.api.usage import MemoryUsage

__all__ = [
    "COMPLETED",
    "BlockedSend",
    "Broker",
    "BrokerDestination",
    "BrokerFilter",
    "BrokerPlugin",
    "ClientConnection",
    "Completion",
    "ConnectionContext",
    "ConsumerExchange",
    "DeadLetterStrategy",
    "DestinationFilter",
    "DestinationStatistics",
    "MemoryUsage",
    "MessageQuery",
    "MessageReference",
    "PendingWork",
    "Position",
    "ProducerExchange",
    "RegionDestination",
    "SecurityContext",
    "StoredMessage",
    "Subscription",
    "SubscriptionKey",
    "SubscriptionRecovery",
    "SubscriptionRecoveryPolicy",
    "Synchronization",
    "Transaction",
    "TransactionState",
    "all_of",
    "wait_for",
]
