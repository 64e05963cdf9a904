"""The bundled message broker: ActiveMQ's behaviour on ActiveMQ's wire format.

`BrokerService` embeds a broker in a process. The other names configure one or extend it:
destination policies, dead-letter strategies, virtual destinations and plug-ins. The module that
defines a name is imported when the name is first used, so `import broker` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# what type checkers read; the table below is what runs, a test compares the two
if TYPE_CHECKING:
    from broker.api.dead_letter import DeadLetterStrategy as DeadLetterStrategy
    from broker.api.filter import BrokerFilter as BrokerFilter
    from broker.api.filter import BrokerPlugin as BrokerPlugin
    from broker.policy.dead_letter import (
        DiscardingDeadLetterStrategy as DiscardingDeadLetterStrategy,
    )
    from broker.policy.dead_letter import (
        IndividualDeadLetterStrategy as IndividualDeadLetterStrategy,
    )
    from broker.policy.dead_letter import SharedDeadLetterStrategy as SharedDeadLetterStrategy
    from broker.policy.entry import PolicyEntry as PolicyEntry
    from broker.policy.map import PolicyMap as PolicyMap
    from broker.service import BrokerService as BrokerService
    from broker.virtual.composite import CompositeQueue as CompositeQueue
    from broker.virtual.composite import CompositeTopic as CompositeTopic
    from broker.virtual.mirrored import MirroredQueue as MirroredQueue
    from broker.virtual.topic import VirtualTopic as VirtualTopic

_HOMES = {
    "BrokerFilter": "broker.api.filter",
    "BrokerPlugin": "broker.api.filter",
    "BrokerService": "broker.service",
    "CompositeQueue": "broker.virtual.composite",
    "CompositeTopic": "broker.virtual.composite",
    "DeadLetterStrategy": "broker.api.dead_letter",
    "DiscardingDeadLetterStrategy": "broker.policy.dead_letter",
    "IndividualDeadLetterStrategy": "broker.policy.dead_letter",
    "MirroredQueue": "broker.virtual.mirrored",
    "PolicyEntry": "broker.policy.entry",
    "PolicyMap": "broker.policy.map",
    "SharedDeadLetterStrategy": "broker.policy.dead_letter",
    "VirtualTopic": "broker.virtual.topic",
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


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
