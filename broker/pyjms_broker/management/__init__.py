"""The management model: a tree of views with ActiveMQ's JMX names. See docs/management.md."""

from pyjms_broker.management.host import RuntimeUpdates
from pyjms_broker.management.management import Management
from pyjms_broker.management.model import View
from pyjms_broker.management.object_name import ObjectName
from pyjms_broker.management.statistics import ManagedPlugin, StatisticsBrokerPlugin

__all__ = [
    "ManagedPlugin",
    "Management",
    "ObjectName",
    "RuntimeUpdates",
    "StatisticsBrokerPlugin",
    "View",
]
