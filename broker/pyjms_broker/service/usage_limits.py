"""Apply and check the limits of memory and disk space. (activemq-broker M0)"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pyjms.errors import ConfigurationException
from pyjms.runtime.logging import get_logger
from pyjms.runtime.machine import available_memory
from pyjms_broker.region.system_usage import STORE_LIMIT, TEMP_LIMIT, DiskUsage, SystemUsage
from pyjms_broker.service.configuration import BrokerConfiguration

logger = get_logger(__name__)

_SHARE_OF_MEMORY: Final = 0.7
"""The share of the available memory to which a memory limit that is too high is lowered."""


def system_usage_of(config: BrokerConfiguration) -> SystemUsage:
    """Return the broker's usages; percentages are converted to bytes."""
    data = Path(config.data_directory)
    store = Path(config.store_directory or data)
    jobs = Path(config.scheduler_directory or data)
    memory = _bytes_of("memory_limit", config.memory_limit, available_memory)
    consumers = 0
    if config.split_system_usage_for_producers_consumers:
        consumers = memory * config.consumer_system_usage_portion // 100
        memory = memory * config.producer_system_usage_portion // 100
    return SystemUsage(
        memory,
        config.send_fail_if_no_space,
        config.send_fail_if_no_space_after_timeout,
        store_limit=_bytes_of("store_limit", config.store_limit, lambda: disk_size(store)),
        temp_limit=_bytes_of("temp_limit", config.temp_limit, lambda: disk_size(data)),
        job_scheduler_limit=_bytes_of(
            "job_scheduler_limit", config.job_scheduler_limit, lambda: disk_size(jobs)
        ),
        consumer_limit=consumers,
    )


def change_limits(
    config: BrokerConfiguration, usage: SystemUsage, values: Mapping[str, Any]
) -> None:
    """Set attributes of `SystemUsageAttributes` while the broker runs."""
    before = {name: getattr(config, name) for name in values}
    try:
        _set_limits(config, usage, values)
    except ConfigurationException:
        _set_limits(config, usage, before)
        raise


def _set_limits(config: BrokerConfiguration, usage: SystemUsage, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        setattr(config, name, value)
    wanted = system_usage_of(config)
    usage.send_fail_if_no_space = wanted.send_fail_if_no_space
    usage.send_fail_if_no_space_after_timeout = wanted.send_fail_if_no_space_after_timeout
    usage.memory.change_limit(wanted.memory.limit)
    usage.consumer_limit = wanted.consumer_limit
    for disk, limit in (
        (usage.store, wanted.store.limit),
        (usage.temp, wanted.temp.limit),
        (usage.job_scheduler, wanted.job_scheduler.limit),
    ):
        disk.change_limit(limit)
    check_memory(config, usage)
    check_disk(config, usage)


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


def disk_size(directory: Path) -> int:
    """Return the size in bytes of the file system that contains, or will contain, `directory`."""
    return shutil.disk_usage(existing(directory)).total


def existing(directory: Path) -> Path:
    """Return a directory or, if it does not exist yet, the one in which it will be."""
    found = directory.absolute()
    while not found.exists():
        found = found.parent
    return found


def check_memory(config: BrokerConfiguration, usage: SystemUsage) -> None:
    """Lower a memory limit that exceeds the memory to 70 % of it."""
    available = available_memory()
    if usage.memory.limit > available:
        what = f"memory_limit is {usage.memory.limit:,} bytes, and the memory is {available:,}"
        lowered = int(available * _SHARE_OF_MEMORY)
        _check_allowed(config, what)
        logger.warning("Broker %s: %s; it is lowered to %d", config.broker_name, what, lowered)
        usage.memory.change_limit(lowered)


def check_disk(config: BrokerConfiguration, usage: SystemUsage) -> None:
    """Lower limits of stores that exceed the usable disk space.

    Usable are the space that the store occupies already and the free space. A default limit is
    lowered without a warning.
    """
    data = Path(config.data_directory)
    store = Path(config.store_directory or data)
    if config.persistent:
        _check_disk(config, "store_limit", usage.store, store, STORE_LIMIT)
    _check_disk(config, "temp_limit", usage.temp, data, TEMP_LIMIT)


def _check_disk(
    config: BrokerConfiguration, name: str, usage: DiskUsage, directory: Path, default: int
) -> None:
    usable = usage.used + shutil.disk_usage(existing(directory)).free
    if usage.limit <= usable:
        return
    what = f"{name} is {usage.limit:,} bytes, and the disk has room for {usable:,}"
    is_default = usage.limit == default
    if not is_default:
        _check_allowed(config, what)
    elif not config.adjust_usage_limits:
        return
    logger.log(
        logging.DEBUG if is_default else logging.WARNING,
        "Broker %s: %s; it is lowered to that",
        config.broker_name,
        what,
    )
    usage.change_limit(usable, is_promised=not is_default)


def _check_allowed(config: BrokerConfiguration, what: str) -> None:
    if not config.adjust_usage_limits:
        raise ConfigurationException(
            what, hint="lower it, write a percentage, or set adjust_usage_limits"
        )
