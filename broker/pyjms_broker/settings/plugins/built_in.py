"""ActiveMQ's broker plug-ins in broker.yaml (`plugins`). (activemq-broker 1.1)"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Self

from pydantic import model_validator

from pyjms_broker.api.broker import Broker
from pyjms_broker.api.filter import BrokerFilter, BrokerPlugin
from pyjms_broker.management import StatisticsBrokerPlugin
from pyjms_broker.plugins.broker_path import TraceBrokerPathPlugin
from pyjms_broker.plugins.datagram_trace import MulticastTraceBrokerPlugin, UDPTraceBrokerPlugin
from pyjms_broker.plugins.destination_list import DEFAULT_FILE, DestinationsPlugin
from pyjms_broker.plugins.discarding_dlq import DiscardingDLQBrokerPlugin
from pyjms_broker.plugins.dot_files import (
    ConnectionDotFilePlugin,
    DestinationDotFilePlugin,
    DotFilePlugin,
)
from pyjms_broker.plugins.event_logging import LoggingBrokerPlugin
from pyjms_broker.plugins.force_persistency import ForcePersistencyModeBrokerPlugin
from pyjms_broker.plugins.path_separator import DestinationPathSeparatorPlugin
from pyjms_broker.plugins.redelivery import RedeliveryPlugin, RedeliveryPolicy
from pyjms_broker.plugins.selector_cache import VirtualSelectorCacheBrokerPlugin
from pyjms_broker.plugins.time_stamping import TimeStampingBrokerPlugin
from pyjms_broker.settings.extensions import PluginSettings
from pyjms_broker.settings.plugins.authorization import AuditSettings, AuthorizationSettings
from pyjms_broker.settings.plugins.jaas import (
    JaasAuthenticationSettings,
    JaasCertificateAuthenticationSettings,
    JaasDualAuthenticationSettings,
)
from pyjms_broker.settings.plugins.runtime import RuntimeConfigurationSettings
from pyjms_broker.settings.plugins.security import (
    PropertiesAuthenticationSettings,
    SimpleAuthenticationSettings,
)
from pyjms_broker.settings.values import DestinationName, Section, arguments_of, check_by

if TYPE_CHECKING:
    from pyjms_broker.management import Management

__all__ = ["BUILT_IN_PLUGINS", "RedeliveryPolicySettings"]


class _BuiltInPlugin(PluginSettings):
    """The settings of a plug-in, from its table of options."""

    plugin: ClassVar[type[BrokerPlugin]]
    type: str

    def build(self) -> BrokerPlugin:
        """Create the plug-in."""
        plugin: Callable[..., BrokerPlugin] = self.plugin
        return plugin(**arguments_of(self.plugin, self))

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the plug-in's filter around `broker`."""
        return self.build().install_plugin(broker)

    async def reconfigure(self, installed: Broker) -> Broker | None:
        """Return a new filter that replaces the installed one."""
        return self.install_plugin(installed.next) if isinstance(installed, BrokerFilter) else None

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_by(self.build)
        return self


class TimeStampingSettings(_BuiltInPlugin, TimeStampingBrokerPlugin):
    """Messages get the broker's time, and keep their time to live."""

    plugin = TimeStampingBrokerPlugin
    type: Literal["time_stamping"] = "time_stamping"


class ForcePersistencyModeSettings(_BuiltInPlugin, ForcePersistencyModeBrokerPlugin):
    """Every message is persistent, or none is."""

    plugin = ForcePersistencyModeBrokerPlugin
    type: Literal["force_persistency_mode"] = "force_persistency_mode"


class DestinationPathSeparatorSettings(_BuiltInPlugin, DestinationPathSeparatorPlugin):
    """Clients may write another separator than a dot."""

    plugin = DestinationPathSeparatorPlugin
    type: Literal["destination_path_separator"] = "destination_path_separator"


class LoggingSettings(_BuiltInPlugin, LoggingBrokerPlugin):
    """Events are logged; message headers, but no bodies, properties or passwords."""

    plugin = LoggingBrokerPlugin
    type: Literal["logging"] = "logging"


class TraceBrokerPathSettings(_BuiltInPlugin, TraceBrokerPathPlugin):
    """A property lists the brokers that a message has passed."""

    plugin = TraceBrokerPathPlugin
    type: Literal["trace_broker_path"] = "trace_broker_path"


class DiscardingDLQSettings(_BuiltInPlugin, DiscardingDLQBrokerPlugin):
    """Messages that would be dead-lettered are discarded."""

    plugin = DiscardingDLQBrokerPlugin
    type: Literal["discarding_dlq"] = "discarding_dlq"


class RedeliveryPolicySettings(Section, RedeliveryPolicy):
    """How often and when the messages of a destination are delivered again."""

    destination: DestinationName | None = None
    """Name or pattern; null: all destinations without another policy."""

    def build(self) -> RedeliveryPolicy:
        """Create the policy."""
        return RedeliveryPolicy(**arguments_of(RedeliveryPolicy, self))

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_by(self.build)
        return self


class RedeliverySettings(_BuiltInPlugin, RedeliveryPlugin):
    """The broker delivers a message again, later, instead of dead-lettering it."""

    plugin = RedeliveryPlugin
    type: Literal["redelivery"] = "redelivery"
    redelivery_policy_map: tuple[RedeliveryPolicySettings, ...] = ()
    """The policies; the most specific one applies, one without a destination to all others."""

    def build(self) -> BrokerPlugin:
        """Create the plug-in."""
        policies = tuple(policy.build() for policy in self.redelivery_policy_map)
        options = {**arguments_of(RedeliveryPlugin, self), "redelivery_policy_map": policies}
        return RedeliveryPlugin(**options)


class DestinationsSettings(_BuiltInPlugin, DestinationsPlugin):
    """A file keeps the list of destinations while the broker is stopped."""

    plugin = DestinationsPlugin
    type: Literal["destinations"] = "destinations"

    def install_managed_plugin(self, broker: Broker, management: Management) -> Broker:
        """Return the plug-in's filter around `broker`."""
        host = management.context.host
        default = host.data_path / host.broker_name / DEFAULT_FILE
        return DestinationsPlugin(location=self.location or default).install_plugin(broker)

    async def reconfigure(self, installed: Broker) -> Broker | None:
        """Refuse: the list is only read at the start."""
        return None


class _DotFileSettings(_BuiltInPlugin, DotFilePlugin):
    default_file: ClassVar[str]

    def install_managed_plugin(self, broker: Broker, management: Management) -> Broker:
        """Return the plug-in's filter around `broker`."""
        host = management.context.host
        default = host.data_path / host.broker_name / self.default_file
        options = {**arguments_of(self.plugin, self), "file": self.file or default}
        plugin: Callable[..., BrokerPlugin] = self.plugin
        return plugin(**options).install_plugin(broker)

    async def reconfigure(self, installed: Broker) -> Broker | None:
        """Refuse: a new filter would not know the existing connections and destinations."""
        return None


class ConnectionDotFileSettings(_DotFileSettings, ConnectionDotFilePlugin):
    """A file for Graphviz shows which client uses which destination."""

    plugin = ConnectionDotFilePlugin
    default_file = "ActiveMQConnections.dot"
    type: Literal["connection_dot_file"] = "connection_dot_file"


class DestinationDotFileSettings(_DotFileSettings, DestinationDotFilePlugin):
    """A file for Graphviz shows the destinations as a tree."""

    plugin = DestinationDotFilePlugin
    default_file = "ActiveMQDestinations.dot"
    type: Literal["destination_dot_file"] = "destination_dot_file"


class _TraceSettings(_BuiltInPlugin):
    async def reconfigure(self, installed: Broker) -> Broker | None:
        """Refuse: the socket is only opened at the start."""
        return None


class UDPTraceSettings(_TraceSettings, UDPTraceBrokerPlugin):
    """Commands are sent to an address as datagrams, for debugging: messages in the clear."""

    plugin = UDPTraceBrokerPlugin
    type: Literal["udp_trace"] = "udp_trace"


class MulticastTraceSettings(_TraceSettings, MulticastTraceBrokerPlugin):
    """Commands are sent to a multicast group as datagrams, for debugging: messages in the clear."""

    plugin = MulticastTraceBrokerPlugin
    type: Literal["multicast_trace"] = "multicast_trace"


class VirtualSelectorCacheSettings(_BuiltInPlugin, VirtualSelectorCacheBrokerPlugin):
    """Queues of selector-aware virtual topics get what their former consumers selected."""

    plugin = VirtualSelectorCacheBrokerPlugin
    type: Literal["virtual_selector_cache"] = "virtual_selector_cache"

    async def reconfigure(self, installed: Broker) -> Broker | None:
        """Refuse: a new filter would lose the remembered selectors."""
        return None


class StatisticsSettings(_BuiltInPlugin):
    """Clients ask for statistics with messages."""

    plugin = StatisticsBrokerPlugin
    type: Literal["statistics"] = "statistics"

    def build(self) -> StatisticsBrokerPlugin:
        """Create the plug-in."""
        return StatisticsBrokerPlugin()

    def install_managed_plugin(self, broker: Broker, management: Management) -> Broker:
        """Return the plug-in's filter around `broker`."""
        return self.build().install_managed_plugin(broker, management)


BUILT_IN_PLUGINS: Final[dict[str, type[PluginSettings]]] = {
    "time_stamping": TimeStampingSettings,
    "force_persistency_mode": ForcePersistencyModeSettings,
    "destination_path_separator": DestinationPathSeparatorSettings,
    "logging": LoggingSettings,
    "trace_broker_path": TraceBrokerPathSettings,
    "discarding_dlq": DiscardingDLQSettings,
    "statistics": StatisticsSettings,
    "simple_authentication": SimpleAuthenticationSettings,
    "properties_authentication": PropertiesAuthenticationSettings,
    "jaas_authentication": JaasAuthenticationSettings,
    "jaas_certificate_authentication": JaasCertificateAuthenticationSettings,
    "jaas_dual_authentication": JaasDualAuthenticationSettings,
    "authorization": AuthorizationSettings,
    "audit": AuditSettings,
    "redelivery": RedeliverySettings,
    "destinations": DestinationsSettings,
    "connection_dot_file": ConnectionDotFileSettings,
    "destination_dot_file": DestinationDotFileSettings,
    "udp_trace": UDPTraceSettings,
    "multicast_trace": MulticastTraceSettings,
    "virtual_selector_cache": VirtualSelectorCacheSettings,
    "runtime_configuration": RuntimeConfigurationSettings,
}
"""The built-in plug-ins by type."""
