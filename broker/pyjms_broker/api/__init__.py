"""The interfaces that all layers of the broker share and that plug-ins implement.

`Broker` and `BrokerFilter` form the filter chain. `BrokerDestination` and `DestinationFilter` are
destinations, a `Subscription` is a consumer, and a `MessageReference` is a message in the broker. A
method whose work may finish later returns a `Completion`, or `COMPLETED` if the work is finished.
This package imports no other package of the broker.
"""

from pyjms_broker.api.broker import Broker, BrokerFilter, BrokerPlugin
from pyjms_broker.api.completion import COMPLETED, Completion, all_of, wait_for
from pyjms_broker.api.context import (
    BlockedSend,
    ClientConnection,
    ConnectionContext,
    ConsumerExchange,
    ProducerExchange,
    SecurityContext,
)
from pyjms_broker.api.destination import BrokerDestination, DestinationFilter, RegionDestination
from pyjms_broker.api.message import MessageReference, Position, StoredMessage, SubscriptionKey
from pyjms_broker.api.policies import (
    DeadLetterStrategy,
    MessageQuery,
    SubscriptionRecovery,
    SubscriptionRecoveryPolicy,
)
from pyjms_broker.api.statistics import DestinationStatistics
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
