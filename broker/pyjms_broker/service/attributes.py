"""The broker's attributes, each declared only here.

The two tables below are base classes of `BrokerService`, which gets its signature from them, and of
the settings models (`pyjms_broker.settings.model`), from which config/broker.yaml and
docs/broker.schema.json are generated; broker URIs read them through `uri_attributes`. To add an
attribute, add a field, use it, and regenerate the two files (`make docs`).

Names and defaults are ActiveMQ's, in snake_case. (activemq-broker 1.2)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

from pyjms.selector import DEFAULT_LIMITS
from pyjms.transport.options import camel_case
from pyjms_broker.attribute import Attribute, Unit, attribute, attributes_of, count, duration, flag
from pyjms_broker.region import system_usage as usage
from pyjms_broker.region.system_usage import DestinationLimits

DEFAULT_DATA_DIRECTORY: Final = Path("activemq-data")
_LIMITS: Final = DestinationLimits()  # a compiled class does not expose its defaults


@dataclass(kw_only=True, init=False, repr=False, eq=False)  # only a base class
class BrokerAttributes:
    """General attributes of a broker."""

    broker_name: Annotated[
        str, Attribute("Unique in the process; characters outside [a-zA-Z0-9._:-] become _.")
    ] = field(default="localhost", kw_only=False)
    persistent: bool = flag(
        "Whether messages survive a restart; false: they are kept in memory only.", default=True
    )
    data_directory: Path | str = attribute(
        DEFAULT_DATA_DIRECTORY,
        "Directory with a subdirectory for each broker, such as localhost/KahaDB.",
        unit=Unit.PATH,
    )
    delete_all_messages_on_startup: bool = flag(
        "Whether the broker starts with an empty store; scheduled messages are kept."
    )
    advisory_support: bool = flag(
        "Whether advisories are sent; Java clients need them for temporary destinations.",
        default=True,
    )
    anonymous_producer_advisory_support: bool = flag(
        "Whether producers without a destination also cause advisories."
    )
    use_virtual_topics: bool = flag(
        "Whether VirtualTopic.> feeds the queues Consumer.*.VirtualTopic.>.", default=True
    )
    use_virtual_dest_subs: bool = flag(
        "Whether consumers of queues fed by virtual destinations cause advisories for these."
    )
    use_virtual_dest_subs_on_creation: bool = flag(
        "Whether such queues cause them even without consumers; needs use_virtual_dest_subs."
    )
    use_mirrored_queues: bool = flag(
        "Whether messages to queue x are copied to VirtualTopic.Mirror.x."
    )
    use_temp_mirrored_queues: bool = flag(
        "Whether temporary queues are also mirrored.", default=True
    )
    populate_jmsx_user_id: bool = flag(
        "Whether messages get their sender's login name as JMSXUserID.", "populateJMSXUserID"
    )
    use_authenticated_principal_for_jmsx_user_id: bool = flag(
        "Whether JMSXUserID is the authenticated user, not the name that the client sent.",
        "useAuthenticatedPrincipalForJMSXUserID",
    )
    enable_message_expiration_on_active_durable_subs: bool = flag(
        "Whether the expiry scan includes durable subscriptions that are in use."
    )
    allow_temp_auto_creation_on_send: bool = flag(
        "Whether sending to an unknown temporary destination creates it."
    )
    maximum_destinations: int = count(
        _LIMITS.maximum,
        "Maximum number of destinations of all kinds; ActiveMQ has no limit.",
        minimum=1,
    )
    maximum_destinations_per_connection: int = count(
        _LIMITS.per_connection,
        "Maximum number of queues and topics created by one connection; ActiveMQ has no limit.",
        minimum=1,
    )
    maximum_destinations_per_user: int = count(
        _LIMITS.per_user,
        "Maximum number of existing ones created by one user; all clients without a name are one.",
        minimum=1,
    )
    keep_durable_subs_active: bool = flag(
        "Whether durable subscriptions keep messages in memory while they have no consumer; false: "
        "persistent ones wait in the store, others are dropped.",
        default=True,
    )
    reject_durable_consumers: bool = flag("Whether consumers of durable subscriptions are refused.")
    offline_durable_subscriber_timeout: float = duration(
        0.0, "Time without a consumer after which a durable subscription is removed; 0: never."
    )
    offline_durable_subscriber_task_schedule: float = duration(
        300.0, "Time between checks for such subscriptions; 0: no checks."
    )
    schedule_period_for_destination_purge: float = duration(
        _LIMITS.purge_period,
        "Time between sweeps for gc_inactive_destinations of policies; 0: no sweeps.",
    )
    max_purged_destinations_per_sweep: int = count(
        _LIMITS.purge_maximum, "Maximum number of destinations removed by one sweep; 0: unlimited."
    )
    unfinished_frames_limit: int = attribute(
        512 * 1024 * 1024,
        "Memory for messages that are partially received or wait for space; 0: unlimited.",
        unit=Unit.BYTES,
    )
    frame_read_timeout: float = duration(
        30.0, "Maximum time to receive such a message while others need its memory."
    )
    unsent_frames_limit: int = attribute(
        512 * 1024 * 1024,
        "Memory for long messages that clients have not read; 0: unlimited.",
        unit=Unit.BYTES,
    )
    frame_write_timeout: float = duration(
        30.0, "Maximum time to read such a message while others need its memory."
    )
    connection_info_timeout: float = duration(
        120.0, "Maximum time for a client without keep-alives to identify itself; 0: no limit."
    )
    allow_anonymous_remote: bool = flag(
        "Whether other machines may connect although there are no users; they may do anything."
    )
    reserved_file_handles: int = count(
        128,
        "File handles (of ulimit -n) reserved for the stores; clients that need them are refused.",
    )
    client_memory_limit: int = attribute(
        64 * 1024 * 1024,
        "Memory for the consumers, selectors and other resources of a connection; 0: unlimited.",
        unit=Unit.BYTES,
    )
    maximum_selector_nodes: int = count(
        DEFAULT_LIMITS.nodes,
        "Maximum number of names, literals and operators in a selector; an IN list counts once.",
        minimum=1,
    )
    maximum_selector_depth: int = count(
        DEFAULT_LIMITS.depth,
        "Maximum nesting depth of a selector, at most 100.",
        minimum=1,
        maximum=DEFAULT_LIMITS.depth,
    )
    maximum_selector_steps: int = count(
        DEFAULT_LIMITS.steps,
        "Maximum steps of a selector's regular expressions and lists per message.",
    )
    maximum_selector_characters: int = count(
        DEFAULT_LIMITS.characters,
        "Maximum characters read or written by a selector's text operations per message.",
    )
    maximum_selector_steps_per_second: int = count(
        250_000,
        "Maximum steps of all selectors; above, expensive consumers are closed; 0: unlimited.",
    )
    rollback_only_on_async_exception: bool = flag(
        "Whether a failed command that required no response makes the commit fail.", default=True
    )
    monitor_connection_splits: bool = flag(
        "Whether a client that connects directly ends what a network connector subscribed for it."
    )
    split_system_usage_for_producers_consumers: bool = flag(
        "Whether memory_limit is divided between producers and consumers, by the two portions."
    )
    producer_system_usage_portion: int = count(
        60,
        "Percentage of memory_limit at which senders wait, if it is divided.",
        minimum=1,
        maximum=100,
    )
    consumer_system_usage_portion: int = count(
        40,
        "Percentage of memory_limit for messages that wait for topic consumers, if it is divided.",
        minimum=1,
        maximum=100,
    )
    restart_allowed: bool = flag("Whether the broker may be restarted after a stop.", default=True)
    scheduler_support: bool = flag(
        "Whether messages with AMQ_SCHEDULED_DELAY, _PERIOD or _CRON are scheduled."
    )
    adjust_usage_limits: bool = flag(
        "Whether limits above the memory or free disk space are lowered; false: the start fails.",
        default=True,
    )
    max_scheduler_repeat_allowed: int = count(1000, "Highest AMQ_SCHEDULED_REPEAT.")
    scheduler_directory: Path | str | None = attribute(
        None,
        "Directory of scheduled messages, the same for master and slave; null: scheduler in "
        "the broker's directory.",
        unit=Unit.PATH,
    )


@dataclass(kw_only=True, init=False, repr=False, eq=False)  # only a base class
class SystemUsageAttributes:
    """Limits of the broker's memory and disk space."""

    memory_limit: int | str = attribute(
        usage.MAIN_MEMORY_LIMIT,
        "Memory for messages; senders wait when it is full; 70%: of the memory.",
        "systemUsage.memoryUsage.limit",
        Unit.LIMIT,
    )
    store_limit: int | str = attribute(
        usage.STORE_LIMIT,
        "Disk space for persistent messages; senders wait when it is full, 0: unlimited, "
        "70%: of the disk.",
        "systemUsage.storeUsage.limit",
        Unit.LIMIT,
    )
    temp_limit: int | str = attribute(
        usage.TEMP_LIMIT,
        "Disk space for non-persistent messages that do not fit in memory; the same.",
        "systemUsage.tempUsage.limit",
        Unit.LIMIT,
    )
    job_scheduler_limit: int | str = attribute(
        usage.JOB_SCHEDULER_LIMIT,
        "Disk space for scheduled messages; the same.",
        "systemUsage.jobSchedulerUsage.limit",
        Unit.LIMIT,
    )
    send_fail_if_no_space: bool = flag(
        "Whether sends fail instead of waiting for space.", "systemUsage.sendFailIfNoSpace"
    )
    send_fail_if_no_space_after_timeout: float = duration(
        0.0,
        "How long sends wait for space before they fail; 0: no limit.",
        "systemUsage.sendFailIfNoSpaceAfterTimeout",
    )


def uri_attributes() -> dict[str, tuple[str, Callable[[str], object]]]:
    """Return the attributes that URIs can set: ActiveMQ's name to our name and its parser."""
    return {
        attribute.uri_name or camel_case(name): (name, _reader_of(kind, attribute))
        for table in (BrokerAttributes, SystemUsageAttributes)
        for name, (kind, attribute) in attributes_of(table).items()
    }


def _reader_of(kind: Any, attribute: Attribute) -> Callable[[str], object]:
    if kind is bool:
        return _read_boolean
    if attribute.unit is Unit.LIMIT:
        return _read_limit
    if kind is int:
        return int
    return _read_milliseconds if attribute.unit is Unit.SECONDS else str


def _read_boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ValueError("it is neither true nor false")
    return word == "true"


def _read_milliseconds(text: str) -> float:
    return int(text) / 1000


def _read_limit(text: str) -> int | str:
    return text if "%" in text else int(text)
