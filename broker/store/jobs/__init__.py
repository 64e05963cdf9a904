"""The jobs of the message scheduler: kept in a journal as ActiveMQ's, or in memory."""

from broker.store.jobs.api import JobSchedulerStore, ScheduledJob
from broker.store.jobs.kahadb import KahaDBJobSchedulerStore
from broker.store.jobs.memory import MemoryJobSchedulerStore
from broker.store.jobs.scheduler import JobScheduler

__all__ = [
    "JobScheduler",
    "JobSchedulerStore",
    "KahaDBJobSchedulerStore",
    "MemoryJobSchedulerStore",
    "ScheduledJob",
]
