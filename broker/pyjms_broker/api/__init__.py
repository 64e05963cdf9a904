"""The interfaces that all layers of the broker share and that plug-ins implement.

`Broker` and `BrokerFilter` form the filter chain. `BrokerDestination` and `DestinationFilter` are
destinations, a `Subscription` is a consumer, and a `MessageReference` is a message in the broker. A
method whose work may finish later returns a `Completion`, or `COMPLETED` if the work is finished.
This package imports no other package of the broker. The module of a name is imported when the name
is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import lazily

# fmt: off
# isort: off
if TYPE_CHECKING:
    from pyjms_broker.api.broker import (
        Broker as Broker, BrokerFilter as BrokerFilter, BrokerPlugin as BrokerPlugin,
    )
    from pyjms_broker.api.completion import (
        COMPLETED as COMPLETED, Completion as Completion, all_of as all_of, wait_for as wait_for,
    )
    from pyjms_broker.api.context import (
        BlockedSend as BlockedSend, ClientConnection as ClientConnection,
        ConnectionContext as ConnectionContext, ConsumerExchange as ConsumerExchange,
        ProducerExchange as ProducerExchange, SecurityContext as SecurityContext,
    )
    from pyjms_broker.api.destination import (
        BrokerDestination as BrokerDestination, DestinationFilter as DestinationFilter,
        RegionDestination as RegionDestination,
    )
    from pyjms_broker.api.message import (
        MessageReference as MessageReference, Position as Position, StoredMessage as StoredMessage,
        SubscriptionKey as SubscriptionKey,
    )
    from pyjms_broker.api.policies import (
        DeadLetterStrategy as DeadLetterStrategy, MessageQuery as MessageQuery,
        SubscriptionRecovery as SubscriptionRecovery,
        SubscriptionRecoveryPolicy as SubscriptionRecoveryPolicy,
    )
    from pyjms_broker.api.statistics import DestinationStatistics as DestinationStatistics
    from pyjms_broker.api.subscription import Subscription as Subscription
    from pyjms_broker.api.transaction import (
        PendingWork as PendingWork, Synchronization as Synchronization, Transaction as Transaction,
        TransactionState as TransactionState,
    )
    from pyjms_broker.api.usage import MemoryUsage as MemoryUsage
# isort: on
# fmt: on

__getattr__, __dir__ = lazily(globals())
