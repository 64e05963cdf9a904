"""The broker's attributes: each is declared once, here.

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
from pyjms_broker.attribute import Attribute, Unit, attributes_of
from pyjms_broker.region.destination_limits import DestinationLimits
from pyjms_broker.region.flow import system_usage as usage

__all__ = [
    "DEFAULT_DATA_DIRECTORY",
    "BrokerAttributes",
    "SystemUsageAttributes",
    "uri_attributes",
]

DEFAULT_DATA_DIRECTORY: Final = Path("activemq-data")
_LIMITS: Final = DestinationLimits()  # of its class, compiled, defaults cannot be read


@dataclass(kw_only=True, eq=False, repr=False)
class BrokerAttributes:
    """What a broker is and does."""

    broker_name: Annotated[
        str,
        Attribute(
            "Unique in the process; characters outside [a-zA-Z0-9._:-] become _.", "brokerName"
        ),
    ] = field(default="localhost", kw_only=False)
    persistent: Annotated[
        bool, Attribute("Whether messages outlive the process; false: memory only.", "persistent")
    ] = True
    data_directory: Annotated[
        Path | str,
        Attribute(
            "Directory with a subdirectory for each broker, such as localhost/KahaDB.",
            "dataDirectory",
            Unit.PATH,
        ),
    ] = DEFAULT_DATA_DIRECTORY
    delete_all_messages_on_startup: Annotated[
        bool,
        Attribute("Whether the broker starts with an empty store.", "deleteAllMessagesOnStartup"),
    ] = False
    advisory_support: Annotated[
        bool,
        Attribute(
            "Whether advisories are sent; Java clients need them for temporary destinations.",
            "advisorySupport",
        ),
    ] = True
    anonymous_producer_advisory_support: Annotated[
        bool,
        Attribute(
            "Whether producers without a destination also cause advisories.",
            "anonymousProducerAdvisorySupport",
        ),
    ] = False
    use_virtual_topics: Annotated[
        bool,
        Attribute(
            "Whether VirtualTopic.> feeds the queues Consumer.*.VirtualTopic.>.",
            "useVirtualTopics",
        ),
    ] = True
    use_virtual_dest_subs: Annotated[
        bool,
        Attribute(
            "Whether consumers of queues that virtual destinations feed cause advisories on them.",
            "useVirtualDestSubs",
        ),
    ] = False
    use_virtual_dest_subs_on_creation: Annotated[
        bool,
        Attribute(
            "Whether those queues do so when they are created; needs use_virtual_dest_subs.",
            "useVirtualDestSubsOnCreation",
        ),
    ] = False
    use_mirrored_queues: Annotated[
        bool,
        Attribute(
            "Whether messages to queue x are copied to VirtualTopic.Mirror.x.", "useMirroredQueues"
        ),
    ] = False
    use_temp_mirrored_queues: Annotated[
        bool, Attribute("Whether temporary queues are also mirrored.", "useTempMirroredQueues")
    ] = True
    populate_jmsx_user_id: Annotated[
        bool,
        Attribute(
            "Whether messages get their sender's login name as JMSXUserID.", "populateJMSXUserID"
        ),
    ] = False
    use_authenticated_principal_for_jmsx_user_id: Annotated[
        bool,
        Attribute(
            "Whether JMSXUserID is the authenticated user, not the name that the client sent.",
            "useAuthenticatedPrincipalForJMSXUserID",
        ),
    ] = False
    enable_message_expiration_on_active_durable_subs: Annotated[
        bool,
        Attribute(
            "Whether the expiry scan also removes what waits for durable subscriptions in use.",
            "enableMessageExpirationOnActiveDurableSubs",
        ),
    ] = False
    allow_temp_auto_creation_on_send: Annotated[
        bool,
        Attribute(
            "Whether sending to an unknown temporary destination creates it.",
            "allowTempAutoCreationOnSend",
        ),
    ] = False
    maximum_destinations: Annotated[
        int,
        Attribute(
            "Maximum number of destinations of all kinds; ActiveMQ has no limit.",
            "maximumDestinations",
            minimum=1,
        ),
    ] = _LIMITS.maximum
    maximum_destinations_per_connection: Annotated[
        int,
        Attribute(
            "How many queues and topics one connection may create; ActiveMQ has no limit.",
            "maximumDestinationsPerConnection",
            minimum=1,
        ),
    ] = _LIMITS.per_connection
    maximum_destinations_per_user: Annotated[
        int,
        Attribute(
            "How many existing ones a user may have created; without a name: as one user.",
            "maximumDestinationsPerUser",
            minimum=1,
        ),
    ] = _LIMITS.per_user
    offline_durable_subscriber_timeout: Annotated[
        float,
        Attribute(
            "How long a durable subscription may be without a consumer; 0: for ever.",
            "offlineDurableSubscriberTimeout",
            Unit.SECONDS,
        ),
    ] = 0.0
    offline_durable_subscriber_task_schedule: Annotated[
        float,
        Attribute(
            "Time between two checks for such subscriptions; 0: no checks.",
            "offlineDurableSubscriberTaskSchedule",
            Unit.SECONDS,
        ),
    ] = 300.0
    schedule_period_for_destination_purge: Annotated[
        float,
        Attribute(
            "Time between two sweeps for gc_inactive_destinations of policies; 0: no sweeps.",
            "schedulePeriodForDestinationPurge",
            Unit.SECONDS,
        ),
    ] = _LIMITS.purge_period
    max_purged_destinations_per_sweep: Annotated[
        int,
        Attribute(
            "How many destinations one sweep removes; 0: unlimited.",
            "maxPurgedDestinationsPerSweep",
            minimum=0,
        ),
    ] = _LIMITS.purge_maximum
    unfinished_frames_limit: Annotated[
        int,
        Attribute(
            "Memory for messages that have arrived in part or wait for space; 0: unlimited.",
            "unfinishedFramesLimit",
            Unit.BYTES,
        ),
    ] = 512 * 1024 * 1024
    frame_read_timeout: Annotated[
        float,
        Attribute(
            "How long such a message may take while others need its memory.",
            "frameReadTimeout",
            Unit.SECONDS,
        ),
    ] = 30.0
    unsent_frames_limit: Annotated[
        int,
        Attribute(
            "Memory for long messages that clients do not read; 0: unlimited.",
            "unsentFramesLimit",
            Unit.BYTES,
        ),
    ] = 512 * 1024 * 1024
    frame_write_timeout: Annotated[
        float,
        Attribute(
            "How long reading such a message may take while others need its memory.",
            "frameWriteTimeout",
            Unit.SECONDS,
        ),
    ] = 30.0
    connection_info_timeout: Annotated[
        float,
        Attribute(
            "How long a client without keep-alives may take to identify itself; 0: no limit.",
            "connectionInfoTimeout",
            Unit.SECONDS,
        ),
    ] = 120.0
    allow_anonymous_remote: Annotated[
        bool,
        Attribute(
            "Whether other machines may connect without users: all of them may do everything.",
            "allowAnonymousRemote",
        ),
    ] = False
    reserved_file_handles: Annotated[
        int,
        Attribute(
            "File handles (ulimit -n) that clients leave to the stores; beyond, they are refused.",
            "reservedFileHandles",
            minimum=0,
        ),
    ] = 128
    maximum_selector_steps: Annotated[
        int,
        Attribute(
            "Steps of regular expressions and lists that a selector may take on a message.",
            "maximumSelectorSteps",
            minimum=0,
        ),
    ] = DEFAULT_LIMITS.steps
    maximum_selector_characters: Annotated[
        int,
        Attribute(
            "Characters that the text operations of a selector may read or write on a message.",
            "maximumSelectorCharacters",
            minimum=0,
        ),
    ] = DEFAULT_LIMITS.characters
    maximum_selector_steps_per_second: Annotated[
        int,
        Attribute(
            "Steps of all selectors together; beyond, costly consumers are closed; 0: unlimited.",
            "maximumSelectorStepsPerSecond",
            minimum=0,
        ),
    ] = 250_000
    rollback_only_on_async_exception: Annotated[
        bool,
        Attribute(
            "Whether a failed command that required no response makes the commit fail.",
            "rollbackOnlyOnAsyncException",
        ),
    ] = True
    restart_allowed: Annotated[
        bool, Attribute("Whether the broker may start again after a stop.", "restartAllowed")
    ] = True
    scheduler_support: Annotated[
        bool,
        Attribute(
            "Whether messages with AMQ_SCHEDULED_DELAY, _PERIOD or _CRON are scheduled.",
            "schedulerSupport",
        ),
    ] = False
    adjust_usage_limits: Annotated[
        bool,
        Attribute(
            "Whether limits beyond the memory or the free disk are lowered; false: they end the "
            "start.",
            "adjustUsageLimits",
        ),
    ] = True
    max_scheduler_repeat_allowed: Annotated[
        int, Attribute("Highest AMQ_SCHEDULED_REPEAT.", "maxSchedulerRepeatAllowed", minimum=0)
    ] = 1000
    scheduler_directory: Annotated[
        Path | str | None,
        Attribute(
            "Directory of scheduled messages, the same for master and slave; null: scheduler in "
            "the broker's directory.",
            "schedulerDirectory",
            Unit.PATH,
        ),
    ] = None


@dataclass(kw_only=True, eq=False, repr=False)
class SystemUsageAttributes:
    """How much memory and disk space the broker may use."""

    memory_limit: Annotated[
        int | str,
        Attribute(
            "Memory for messages; senders wait when it is full; 70%: of the memory.",
            "systemUsage.memoryUsage.limit",
            Unit.LIMIT,
        ),
    ] = usage.MAIN_MEMORY_LIMIT
    store_limit: Annotated[
        int | str,
        Attribute(
            "Disk space for persistent messages; senders wait when it is full, 0: unlimited, "
            "70%: of the disk.",
            "systemUsage.storeUsage.limit",
            Unit.LIMIT,
        ),
    ] = usage.STORE_LIMIT
    temp_limit: Annotated[
        int | str,
        Attribute(
            "Disk space for non-persistent messages that do not fit in memory; the same.",
            "systemUsage.tempUsage.limit",
            Unit.LIMIT,
        ),
    ] = usage.TEMP_LIMIT
    job_scheduler_limit: Annotated[
        int | str,
        Attribute(
            "Disk space for scheduled messages; the same.",
            "systemUsage.jobSchedulerUsage.limit",
            Unit.LIMIT,
        ),
    ] = usage.JOB_SCHEDULER_LIMIT
    send_fail_if_no_space: Annotated[
        bool,
        Attribute(
            "Whether sends fail instead of waiting for space.", "systemUsage.sendFailIfNoSpace"
        ),
    ] = False
    send_fail_if_no_space_after_timeout: Annotated[
        float,
        Attribute(
            "How long sends wait for space before they fail; 0: no limit.",
            "systemUsage.sendFailIfNoSpaceAfterTimeout",
            Unit.SECONDS,
        ),
    ] = 0.0


def uri_attributes() -> dict[str, tuple[str, Callable[[str], object]]]:
    """Return the attributes that URIs can set: ActiveMQ's name to ours and how it is read."""
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
