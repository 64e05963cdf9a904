"""The view of the broker's health. (ActiveMQ HealthView; activemq-edges 7)

The checks, their ids and texts are ActiveMQ's: queues with producers but without consumers, stores
near their limits, and limits beyond the disk's free space.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from pyjms_broker.management import attributes
from pyjms_broker.management.host import Managed, ManagedBroker, ManagementContext
from pyjms_broker.management.model import ViewKind, operation, view_kind
from pyjms_broker.region.system_usage import STORE_LIMIT, DiskUsage

_Health: TypeAlias = Managed[ManagedBroker]

_NEARLY_FULL: Final = 90
"""The percentage of a limit above which there is a warning."""
_MEGABYTE: Final = 1 << 20


class HealthStatus(NamedTuple):
    """One warning, as a row of the table."""

    health_id: str
    level: str
    message: str
    resource: str

    def __str__(self) -> str:
        return f"{self.health_id}: {self.level} {self.message} from {self.resource}"


def _warning(name: str, message: str, resource: object) -> HealthStatus:
    return HealthStatus(f"org.apache.activemq.{name}", "WARNING", message, str(resource))


def _unread_queues(tree: ManagementContext) -> Iterator[HealthStatus]:
    for destination, found in tree.destinations().items():
        statistics = found.statistics
        if destination.is_queue and statistics.producers and not statistics.consumers:
            message = f"Queue {destination.physical_name} has no consumers"
            yield _warning("noConsumer", message, tree.names.destination(destination))


def _limits(usage: DiskUsage, what: str, name: str) -> Iterator[HealthStatus]:
    if usage.limit and usage.percent > _NEARLY_FULL:
        message = f"{what} size is within {usage.percent}% of its limit"
        yield _warning(name, message, usage.name)


def _disk(usage: DiskUsage, what: str, directory: Path) -> Iterator[HealthStatus]:
    if usage.limit == STORE_LIMIT or not usage.is_promised:
        return  # the default, or lowered to the disk's size at the start: not a configured limit
    free = shutil.disk_usage(directory).free
    if usage.limit - usage.used > free:
        message = (
            f"{what} limit is {usage.limit // _MEGABYTE} mb, whilst the data directory: "
            f"{directory.absolute()} only has {free // _MEGABYTE} mb of usable space"
        )
        yield _warning("FreeDiskSpaceLeft", message, usage.name)


def _check(h: _Health) -> list[HealthStatus]:
    host = h.it
    found = list(_unread_queues(h.tree))
    usage = host.system_usage
    if host.persistent:
        found += _limits(usage.store, "Message Store", "StoreLimit")
        found += _limits(usage.temp, "TempMessage Store", "TempStoreLimit")
        if host.data_path.is_dir():
            found += _disk(usage.store, "Store", host.data_path)
    if host.job_store is not None:
        found += _limits(usage.job_scheduler, "JobSchedulerMessage Store", "JobSchedulerLimit")
    return found


def _status(h: _Health) -> str:
    found = _check(h)
    if not found:
        return "Good"
    return f"Getting Worried {{{''.join(f'{each} , ' for each in found)} }}"


def _rows(h: _Health) -> list[dict[str, object]]:
    return [
        {
            "healthId": each.health_id,
            "level": each.level,
            "message": each.message,
            "resource": each.resource,
        }
        for each in _check(h)
    ]


HEALTH: Final[ViewKind[_Health]] = view_kind(
    "HealthView",
    "Warnings about conditions that need an operator's attention.",
    attributes.HEALTH,
    {"CurrentStatus": _status},
    [
        operation("TabularData health()", "Return the warnings.", _rows),
        operation("List healthList()", "Return the warnings.", _rows),
        operation("String healthStatus()", "Return CurrentStatus.", _status),
    ],
)
