"""The management model: a tree of views with ActiveMQ's JMX names. See docs/management.md.

The module of a name is imported when the name is first used, because a broker starts without views.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import lazily

# fmt: off
# isort: off
if TYPE_CHECKING:
    from pyjms_broker.management.management import (
        ManagedPlugin as ManagedPlugin,
        Management as Management,
    )
    from pyjms_broker.management.model import View as View
    from pyjms_broker.management.object_name import ObjectName as ObjectName
    from pyjms_broker.management.statistics import StatisticsBrokerPlugin as StatisticsBrokerPlugin
# isort: on
# fmt: on

__getattr__, __dir__ = lazily(globals())
