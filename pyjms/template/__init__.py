"""JmsTemplate, its operations, and the session bound to the current task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import lazily

# fmt: off
# isort: off
if TYPE_CHECKING:
    from pyjms.template.messaging import JmsClientOperations as JmsClientOperations
    from pyjms.template.redrive import Redriven as Redriven
    from pyjms.template.scheduler import ScheduledJob as ScheduledJob
# isort: on
# fmt: on

__getattr__, __dir__ = lazily(globals())
