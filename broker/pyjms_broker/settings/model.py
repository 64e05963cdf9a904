"""BrokerSettings: every key of broker.yaml, with ActiveMQ's names and defaults.

Attributes come from the tables of `pyjms_broker.service.attributes`; sections and lists are
declared here. Values are read-only, and an unknown key is an error. Parsed times are in seconds,
sizes in bytes. (activemq-broker 1.2)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self, TypeAlias

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from pyjms.configuration.logs import LogFile, LoggingSettings
from pyjms.configuration.section import Section
from pyjms.settings.tls import TlsCommonSettings
from pyjms.transport.discovery import check_agent
from pyjms.transport.tls import SERVER_TLS, TLS_SCHEMES, with_tls
from pyjms.transport.uri import TransportURI
from pyjms_broker.connector.cluster import ClusterAttributes
from pyjms_broker.network import NetworkConnectorAttributes, read_remotes
from pyjms_broker.policy.entry import PolicyMap
from pyjms_broker.service.attributes import BrokerAttributes, SystemUsageAttributes
from pyjms_broker.service.configuration import IOExceptionHandler
from pyjms_broker.settings.extensions import PluginSettings
from pyjms_broker.settings.persistence import PersistenceSettings
from pyjms_broker.settings.policies import PolicySettings, VirtualDestinationSettings
from pyjms_broker.settings.values import (
    BuiltSection,
    DestinationName,
    Groups,
    arguments_of,
    check_by,
)
from pyjms_broker.web.configuration import WebAttributes, WebConfiguration


class ConnectorTlsSettings(TlsCommonSettings):
    """Certificate and key of a connector (`tls`)."""

    need_client_auth: bool = False
    """Whether clients must have a certificate signed by an issuer in the trust store."""
    want_client_auth: bool = False
    """Whether clients may have a certificate, which is then checked."""


class ConnectorSettings(Section, ClusterAttributes):
    """Where clients connect (`connectors`)."""

    uri: str
    """Address to listen on; 0.0.0.0: all interfaces, port 0: any free port."""
    name: str | None = None
    """Name in logs; null: the URI."""
    allow_link_stealing: bool = False
    """Whether a new client with the same client id replaces the connected one."""
    enable_status_monitor: bool = False
    """Whether clients that read nothing for 5 to 10 s, while data waits, are disconnected."""
    maximum_producers_allowed_per_connection: int | None = Field(None, ge=1)
    """Maximum number of a connection's producers; null: 10000. ActiveMQ has no limit."""
    maximum_consumers_allowed_per_connection: int | None = Field(None, ge=1)
    """Maximum number of a connection's consumers; null: 10000. ActiveMQ has no limit."""
    discovery_uri: str | None = None
    """Multicast group to announce the connector in: multicast://default?group=shop; null: none."""
    audit_network_producers: bool = False
    """Whether messages sent again by bridges of other brokers are dropped."""
    tls: ConnectorTlsSettings | None = None
    """Certificate and key of an ssl:// connector; options of the URI override them."""

    @model_validator(mode="after")
    def _check_cluster(self) -> Self:
        check_by(self.patterns)
        if self.discovery_uri is not None:
            check_by(partial(check_agent, self.discovery_uri))
        return self

    @model_validator(mode="after")
    def _check_tls(self) -> Self:
        if self.tls is not None and self.uri.partition(":")[0].lower() not in TLS_SCHEMES:
            raise ValueError("tls is set, and uri is not encrypted: write ssl://host:port")
        return self

    def cluster_attributes(self) -> ClusterAttributes:
        """Return the attributes that control what its clients learn about other brokers."""
        return ClusterAttributes(**arguments_of(ClusterAttributes, self))

    def transport_uri(self) -> TransportURI:
        """Return the address with the options of `tls`."""
        uri = TransportURI.parse(self.uri)
        return uri if self.tls is None else with_tls(uri, self.tls.options(), SERVER_TLS)


class NetworkConnectorSettings(
    BuiltSection[NetworkConnectorAttributes], NetworkConnectorAttributes
):
    """Other brokers that get the messages for their consumers (`network_connectors`)."""

    uri: str
    """The remote brokers: static:(tcp://b:61616), masterslave:(tcp://b1:61616,tcp://b2:61616)."""
    dynamically_included_destinations: tuple[DestinationName, ...] = ()
    """Destinations forwarded to remote consumers, may be patterns; empty: all."""
    statically_included_destinations: tuple[DestinationName, ...] = ()
    """Destinations forwarded even without remote consumers."""
    excluded_destinations: tuple[DestinationName, ...] = ()
    """Destinations never forwarded, even if they are also included."""

    @model_validator(mode="after")
    def _check_uri(self) -> Self:
        check_by(lambda: read_remotes(self.uri))
        return self


def _with_uri(value: object) -> object:
    """Return the settings of a connector that is given as its URI alone."""
    return {"uri": value} if isinstance(value, str) else value


class WebSettings(Section, WebAttributes):
    """The web server (`web`)."""

    parts: tuple[str, ...] | None = None
    """Parts of the web server, by name; null: all built-in parts."""
    admin_groups: Groups = frozenset({"admins"})
    """Groups whose users may view and change everything: admins,operators or a list."""
    reader_groups: Groups = frozenset()
    """Groups whose users may view everything including message bodies, but change nothing."""
    allowed_origins: tuple[str, ...] = ()
    """Other sites whose pages may send requests, such as https://hawtio.example.com."""
    allowed_hosts: tuple[str, ...] = ()
    """Names of this machine, in addition to localhost, in URLs of a broker without users."""
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    """Reverse proxies whose X-Forwarded-For, -Proto, -Host, -Prefix are believed: 10.0.0.0/8."""
    tls: ConnectorTlsSettings | None = None
    """Certificate and key; null: http without encryption."""

    def build(self) -> WebConfiguration:
        """Create the configuration of the web server."""
        tls = None if self.tls is None else self.tls.options()
        names = [each.name for each in fields(WebConfiguration) if each.name != "tls"]
        return WebConfiguration(tls=tls, **{name: getattr(self, name) for name in names})


class BrokerLoggingSettings(LoggingSettings):
    """Log of `pyjms broker start` (`logging`); all other keys are logger names and levels."""

    audit: LogFile | None = None
    """A file for the audit log alone, its path or a section; null: it is part of the log."""


class _PluginsSchema:
    """The JSON Schema of `plugins`: built-in plug-ins with their settings, others with any keys."""

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        # imported for the schema only: installed.py loads the models of the plug-ins in use
        from pyjms_broker.settings.plugins import BUILT_IN_PLUGINS, plugin_settings  # noqa: PLC0415

        known = {
            name: settings.__get_pydantic_json_schema__(settings.__pydantic_core_schema__, handler)
            for name, settings in ((each, plugin_settings(each)) for each in BUILT_IN_PLUGINS)
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
"""Plug-ins with their settings; `pyjms_broker.settings.loading` reads them from files."""


class SystemUsageSettings(Section, SystemUsageAttributes):
    """Limits of the broker's memory and disk space (`system_usage`)."""


class IOExceptionHandlerSettings(BuiltSection[IOExceptionHandler], IOExceptionHandler):
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
    connectors: tuple[
        Annotated[
            ConnectorSettings,
            BeforeValidator(_with_uri, json_schema_input_type=str | ConnectorSettings),
        ],
        ...,
    ] = ()
    """Addresses for clients; without connectors, only vm:// within the process."""
    network_connectors: tuple[
        Annotated[
            NetworkConnectorSettings,
            BeforeValidator(_with_uri, json_schema_input_type=str | NetworkConnectorSettings),
        ],
        ...,
    ] = ()
    """Other brokers to which messages for their consumers are forwarded; see docs/networks.md."""
    logging: BrokerLoggingSettings = BrokerLoggingSettings()
    """The log of `pyjms broker start`; a broker inside a program logs as the program does."""
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
            **arguments_of(BrokerAttributes, self),
            **arguments_of(SystemUsageAttributes, self.system_usage),
            **{name: value for name, value in optional.items() if value is not None},
            "io_exception_handler": self.io_exception_handler.build(),
            "plugins": self.plugins,
            "destinations": self.destinations,
            "policies": PolicyMap(policy.build() for policy in self.policies),
        }
