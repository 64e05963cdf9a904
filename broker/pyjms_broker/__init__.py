"""The bundled message broker: ActiveMQ's behaviour on ActiveMQ's wire format.

`BrokerService` embeds a broker in a process. The other names configure or extend a broker:
destination policies, dead-letter strategies, virtual destinations and plug-ins. The module of a
name is imported when the name is first used, so that `import pyjms_broker` is fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import lazily

# fmt: off
# isort: off
if TYPE_CHECKING:
    from pyjms_broker.api.broker import (
        BrokerFilter as BrokerFilter,
        BrokerPlugin as BrokerPlugin,
    )
    from pyjms_broker.api.policies import DeadLetterStrategy as DeadLetterStrategy
    from pyjms_broker.filters.composite_queues import (
        CompositeQueue as CompositeQueue,
        CompositeTopic as CompositeTopic,
    )
    from pyjms_broker.filters.virtual_destinations import MirroredQueue as MirroredQueue
    from pyjms_broker.filters.virtual_destinations import VirtualTopic as VirtualTopic
    from pyjms_broker.policy.dead_letter import (
        DiscardingDeadLetterStrategy as DiscardingDeadLetterStrategy,
        IndividualDeadLetterStrategy as IndividualDeadLetterStrategy,
        SharedDeadLetterStrategy as SharedDeadLetterStrategy,
    )
    from pyjms_broker.policy.entry import (
        PolicyEntry as PolicyEntry,
        PolicyMap as PolicyMap,
    )
    from pyjms_broker.service import BrokerService as BrokerService
# isort: on
# fmt: on

__getattr__, __dir__ = lazily(globals())
