"""The built-in plug-ins in broker.yaml (`plugins`).

Most plug-ins are a table of options, which is documented there, and from which the settings model
is made here. The module of a plug-in is imported when it is used.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from importlib import import_module
from types import new_class
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from pyjms_broker.api.broker import Broker, BrokerFilter, BrokerPlugin
from pyjms_broker.plugins.redelivery import RedeliveryPlugin, RedeliveryPolicy
from pyjms_broker.settings.extensions import PluginSettings
from pyjms_broker.settings.values import BuiltSection, DestinationName

if TYPE_CHECKING:
    from pyjms_broker.management import Management


class TablePlugin(BuiltSection[BrokerPlugin], PluginSettings):
    """The settings of a plug-in, from its table of options, which is also the plug-in."""

    type: str

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the plug-in's filter around `broker`."""
        return self.build().install_plugin(broker)

    async def reconfigure(self, installed: Broker) -> Broker | None:
        """Return a new filter that replaces the installed one.

        None if the new one would lose what the installed one knows (`is_read_at_start`).
        """
        is_kept = getattr(self.made_by, "is_read_at_start", False)
        if is_kept or not isinstance(installed, BrokerFilter):
            return None
        return self.install_plugin(installed.next)


class FilePlugin(TablePlugin):
    """A plug-in with a file, by default in the broker's directory."""

    default_file: ClassVar[tuple[str, str]]
    """The option that names the file, and the name of the default."""

    def install_managed_plugin(self, broker: Broker, management: Management) -> Broker:
        """Return the plug-in's filter around `broker`."""
        host = management.context.host
        option, name = self.default_file
        file = getattr(self, option) or host.data_path / host.broker_name / name
        plugin: Any = self.build()
        made: BrokerPlugin = replace(plugin, **{option: file})
        return made.install_plugin(broker)


class RedeliveryPolicySettings(BuiltSection[RedeliveryPolicy], RedeliveryPolicy):
    """How often and when the messages of a destination are delivered again."""

    destination: DestinationName | None = None
    """Name or pattern; null: all destinations without another policy."""


class RedeliverySettings(TablePlugin, RedeliveryPlugin):
    """The broker delivers a message again, later, instead of dead-lettering it."""

    type: Literal["redelivery"] = "redelivery"
    redelivery_policy_map: tuple[RedeliveryPolicySettings, ...] = ()
    """The policies; the most specific one applies, one without a destination to all others."""


_TABLES: Final = "pyjms_broker.plugins."
_USERS: Final = "pyjms_broker.settings.security:"
BUILT_IN_PLUGINS: Final = {
    "time_stamping": f"{_TABLES}message_headers:TimeStampingBrokerPlugin",
    "force_persistency_mode": f"{_TABLES}message_headers:ForcePersistencyModeBrokerPlugin",
    "destination_path_separator": f"{_TABLES}path_separator:DestinationPathSeparatorPlugin",
    "logging": f"{_TABLES}event_logging:LoggingBrokerPlugin",
    "trace_broker_path": f"{_TABLES}message_headers:TraceBrokerPathPlugin",
    "discarding_dlq": f"{_TABLES}discarding_dlq:DiscardingDLQBrokerPlugin",
    "statistics": "pyjms_broker.management.statistics:StatisticsBrokerPlugin",
    "simple_authentication": f"{_USERS}SimpleAuthenticationSettings",
    "properties_authentication": f"{_USERS}PropertiesAuthenticationSettings",
    "jaas_authentication": f"{_USERS}JaasAuthenticationSettings",
    "jaas_certificate_authentication": f"{_USERS}JaasCertificateAuthenticationSettings",
    "jaas_dual_authentication": f"{_USERS}JaasDualAuthenticationSettings",
    "authorization": f"{_USERS}AuthorizationSettings",
    "audit": "pyjms_broker.security.audit:AuditPlugin",
    "message_trail": f"{_TABLES}message_trail:MessageTrailPlugin",
    "redelivery": f"{__name__}:RedeliverySettings",
    "destinations": f"{_TABLES}destination_list:DestinationsPlugin",
    "connection_dot_file": f"{_TABLES}dot_files:ConnectionDotFilePlugin",
    "destination_dot_file": f"{_TABLES}dot_files:DestinationDotFilePlugin",
    "udp_trace": f"{_TABLES}datagram_trace:UDPTraceBrokerPlugin",
    "multicast_trace": f"{_TABLES}datagram_trace:MulticastTraceBrokerPlugin",
    "virtual_selector_cache": f"{_TABLES}selector_cache:VirtualSelectorCacheBrokerPlugin",
    "runtime_configuration": "pyjms_broker.settings.runtime:RuntimeConfigurationSettings",
}
"""The settings model, or the table of options, of each built-in plug-in, by type."""


@functools.cache
def plugin_settings(type_: str) -> type[PluginSettings]:
    """Return the settings model of a built-in plug-in."""
    module, _, name = BUILT_IN_PLUGINS[type_].partition(":")
    found: type[Any] = getattr(import_module(module), name)
    if issubclass(found, PluginSettings):
        return found
    base = FilePlugin if hasattr(found, "default_file") else TablePlugin
    text = (found.__doc__ or "").partition(" Source:")[0].partition("\n\n")[0]
    own = {"__annotations__": {"type": Literal[type_]}, "type": type_, "__doc__": text}
    title = f"{name.removesuffix('Plugin').removesuffix('Broker')}Settings"
    made: type[PluginSettings] = new_class(
        title, (base, found), exec_body=lambda body: body.update(own)
    )
    return made
