"""The broker's settings: broker.yaml, its profiles, the environment. (decisions D10)"""

from __future__ import annotations

from broker.settings.extensions import PluginSettings, StoreSettings
from broker.settings.model import BrokerSettings, ConnectorSettings, SystemUsageSettings
from broker.settings.policies import PolicySettings
from broker.settings.sources import broker_schema, load_broker_settings

__all__ = [
    "BrokerSettings",
    "ConnectorSettings",
    "PluginSettings",
    "PolicySettings",
    "StoreSettings",
    "SystemUsageSettings",
    "broker_schema",
    "load_broker_settings",
]
