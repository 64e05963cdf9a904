"""The jobs of the message scheduler, in a journal compatible with ActiveMQ's or in memory."""

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
