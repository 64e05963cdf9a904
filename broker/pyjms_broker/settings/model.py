"""BrokerSettings: every key of broker.yaml, with ActiveMQ's names and defaults.

Attributes come from the tables of `pyjms_broker.service.attributes`; what has a structure of its
own is declared here. Values are read-only, and an unknown key is an error. Times are seconds once
read, sizes bytes. (activemq-broker 1.2)
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Self, TypeAlias

from pydantic import WithJsonSchema, model_validator

from pyjms.settings.tls import TlsCommonSettings
from pyjms.transport.tls import SERVER_TLS, TLS_SCHEMES, with_tls
from pyjms.transport.uri import TransportURI
from pyjms_broker.policy.map import PolicyMap
from pyjms_broker.service.attributes import BrokerAttributes, SystemUsageAttributes
from pyjms_broker.service.store_failures import IOExceptionHandler
from pyjms_broker.settings.extensions import PluginSettings
from pyjms_broker.settings.persistence import PersistenceSettings
from pyjms_broker.settings.policies import PolicySettings
from pyjms_broker.settings.values import DestinationName, Section
from pyjms_broker.settings.virtual import VirtualDestinationSettings

__all__ = [
    "BrokerSettings",
    "ConnectorSettings",
    "ConnectorTlsSettings",
    "IOExceptionHandlerSettings",
    "SystemUsageSettings",
]


InstalledPlugins: TypeAlias = Annotated[
    tuple[PluginSettings, ...],
    WithJsonSchema(
        {
            "anyOf": [
                {
                    "type": "array",
                    "items": {
                        "anyOf": [
                            {"type": "string"},
                            {
                                "type": "object",
                                "properties": {"type": {"type": "string"}},
                                "required": ["type"],
                            },
                        ]
                    },
                },
                {"type": "object", "additionalProperties": {"type": ["object", "null"]}},
            ]
        }
    ),
]
"""Plug-ins with their settings; `pyjms_broker.settings.installed` reads them from a file."""


class ConnectorTlsSettings(Section, TlsCommonSettings):
    """Certificate and key of a connector (`tls`)."""

    need_client_auth: bool = False
    """Whether clients must have a certificate of the trust store's issuers."""
    want_client_auth: bool = False
    """Whether clients may have one; it is checked, too."""


class ConnectorSettings(Section):
    """Where clients connect (`connectors`)."""

    uri: str
    """Address to listen on; 0.0.0.0: all interfaces, port 0: any free port."""
    name: str | None = None
    """Name in logs; null: the URI."""
    allow_link_stealing: bool = False
    """Whether a new client with the same client id replaces the connected one."""
    tls: ConnectorTlsSettings | None = None
    """Certificate and key of an ssl:// connector; options of the URI override them."""

    @model_validator(mode="after")
    def _check_tls(self) -> Self:
        if self.tls is not None and self.uri.partition(":")[0].lower() not in TLS_SCHEMES:
            raise ValueError("tls is set, and uri is not encrypted: write ssl://host:port")
        return self

    def transport_uri(self) -> TransportURI:
        """Return the address with the options of `tls`.

        Raises:
            ConfigurationException: the URI cannot be read.
        """
        uri = TransportURI.parse(self.uri)
        return uri if self.tls is None else with_tls(uri, self.tls.options(), SERVER_TLS)


class SystemUsageSettings(Section, SystemUsageAttributes):
    """How much memory and disk space the broker may use (`system_usage`)."""


class IOExceptionHandlerSettings(Section, IOExceptionHandler):
    """What happens when the store fails (`io_exception_handler`)."""


class BrokerSettings(Section, BrokerAttributes):
    """All settings of a broker; `BrokerSettings()` has the defaults."""

    system_usage: SystemUsageSettings = SystemUsageSettings()
    """How much memory and disk space the broker may use."""
    persistence: PersistenceSettings | None = None
    """The store; null: KahaDB with its defaults."""
    io_exception_handler: IOExceptionHandlerSettings = IOExceptionHandlerSettings()
    """What happens when the store fails."""
    plugins: InstalledPlugins = ()
    """Broker plug-ins, as a list (- type: NAME) or mapping (NAME: settings); last is outermost."""
    connectors: tuple[ConnectorSettings, ...] = ()
    """Where clients connect; with none, only vm:// within the process."""
    destinations: tuple[DestinationName, ...] = ()
    """Destinations that are created at start: orders, topic://news."""
    policies: tuple[PolicySettings, ...] = ()
    """Behaviour of destinations; the most specific name wins."""
    virtual_destinations: tuple[VirtualDestinationSettings, ...] | None = None
    """Virtual destinations; null: the virtual topics VirtualTopic.>."""

    @model_validator(mode="after")
    def _check_policies(self) -> Self:
        if sum(policy.build().target is None for policy in self.policies) > 1:
            raise ValueError("policies: only one may be without a destination")
        return self

    def keywords(self) -> dict[str, Any]:
        """Return the keyword arguments of BrokerService; `connectors` are not among them.

        What is not set is left out, so that BrokerService uses its own default.
        """
        persistence, virtual = self.persistence, self.virtual_destinations
        optional = {
            "persistence": persistence,
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
