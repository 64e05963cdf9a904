"""The management model: a tree of views with ActiveMQ's JMX names. See docs/management.md.

The module of a name is imported when the name is first used, because a broker starts without views.
"""

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import names_of

if TYPE_CHECKING:
    from pyjms_broker.management.host import RuntimeUpdates
    from pyjms_broker.management.management import ManagedPlugin, Management
    from pyjms_broker.management.model import View
    from pyjms_broker.management.object_name import ObjectName
    from pyjms_broker.management.statistics import StatisticsBrokerPlugin

__all__ = [
    "ManagedPlugin",
    "Management",
    "ObjectName",
    "RuntimeUpdates",
    "StatisticsBrokerPlugin",
    "View",
]

__getattr__, __dir__ = names_of(
    globals(),
    {
        "ManagedPlugin": "pyjms_broker.management.management",
        "Management": "pyjms_broker.management.management",
        "ObjectName": "pyjms_broker.management.object_name",
        "RuntimeUpdates": "pyjms_broker.management.host",
        "StatisticsBrokerPlugin": "pyjms_broker.management.statistics",
        "View": "pyjms_broker.management.model",
    },
)
