"""The broker's settings: broker.yaml, its profiles, the environment. (design D10)"""

from __future__ import annotations

from broker.settings.model import BrokerSettings, ConnectorSettings, SystemUsageSettings
from broker.settings.policies import PolicySettings
from broker.settings.sources import broker_schema, load_broker_settings

__all__ = [
    "BrokerSettings",
    "ConnectorSettings",
    "PolicySettings",
    "SystemUsageSettings",
    "broker_schema",
    "load_broker_settings",
]
