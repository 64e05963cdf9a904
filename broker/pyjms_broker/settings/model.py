"""BrokerSettings: every key of broker.yaml, with ActiveMQ's names and defaults.

Attributes come from the tables of `pyjms_broker.service.attributes`; sections and lists are
declared here. Values are read-only, and an unknown key is an error. Parsed times are in seconds,
sizes in bytes. (activemq-broker 1.2)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self, TypeAlias

from pydantic import PrivateAttr, model_validator

from pyjms_broker.policy.map import PolicyMap
from pyjms_broker.service.attributes import BrokerAttributes, SystemUsageAttributes
from pyjms_broker.service.store_failures import IOExceptionHandler
from pyjms_broker.settings.extensions import PluginSettings
from pyjms_broker.settings.persistence import PersistenceSettings
from pyjms_broker.settings.policies import PolicySettings
from pyjms_broker.settings.servers.connectors import ConnectorSettings
from pyjms_broker.settings.servers.network import NetworkConnectorSettings
from pyjms_broker.settings.servers.web import WebSettings
from pyjms_broker.settings.values import DestinationName, Section
from pyjms_broker.settings.virtual import VirtualDestinationSettings

__all__ = ["BrokerSettings", "IOExceptionHandlerSettings", "SettingsSource", "SystemUsageSettings"]


class _PluginsSchema:
    """The JSON Schema of `plugins`: built-in plug-ins with their settings, others with any keys."""

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        # imported for the schema only: installed.py loads the models of the plug-ins in use
        from pyjms_broker.settings.plugins.built_in import BUILT_IN_PLUGINS  # noqa: PLC0415

        known = {
            name: settings.__get_pydantic_json_schema__(settings.__pydantic_core_schema__, handler)
            for name, settings in BUILT_IN_PLUGINS.items()
        }
        other = {
            "type": "object",
            "properties": {"type": {"type": "string", "not": {"enum": list(known)}}},
            "required": ["type"],
        }
        items = {"anyOf": [{"type": "string"}, *known.values(), other]}
        mapping = {
            "type": "object",
            "properties": {
                name: {"anyOf": [schema, {"type": "null"}]} for name, schema in known.items()
            },
            "additionalProperties": {"type": ["object", "null"]},
        }
        return {"anyOf": [{"type": "array", "items": items}, mapping]}


InstalledPlugins: TypeAlias = Annotated[tuple[PluginSettings, ...], _PluginsSchema()]
"""Plug-ins with their settings; `pyjms_broker.settings.installed` reads them from files."""


class SystemUsageSettings(Section, SystemUsageAttributes):
    """Limits of the broker's memory and disk space (`system_usage`)."""


class IOExceptionHandlerSettings(Section, IOExceptionHandler):
    """The reaction to a failure of the store (`io_exception_handler`)."""


class SettingsSource(NamedTuple):
    """The file that settings were read from."""

    file: Path
    read: Callable[[], BrokerSettings]
    """Reloads the settings, blocking; raises ConfigurationException."""


@dataclasses.dataclass
class _Origin:
    source: SettingsSource | None = dataclasses.field(default=None, compare=False)
    """The source of settings, which is ignored when settings are compared."""


class BrokerSettings(Section, BrokerAttributes):
    """All settings of a broker; `BrokerSettings()` has the defaults."""

    system_usage: SystemUsageSettings = SystemUsageSettings()
    """Limits of the broker's memory and disk space."""
    persistence: PersistenceSettings | None = None
    """The store; null: KahaDB with its defaults."""
    io_exception_handler: IOExceptionHandlerSettings = IOExceptionHandlerSettings()
    """The reaction to a failure of the store."""
    plugins: InstalledPlugins = ()
    """Broker plug-ins, as a list (- type: NAME) or mapping (NAME: settings); last is outermost."""
    connectors: tuple[ConnectorSettings, ...] = ()
    """Addresses for clients; without connectors, only vm:// within the process."""
    network_connectors: tuple[NetworkConnectorSettings, ...] = ()
    """Other brokers to which messages for their consumers are forwarded; see docs/networks.md."""
    web: WebSettings | None = None
    """The web server: console, Jolokia, REST, metrics and health; null: none."""
    destinations: tuple[DestinationName, ...] = ()
    """Destinations that are created at start: orders, topic://news."""
    policies: tuple[PolicySettings, ...] = ()
    """Behaviour of destinations; the most specific name wins."""
    virtual_destinations: tuple[VirtualDestinationSettings, ...] | None = None
    """Virtual destinations; null: the virtual topics VirtualTopic.>."""

    _origin: _Origin = PrivateAttr(default_factory=_Origin)

    @property
    def source(self) -> SettingsSource | None:
        """The source for reloading the settings; None if they were not read from a file."""
        return self._origin.source

    def read_from(self, file: Path, read: Callable[[], BrokerSettings]) -> Self:
        """Return these settings with `read`, which reloads them from `file`."""
        self._origin.source = SettingsSource(file, read)
        return self

    @model_validator(mode="after")
    def _check_policies(self) -> Self:
        if sum(policy.build().target is None for policy in self.policies) > 1:
            raise ValueError("policies: only one may be without a destination")
        return self

    def keywords(self) -> dict[str, Any]:
        """Return the keyword arguments for BrokerService, without connectors.

        Unset keys are omitted, so that BrokerService uses its own default.
        """
        persistence, virtual = self.persistence, self.virtual_destinations
        optional = {
            "persistence": persistence,
            "web": None if self.web is None else self.web.build(),
            "store_directory": None if persistence is None else persistence.directory,
            "virtual_destinations": (
                None if virtual is None else tuple(item.build() for item in virtual)
            ),
        }
        return {
            **_values(BrokerAttributes, self),
            **_values(SystemUsageAttributes, self.system_usage),
            **{name: value for name, value in optional.items() if value is not None},
            "io_exception_handler": IOExceptionHandler(
                **_values(IOExceptionHandler, self.io_exception_handler)
            ),
            "plugins": self.plugins,
            "destinations": self.destinations,
            "policies": PolicyMap(policy.build() for policy in self.policies),
        }


def _values(table: type[Any], section: Section) -> dict[str, Any]:
    return {field.name: getattr(section, field.name) for field in dataclasses.fields(table)}
