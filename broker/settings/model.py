"""BrokerSettings: every key of broker.yaml, with ActiveMQ's names and defaults.

Values are read-only. A key that nobody knows is an error. Times are seconds once read,
sizes bytes. (ActiveMQ 1.2)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from broker.policy.map import PolicyMap
from broker.region.usage import (
    JOB_SCHEDULER_LIMIT,
    MAIN_MEMORY_LIMIT,
    MAXIMUM_DESTINATIONS,
    STORE_LIMIT,
    TEMP_LIMIT,
)
from broker.service.io_errors import IOExceptionHandler
from broker.service.persistence import DEFAULT_DATA_DIRECTORY
from broker.settings.persistence import PersistenceSettings
from broker.settings.policies import PolicySettings
from broker.settings.values import Bytes, DestinationName, Section
from broker.settings.virtual import VirtualDestinationSettings
from pyjms._yaml import Duration

__all__ = [
    "BrokerSettings",
    "ConnectorSettings",
    "IOExceptionHandlerSettings",
    "SystemUsageSettings",
]


class ConnectorSettings(Section):
    """A door of the broker (`connectors`)."""

    uri: str
    """Such as tcp://127.0.0.1:61616; 0.0.0.0 lets other machines in, port 0 takes a free one."""
    name: str | None = None
    """What it is called in logs; not set is its URI."""
    allow_link_stealing: bool = False
    """Whether a new client takes its client id away from a connection that has it."""


class SystemUsageSettings(Section):
    """What the broker may use (`system_usage`)."""

    memory_limit: Bytes = MAIN_MEMORY_LIMIT
    """Bytes of messages held in all; senders wait above it."""
    store_limit: Bytes = STORE_LIMIT
    """Bytes on the disk; senders of persistent messages wait above it. 0 none."""
    temp_limit: Bytes = TEMP_LIMIT
    """The same for other messages that memory has no room for."""
    job_scheduler_limit: Bytes = JOB_SCHEDULER_LIMIT
    """The same for messages that the scheduler keeps back."""
    send_fail_if_no_space: bool = False
    """Whether their sends fail instead."""
    send_fail_if_no_space_after_timeout: Duration = 0.0
    """Whether they fail after that time; 0 never."""


class IOExceptionHandlerSettings(Section):
    """What an error of the store leads to (`io_exception_handler`)."""

    ignore_all_errors: bool = False
    """Whether the broker goes on without its store."""
    stop_start_connectors: bool = False
    """Whether clients are sent away while the store can take nothing."""
    system_exit_on_shutdown: bool = False
    """Whether the process ends when the broker had to stop."""


class BrokerSettings(Section):
    """All settings of a broker; `BrokerSettings()` is the defaults."""

    broker_name: str = "localhost"
    """Unique in the process; characters outside [a-zA-Z0-9._:-] become _."""
    persistent: bool = True
    """Whether messages outlive the process."""
    data_directory: Path = DEFAULT_DATA_DIRECTORY
    """Where brokers keep what they keep, each in a folder of its name."""
    persistence: PersistenceSettings | None = None
    """The store; not set is KahaDB with its defaults."""
    delete_all_messages_on_startup: bool = False
    """Whether the broker begins with an empty store."""
    io_exception_handler: IOExceptionHandlerSettings = IOExceptionHandlerSettings()
    advisory_support: bool = True
    """Whether clients are told of connections, destinations, consumers and producers."""
    anonymous_producer_advisory_support: bool = False
    """Whether also of producers without a destination."""
    use_virtual_topics: bool = True
    """Whether VirtualTopic.> feeds the queues Consumer.*.VirtualTopic.>."""
    use_mirrored_queues: bool = False
    """Whether what comes to a queue goes to VirtualTopic.Mirror.<queue>, too."""
    use_temp_mirrored_queues: bool = True
    """Whether temporary queues are mirrored, too."""
    populate_jmsx_user_id: bool = False
    """Whether messages get their sender's login name as JMSXUserID."""
    allow_temp_auto_creation_on_send: bool = False
    """Whether sending to an unknown temporary destination makes it."""
    maximum_destinations: int = Field(default=MAXIMUM_DESTINATIONS, ge=1)
    """How many destinations there may be; ActiveMQ has no limit."""
    rollback_only_on_async_exception: bool = True
    """Whether a failed command that nobody waited for makes the commit fail."""
    restart_allowed: bool = True
    """Whether the broker may start again after a stop."""
    scheduler_support: bool = False
    """Whether messages with AMQ_SCHEDULED_DELAY, _PERIOD or _CRON are kept until their time."""
    max_scheduler_repeat_allowed: int = Field(default=1000, ge=0)
    """The highest AMQ_SCHEDULED_REPEAT."""
    scheduler_directory: Path | None = None
    """Where they lie, of master and slave the same; not set is in the broker's folder."""
    system_usage: SystemUsageSettings = SystemUsageSettings()
    connectors: tuple[ConnectorSettings, ...] = ()
    """The doors; none is vm:// only for an embedded broker."""
    destinations: tuple[DestinationName, ...] = ()
    """Made at start: orders, topic://news."""
    policies: tuple[PolicySettings, ...] = ()
    """What destinations do, by name."""
    virtual_destinations: tuple[VirtualDestinationSettings, ...] | None = None
    """Instead of the virtual topics VirtualTopic.>; not set keeps these."""

    @model_validator(mode="after")
    def _check_policies(self) -> Self:
        if sum(policy.build().target is None for policy in self.policies) > 1:
            raise ValueError("policies: only one may be without a destination")
        return self

    def keywords(self) -> dict[str, Any]:
        """Return the keyword arguments of BrokerService; `connectors` are not among them."""
        virtual = self.virtual_destinations
        usage = self.system_usage
        handler = self.io_exception_handler
        plain = {name: getattr(self, name) for name in _PLAIN}
        return {
            **plain,
            **{name: getattr(usage, name) for name in type(usage).model_fields},
            "store_directory": None if self.persistence is None else self.persistence.directory,
            "io_exception_handler": IOExceptionHandler(
                handler.ignore_all_errors,
                handler.stop_start_connectors,
                handler.system_exit_on_shutdown,
            ),
            "policies": PolicyMap(policy.build() for policy in self.policies),
            "virtual_destinations": (
                None if virtual is None else tuple(item.build() for item in virtual)
            ),
        }


_PLAIN = tuple(
    name
    for name in BrokerSettings.model_fields
    if name
    not in {
        "connectors",
        "io_exception_handler",
        "policies",
        "system_usage",
        "virtual_destinations",
    }
)
