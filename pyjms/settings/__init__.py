"""The application's settings: application.yaml, profiles, environment. (decisions D10)

The module of a name is imported when the name is first used: a broker uses the settings of TLS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import lazily

# fmt: off
# isort: off
if TYPE_CHECKING:
    from pyjms.settings.broker import (
        ActiveMQSettings as ActiveMQSettings, BlobTransferSettings as BlobTransferSettings,
        EmbeddedSettings as EmbeddedSettings, FailoverSettings as FailoverSettings,
        PoolSettings as PoolSettings,
    )
    from pyjms.settings.listeners import (
        ListenerOverride as ListenerOverride, ListenerSettings as ListenerSettings,
        PrefetchSettings as PrefetchSettings, RedeliverySettings as RedeliverySettings,
    )
    from pyjms.settings.model import (
        CacheSettings as CacheSettings, ConverterSettings as ConverterSettings,
        JmsSettings as JmsSettings, PyjmsSettings as PyjmsSettings,
        TemplateSettings as TemplateSettings,
    )
    from pyjms.settings.loading import (
        load_settings as load_settings, settings_schema as settings_schema,
    )
    from pyjms.settings.spark import (
        PipelineSettings as PipelineSettings, RestartSettings as RestartSettings,
        SparkSettings as SparkSettings,
    )
    from pyjms.settings.tls import TlsSettings as TlsSettings
# isort: on
# fmt: on

__getattr__, __dir__ = lazily(globals())
