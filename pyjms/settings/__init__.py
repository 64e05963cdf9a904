"""The application's settings: application.yaml, profiles, environment. (decisions D10)

The module of a name is imported when the name is first used: a broker uses the settings of TLS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import homes_of, names_of

if TYPE_CHECKING:
    from pyjms.settings.broker import (
        ActiveMQSettings,
        BlobTransferSettings,
        EmbeddedSettings,
        FailoverSettings,
        PoolSettings,
    )
    from pyjms.settings.delivery import PrefetchSettings, RedeliverySettings
    from pyjms.settings.model import (
        CacheSettings,
        ConverterSettings,
        JmsSettings,
        ListenerOverride,
        ListenerSettings,
        PyjmsSettings,
        TemplateSettings,
    )
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

__getattr__, __dir__ = names_of(
    globals(),
    homes_of(
        {
            "pyjms.settings.broker": """
                BlobTransferSettings ActiveMQSettings EmbeddedSettings FailoverSettings
                PoolSettings
            """,
            "pyjms.settings.delivery": "PrefetchSettings RedeliverySettings",
            "pyjms.settings.model": """
                CacheSettings ConverterSettings JmsSettings ListenerOverride ListenerSettings
                PyjmsSettings TemplateSettings
            """,
            "pyjms.settings.sources": "load_settings settings_schema",
            "pyjms.settings.spark": "PipelineSettings RestartSettings SparkSettings",
            "pyjms.settings.tls": "TlsSettings",
        }
    ),
)
