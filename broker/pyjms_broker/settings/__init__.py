"""The broker's settings: broker.yaml, its profiles and environment variables. (decisions D10)"""

from __future__ import annotations

from pyjms_broker.settings.extensions import PluginSettings, RecoveryPolicySettings, StoreSettings
from pyjms_broker.settings.loading import broker_schema, load_broker_settings
from pyjms_broker.settings.model import (
    BrokerLoggingSettings,
    BrokerSettings,
    ConnectorSettings,
    SystemUsageSettings,
)
from pyjms_broker.settings.policies import PolicySettings

__all__ = [
    "BrokerLoggingSettings",
    "BrokerSettings",
    "ConnectorSettings",
    "PluginSettings",
    "PolicySettings",
    "RecoveryPolicySettings",
    "StoreSettings",
    "SystemUsageSettings",
    "broker_schema",
    "load_broker_settings",
]
