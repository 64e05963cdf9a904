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
from pyjms_broker.attribute import Attribute, Unit, attribute, attributes_of
from pyjms_broker.region.destination_limits import DestinationLimits
from pyjms_broker.region.flow import system_usage as usage

__all__ = ["DEFAULT_DATA_DIRECTORY", "BrokerAttributes", "SystemUsageAttributes", "uri_attributes"]

DEFAULT_DATA_DIRECTORY: Final = Path("activemq-data")
_LIMITS: Final = DestinationLimits()  # a compiled class does not expose its defaults


@dataclass(kw_only=True, init=False, repr=False, eq=False)  # only a base class
class BrokerAttributes:
    """General attributes of a broker."""

    broker_name: Annotated[
        str,
        Attribute(
            "Unique in the process; characters outside [a-zA-Z0-9._:-] become _.", "brokerName"
        ),
    ] = field(default="localhost", kw_only=False)
    persistent: bool = attribute(
        True,
        "Whether messages survive a restart; false: they are kept in memory only.",
        "persistent",
    )
    data_directory: Path | str = attribute(
        DEFAULT_DATA_DIRECTORY,
        "Directory with a subdirectory for each broker, such as localhost/KahaDB.",
        "dataDirectory",
        Unit.PATH,
    )
    delete_all_messages_on_startup: bool = attribute(
        False, "Whether the broker starts with an empty store.", "deleteAllMessagesOnStartup"
    )
    advisory_support: bool = attribute(
        True,
        "Whether advisories are sent; Java clients need them for temporary destinations.",
        "advisorySupport",
    )
    anonymous_producer_advisory_support: bool = attribute(
        False,
        "Whether producers without a destination also cause advisories.",
        "anonymousProducerAdvisorySupport",
    )
    use_virtual_topics: bool = attribute(
        True,
        "Whether VirtualTopic.> feeds the queues Consumer.*.VirtualTopic.>.",
        "useVirtualTopics",
    )
    use_virtual_dest_subs: bool = attribute(
        False,
        "Whether consumers of queues fed by virtual destinations cause advisories for these.",
        "useVirtualDestSubs",
    )
    use_virtual_dest_subs_on_creation: bool = attribute(
        False,
        "Whether such queues cause them even without consumers; needs use_virtual_dest_subs.",
        "useVirtualDestSubsOnCreation",
    )
    use_mirrored_queues: bool = attribute(
        False,
        "Whether messages to queue x are copied to VirtualTopic.Mirror.x.",
        "useMirroredQueues",
    )
    use_temp_mirrored_queues: bool = attribute(
        True, "Whether temporary queues are also mirrored.", "useTempMirroredQueues"
    )
    populate_jmsx_user_id: bool = attribute(
        False, "Whether messages get their sender's login name as JMSXUserID.", "populateJMSXUserID"
    )
    use_authenticated_principal_for_jmsx_user_id: bool = attribute(
        False,
        "Whether JMSXUserID is the authenticated user, not the name that the client sent.",
        "useAuthenticatedPrincipalForJMSXUserID",
    )
    enable_message_expiration_on_active_durable_subs: bool = attribute(
        False,
        "Whether the expiry scan includes durable subscriptions that are in use.",
        "enableMessageExpirationOnActiveDurableSubs",
    )
    allow_temp_auto_creation_on_send: bool = attribute(
        False,
        "Whether sending to an unknown temporary destination creates it.",
        "allowTempAutoCreationOnSend",
    )
    maximum_destinations: int = attribute(
        _LIMITS.maximum,
        "Maximum number of destinations of all kinds; ActiveMQ has no limit.",
        "maximumDestinations",
        minimum=1,
    )
    maximum_destinations_per_connection: int = attribute(
        _LIMITS.per_connection,
        "Maximum number of queues and topics created by one connection; ActiveMQ has no limit.",
        "maximumDestinationsPerConnection",
        minimum=1,
    )
    maximum_destinations_per_user: int = attribute(
        _LIMITS.per_user,
        "Maximum number of existing ones created by one user; all clients without a name are one.",
        "maximumDestinationsPerUser",
        minimum=1,
    )
    offline_durable_subscriber_timeout: float = attribute(
        0.0,
        "Time without a consumer after which a durable subscription is removed; 0: never.",
        "offlineDurableSubscriberTimeout",
        Unit.SECONDS,
    )
    offline_durable_subscriber_task_schedule: float = attribute(
        300.0,
        "Time between checks for such subscriptions; 0: no checks.",
        "offlineDurableSubscriberTaskSchedule",
        Unit.SECONDS,
    )
    schedule_period_for_destination_purge: float = attribute(
        _LIMITS.purge_period,
        "Time between sweeps for gc_inactive_destinations of policies; 0: no sweeps.",
        "schedulePeriodForDestinationPurge",
        Unit.SECONDS,
    )
    max_purged_destinations_per_sweep: int = attribute(
        _LIMITS.purge_maximum,
        "Maximum number of destinations removed by one sweep; 0: unlimited.",
        "maxPurgedDestinationsPerSweep",
        minimum=0,
    )
    unfinished_frames_limit: int = attribute(
        512 * 1024 * 1024,
        "Memory for messages that are partially received or wait for space; 0: unlimited.",
        "unfinishedFramesLimit",
        Unit.BYTES,
    )
    frame_read_timeout: float = attribute(
        30.0,
        "Maximum time to receive such a message while others need its memory.",
        "frameReadTimeout",
        Unit.SECONDS,
    )
    unsent_frames_limit: int = attribute(
        512 * 1024 * 1024,
        "Memory for long messages that clients have not read; 0: unlimited.",
        "unsentFramesLimit",
        Unit.BYTES,
    )
    frame_write_timeout: float = attribute(
        30.0,
        "Maximum time to read such a message while others need its memory.",
        "frameWriteTimeout",
        Unit.SECONDS,
    )
    connection_info_timeout: float = attribute(
        120.0,
        "Maximum time for a client without keep-alives to identify itself; 0: no limit.",
        "connectionInfoTimeout",
        Unit.SECONDS,
    )
    allow_anonymous_remote: bool = attribute(
        False,
        "Whether other machines may connect although there are no users; they may do anything.",
        "allowAnonymousRemote",
    )
    reserved_file_handles: int = attribute(
        128,
        "File handles (of ulimit -n) reserved for the stores; clients that need them are refused.",
        "reservedFileHandles",
        minimum=0,
    )
    maximum_selector_steps: int = attribute(
        DEFAULT_LIMITS.steps,
        "Maximum steps of a selector's regular expressions and lists per message.",
        "maximumSelectorSteps",
        minimum=0,
    )
    maximum_selector_characters: int = attribute(
        DEFAULT_LIMITS.characters,
        "Maximum characters read or written by a selector's text operations per message.",
        "maximumSelectorCharacters",
        minimum=0,
    )
    maximum_selector_steps_per_second: int = attribute(
        250_000,
        "Maximum steps of all selectors; above, expensive consumers are closed; 0: unlimited.",
        "maximumSelectorStepsPerSecond",
        minimum=0,
    )
    rollback_only_on_async_exception: bool = attribute(
        True,
        "Whether a failed command that required no response makes the commit fail.",
        "rollbackOnlyOnAsyncException",
    )
    restart_allowed: bool = attribute(
        True, "Whether the broker may be restarted after a stop.", "restartAllowed"
    )
    scheduler_support: bool = attribute(
        False,
        "Whether messages with AMQ_SCHEDULED_DELAY, _PERIOD or _CRON are scheduled.",
        "schedulerSupport",
    )
    adjust_usage_limits: bool = attribute(
        True,
        "Whether limits above the memory or free disk space are lowered; false: the start fails.",
        "adjustUsageLimits",
    )
    max_scheduler_repeat_allowed: int = attribute(
        1000, "Highest AMQ_SCHEDULED_REPEAT.", "maxSchedulerRepeatAllowed", minimum=0
    )
    scheduler_directory: Path | str | None = attribute(
        None,
        "Directory of scheduled messages, the same for master and slave; null: scheduler in "
        "the broker's directory.",
        "schedulerDirectory",
        Unit.PATH,
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
    send_fail_if_no_space: bool = attribute(
        False, "Whether sends fail instead of waiting for space.", "systemUsage.sendFailIfNoSpace"
    )
    send_fail_if_no_space_after_timeout: float = attribute(
        0.0,
        "How long sends wait for space before they fail; 0: no limit.",
        "systemUsage.sendFailIfNoSpaceAfterTimeout",
        Unit.SECONDS,
    )


def uri_attributes() -> dict[str, tuple[str, Callable[[str], object]]]:
    """Return the attributes that URIs can set: ActiveMQ's name to our name and its parser."""
    return {
        attribute.uri_name: (name, _reader_of(kind, attribute))
        for table in (BrokerAttributes, SystemUsageAttributes)
        for name, (kind, attribute) in attributes_of(table).items()
        if attribute.uri_name is not None
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
