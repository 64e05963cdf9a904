"""Job stores of the message scheduler: a journal compatible with ActiveMQ's, or memory.

The module of a name is imported when the name is first used, because few brokers schedule messages.
"""

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import names_of

if TYPE_CHECKING:
    from pyjms_broker.store.jobs.api import JobScheduler, JobSchedulerStore, ScheduledJob
    from pyjms_broker.store.jobs.kahadb import KahaDBJobSchedulerStore
    from pyjms_broker.store.jobs.scheduler import MemoryJobSchedulerStore

__all__ = [
    "JobScheduler",
    "JobSchedulerStore",
    "KahaDBJobSchedulerStore",
    "MemoryJobSchedulerStore",
    "ScheduledJob",
]

__getattr__, __dir__ = names_of(
    globals(),
    {
        "JobScheduler": "pyjms_broker.store.jobs.api",
        "JobSchedulerStore": "pyjms_broker.store.jobs.api",
        "KahaDBJobSchedulerStore": "pyjms_broker.store.jobs.kahadb",
        "MemoryJobSchedulerStore": "pyjms_broker.store.jobs.scheduler",
        "ScheduledJob": "pyjms_broker.store.jobs.api",
    },
)
