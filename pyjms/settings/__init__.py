"""The application's settings: application.yaml, profiles, environment. (decisions D10)"""

from __future__ import annotations

from pyjms.settings.model import (
    ActiveMQSettings,
    CacheSettings,
    ConverterSettings,
    EmbeddedSettings,
    JmsSettings,
    ListenerOverride,
    ListenerSettings,
    PyjmsSettings,
    RedeliverySettings,
    TemplateSettings,
)
from pyjms.settings.schema import settings_schema
from pyjms.settings.sources import load_settings
from pyjms.settings.spark import PipelineSettings, RestartSettings, SparkSettings
from pyjms.settings.tls import TlsSettings

__all__ = [
    "ActiveMQSettings",
    "CacheSettings",
    "ConverterSettings",
    "EmbeddedSettings",
    "JmsSettings",
    "ListenerOverride",
    "ListenerSettings",
    "PipelineSettings",
    "PyjmsSettings",
    "RedeliverySettings",
    "RestartSettings",
    "SparkSettings",
    "TemplateSettings",
    "TlsSettings",
    "load_settings",
    "settings_schema",
]
