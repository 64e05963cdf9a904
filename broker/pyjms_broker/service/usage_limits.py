"""The limits of memory and disk space, which may be percentages. (activemq-broker M0)"""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyjms.errors import ConfigurationException
from pyjms_broker.region.flow.system_usage import SystemUsage
from pyjms_broker.service.configuration import BrokerConfiguration

__all__ = ["available_memory", "disk_size", "system_usage_of"]

_CGROUP_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def system_usage_of(config: BrokerConfiguration) -> SystemUsage:
    """Return the broker's usages; percentages become bytes.

    Raises:
        ConfigurationException: a limit is neither a number of bytes nor a percentage.
    """
    data = Path(config.data_directory)
    store = Path(config.store_directory or data)
    jobs = Path(config.scheduler_directory or data)
    return SystemUsage(
        _bytes_of("memory_limit", config.memory_limit, available_memory),
        config.send_fail_if_no_space,
        config.send_fail_if_no_space_after_timeout,
        store_limit=_bytes_of("store_limit", config.store_limit, lambda: disk_size(store)),
        temp_limit=_bytes_of("temp_limit", config.temp_limit, lambda: disk_size(data)),
        job_scheduler_limit=_bytes_of(
            "job_scheduler_limit", config.job_scheduler_limit, lambda: disk_size(jobs)
        ),
    )


def _bytes_of(name: str, limit: int | str, whole: Callable[[], int]) -> int:
    if isinstance(limit, int):
        return limit
    number, mark, rest = limit.partition("%")
    try:
        percent = float(number)
    except ValueError:
        percent = 0.0
    if not mark or rest.strip() or not 0 < percent <= 100:
        raise ConfigurationException(
            f"{name}: {limit!r} is neither a number of bytes nor a percentage",
            hint="write for example 70%, of the memory or of the disk; 100% at most",
        )
    return int(whole() * percent / 100)


def available_memory() -> int:
    """Return how many bytes of memory this process may use.

    That is the machine's memory, or the limit of the process or of its container.
    """
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    limits += [soft for soft in (resource.getrlimit(resource.RLIMIT_AS)[0],) if soft > 0]
    for file in _CGROUP_LIMITS:
        try:
            text = file.read_text(encoding="ascii").strip()
        except OSError:
            continue  # the machine has the other version of control groups, or none
        if text.isdigit():  # else it is max
            limits.append(int(text))
    return min(limits)


def disk_size(directory: Path) -> int:
    """Return the size in bytes of the file system that `directory` is on, or will be."""
    existing = directory.absolute()
    while not existing.exists():
        existing = existing.parent
    return shutil.disk_usage(existing).total
