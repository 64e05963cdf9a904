"""The context of the views: the broker, names, and the context for sending."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from pyjms._ids import IdGenerator
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage, ConnectionId, MessageId, ProducerId
from pyjms_broker.api.completion import Completion, checked
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.api.internal_destinations import is_internal
from pyjms_broker.connector.base import ServiceIdentity
from pyjms_broker.management.names import Names

if TYPE_CHECKING:
    from pyjms_broker.api.destination import BrokerDestination
    from pyjms_broker.connector.base import TransportConnector
    from pyjms_broker.network import Networks
    from pyjms_broker.region.flow.system_usage import SystemUsage
    from pyjms_broker.region.region_broker import RegionBroker
    from pyjms_broker.store.jobs.api import JobSchedulerStore

__all__ = ["Managed", "ManagedBroker", "ManagementContext", "RuntimeUpdates"]

T = TypeVar("T")


class RuntimeUpdates(Protocol):
    """Reloads the configuration of a running broker (plug-in `runtime_configuration`)."""

    check_period: float
    """Seconds between two checks of the file; 0: no checks."""

    @property
    def origin(self) -> str:
        """The configuration file."""

    @property
    def modified(self) -> float | None:
        """The time of the last applied changes in seconds since the epoch; None: never."""

    @property
    def status(self) -> str:
        """The changes that the last update could not apply, or its error; empty: none."""

    async def update(self, *, read_users: bool = False) -> object:
        """Apply changes of the configuration; `read_users`: always reload the users' files.

        Raises:
            ConfigurationException: the configuration is invalid; nothing is changed.
        """


class ConfiguredBroker(Protocol):
    """The objects that a broker's settings have created."""

    @property
    def updates(self) -> RuntimeUpdates | None:
        """The runtime updates; None without the plug-in `runtime_configuration`."""


class ManagedBroker(ServiceIdentity, Protocol):
    """The part of the broker service that the views use."""

    connectors: list[TransportConnector]
    networks: Networks
    system_usage: SystemUsage
    persistent: bool
    restart_requested: bool
    """Whether the caller should restart the broker once it has stopped."""

    @property
    def configured(self) -> ConfiguredBroker: ...

    @property
    def region_broker(self) -> RegionBroker: ...

    @property
    def job_store(self) -> JobSchedulerStore | None: ...

    @property
    def data_path(self) -> Path: ...

    @property
    def started(self) -> bool: ...

    @property
    def slave(self) -> bool: ...

    @property
    def vm_uri(self) -> str: ...

    @property
    def uptime(self) -> float:
        """Seconds since the start."""

    @property
    def restart_allowed(self) -> bool: ...

    def stop_soon(self) -> None:
        """Stop in the background."""

    async def start(self) -> None:
        """Start the broker; ignored while it is running."""

    def add_connector(self, uri: str) -> TransportConnector:
        """Add a connector, which the caller starts."""


class ManagementContext:
    """The state shared by all views of one broker."""

    def __init__(self, host: ManagedBroker) -> None:
        self.host = host
        self.names = Names(lambda: host.broker_name)
        self._producer_id = ProducerId(IdGenerator().generate())
        self._sequence = itertools.count(1)
        self.client = ConnectionContext()
        """The context of operations, whose sends do not wait for space, as in ActiveMQ."""
        self.client.producer_flow_control = False
        self.client.is_operator = True
        self.client.connection_id = ConnectionId(self._producer_id.connection_id)
        self.client.client_id = self._producer_id.connection_id

    @property
    def region(self) -> RegionBroker:
        """The region broker."""
        return self.host.region_broker

    def destinations(self) -> dict[Destination, BrokerDestination]:
        """Return all destinations except for the broker's internal ones, which have no views."""
        every = self.region.destinations()
        return {name: each for name, each in every.items() if not is_internal(name)}

    def next_message_id(self) -> MessageId:
        """Return the next message id of the broker's own producer."""
        return MessageId(None, self._producer_id, next(self._sequence))

    def send(self, message: ActiveMQMessage) -> Completion:
        """Send a message through the whole filter chain; completed when it is stored."""
        if message.producer_id is None:
            message.producer_id = self._producer_id
        message.response_required = True
        broker = self.host.broker
        return checked(broker.send(ProducerExchange(self.client), message), broker, "send")


@dataclass(frozen=True, slots=True)
class Managed(Generic[T]):
    """A managed object of a view, with the context."""

    tree: ManagementContext
    it: T
