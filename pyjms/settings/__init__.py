"""The application's settings: application.yaml, profiles, environment. (decisions D10)"""

from __future__ import annotations

from pyjms.settings.blobs import BlobTransferSettings
from pyjms.settings.broker import ActiveMQSettings, EmbeddedSettings
from pyjms.settings.delivery import PrefetchSettings, RedeliverySettings
from pyjms.settings.failover import FailoverSettings
from pyjms.settings.model import (
    CacheSettings,
    ConverterSettings,
    JmsSettings,
    ListenerOverride,
    ListenerSettings,
    PyjmsSettings,
    TemplateSettings,
)
from pyjms.settings.pool import PoolSettings
from pyjms.settings.sources import load_settings, settings_schema
from pyjms.settings.spark import PipelineSettings, RestartSettings, SparkSettings
from pyjms.settings.tls import TlsSettings

__all__ = [
    "ActiveMQSettings",
    "BlobTransferSettings",
    "CacheSettings",
    "ConverterSettings",
    "EmbeddedSettings",
    "FailoverSettings",
    "JmsSettings",
    "ListenerOverride",
    "ListenerSettings",
    "PipelineSettings",
    "PoolSettings",
    "PrefetchSettings",
    "PyjmsSettings",
    "RedeliverySettings",
    "RestartSettings",
    "SparkSettings",
    "TemplateSettings",
    "TlsSettings",
    "load_settings",
    "settings_schema",
]
