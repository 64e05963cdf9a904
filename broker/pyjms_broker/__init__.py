"""The bundled message broker: ActiveMQ's behaviour on ActiveMQ's wire format.

`BrokerService` embeds a broker in a process. The other names configure or extend a broker:
destination policies, dead-letter strategies, virtual destinations and plug-ins. The module of a
name is imported when the name is first used, so that `import pyjms_broker` is fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import names_of

# for type checkers; the table below is used at run time, and a test compares both
if TYPE_CHECKING:
    from pyjms_broker.api.broker import BrokerFilter as BrokerFilter
    from pyjms_broker.api.broker import BrokerPlugin as BrokerPlugin
    from pyjms_broker.api.policies import DeadLetterStrategy as DeadLetterStrategy
    from pyjms_broker.filters.composite_queues import CompositeQueue as CompositeQueue
    from pyjms_broker.filters.composite_queues import CompositeTopic as CompositeTopic
    from pyjms_broker.filters.mirrored_queues import MirroredQueue as MirroredQueue
    from pyjms_broker.filters.virtual_topics import VirtualTopic as VirtualTopic
    from pyjms_broker.policy.dead_letter import (
        DiscardingDeadLetterStrategy as DiscardingDeadLetterStrategy,
    )
    from pyjms_broker.policy.dead_letter import (
        IndividualDeadLetterStrategy as IndividualDeadLetterStrategy,
    )
    from pyjms_broker.policy.dead_letter import SharedDeadLetterStrategy as SharedDeadLetterStrategy
    from pyjms_broker.policy.entry import PolicyEntry as PolicyEntry
    from pyjms_broker.policy.entry import PolicyMap as PolicyMap
    from pyjms_broker.service import BrokerService as BrokerService

_HOMES = {
    "BrokerFilter": "pyjms_broker.api.broker",
    "BrokerPlugin": "pyjms_broker.api.broker",
    "BrokerService": "pyjms_broker.service",
    "CompositeQueue": "pyjms_broker.filters.composite_queues",
    "CompositeTopic": "pyjms_broker.filters.composite_queues",
    "DeadLetterStrategy": "pyjms_broker.api.policies",
    "DiscardingDeadLetterStrategy": "pyjms_broker.policy.dead_letter",
    "IndividualDeadLetterStrategy": "pyjms_broker.policy.dead_letter",
    "MirroredQueue": "pyjms_broker.filters.mirrored_queues",
    "PolicyEntry": "pyjms_broker.policy.entry",
    "PolicyMap": "pyjms_broker.policy.entry",
    "SharedDeadLetterStrategy": "pyjms_broker.policy.dead_letter",
    "VirtualTopic": "pyjms_broker.filters.virtual_topics",
}

__all__ = [
    "BrokerFilter",
    "BrokerPlugin",
    "BrokerService",
    "CompositeQueue",
    "CompositeTopic",
    "DeadLetterStrategy",
    "DiscardingDeadLetterStrategy",
    "IndividualDeadLetterStrategy",
    "MirroredQueue",
    "PolicyEntry",
    "PolicyMap",
    "SharedDeadLetterStrategy",
    "VirtualTopic",
]


__getattr__, __dir__ = names_of(globals(), _HOMES)
