"""Job stores of the message scheduler: a journal compatible with ActiveMQ's, or memory."""

from pyjms_broker.store.jobs.api import JobScheduler, JobSchedulerStore, ScheduledJob
from pyjms_broker.store.jobs.kahadb import KahaDBJobSchedulerStore
from pyjms_broker.store.jobs.memory import MemoryJobSchedulerStore

__all__ = [
    "JobScheduler",
    "JobSchedulerStore",
    "KahaDBJobSchedulerStore",
    "MemoryJobSchedulerStore",
    "ScheduledJob",
]
