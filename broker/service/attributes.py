"""BrokerService attributes in URIs: ActiveMQ's spelling, our keyword, how the text is read.

`broker:(...)/name?persistent=false` and `vm://name?broker.persistent=false` set them.
(ActiveMQ 1.2, B12, B14)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from pyjms.errors import ConfigurationException
from pyjms.transport.uri import did_you_mean

__all__ = ["ATTRIBUTES", "WITHOUT_MEANING", "check_options", "keywords_from"]

logger = logging.getLogger(__name__)


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ValueError("it is neither true nor false")
    return word == "true"


def _milliseconds(text: str) -> float:
    return int(text) / 1000


ATTRIBUTES: dict[str, tuple[str, Callable[[str], object]]] = {
    "brokerName": ("broker_name", str),
    "persistent": ("persistent", _boolean),
    "dataDirectory": ("data_directory", str),
    "deleteAllMessagesOnStartup": ("delete_all_messages_on_startup", _boolean),
    "advisorySupport": ("advisory_support", _boolean),
    "anonymousProducerAdvisorySupport": ("anonymous_producer_advisory_support", _boolean),
    "useVirtualTopics": ("use_virtual_topics", _boolean),
    "useMirroredQueues": ("use_mirrored_queues", _boolean),
    "useTempMirroredQueues": ("use_temp_mirrored_queues", _boolean),
    "populateJMSXUserID": ("populate_jmsx_user_id", _boolean),
    "allowTempAutoCreationOnSend": ("allow_temp_auto_creation_on_send", _boolean),
    "maximumDestinations": ("maximum_destinations", int),
    "rollbackOnlyOnAsyncException": ("rollback_only_on_async_exception", _boolean),
    "restartAllowed": ("restart_allowed", _boolean),
    "schedulerSupport": ("scheduler_support", _boolean),
    "maxSchedulerRepeatAllowed": ("max_scheduler_repeat_allowed", int),
    "schedulerDirectory": ("scheduler_directory", str),
    "systemUsage.memoryUsage.limit": ("memory_limit", int),
    "systemUsage.storeUsage.limit": ("store_limit", int),
    "systemUsage.tempUsage.limit": ("temp_limit", int),
    "systemUsage.jobSchedulerUsage.limit": ("job_scheduler_limit", int),
    "systemUsage.sendFailIfNoSpace": ("send_fail_if_no_space", _boolean),
    "systemUsage.sendFailIfNoSpaceAfterTimeout": (
        "send_fail_if_no_space_after_timeout",
        _milliseconds,
    ),
}

WITHOUT_MEANING = frozenset({"useJmx", "useShutdownHook", "dedicatedTaskRunner", "startAsync"})
"""Attributes of Java's broker that have nothing to act on here; said once, in the log."""


def keywords_from(options: Mapping[str, str]) -> dict[str, object]:
    """Turn URI options into keyword arguments of BrokerService.

    Raises:
        ConfigurationException: an option is unknown, or its value cannot be read.

    """
    keywords = check_options(options)
    for name in options.keys() & WITHOUT_MEANING:
        logger.info("Broker option %s has no meaning here and is ignored", name)
    return keywords


def check_options(options: Mapping[str, str]) -> dict[str, object]:
    """Do as `keywords_from` does, without a word in the log."""
    unknown = {k: v for k, v in options.items() if k not in ATTRIBUTES and k not in WITHOUT_MEANING}
    if unknown:
        listed = ", ".join(f"{name}={value}" for name, value in unknown.items())
        raise ConfigurationException(
            f"There are {len(unknown)} Broker options that couldn't be set on the BrokerService. "
            f"Check the options are spelled correctly. Unknown parameters=[{{{listed}}}]. "
            "This BrokerService cannot be started.",
            hint=did_you_mean(next(iter(unknown)), ATTRIBUTES),
        )
    return {
        ATTRIBUTES[name][0]: _read(name, text)
        for name, text in options.items()
        if name in ATTRIBUTES
    }


def _read(name: str, text: str) -> object:
    try:
        return ATTRIBUTES[name][1](text)
    except ValueError as error:
        raise ConfigurationException(
            f"Broker option {name}={text} cannot be read: {error}"
        ) from error
