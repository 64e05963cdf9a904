"""The plug-in `runtime_configuration` in broker.yaml: apply changes of the file without a restart.

(activemq-broker 1.1)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from pyjms._yaml import Duration
from pyjms.errors import ConfigurationException
from pyjms_broker.api.broker import Broker
from pyjms_broker.settings.extensions import PluginSettings
from pyjms_broker.settings.runtime.filter import RuntimeConfigurationBroker

if TYPE_CHECKING:
    from pyjms_broker.management import Management

__all__ = ["RuntimeConfigurationSettings"]


class RuntimeConfigurationSettings(PluginSettings):
    """Changes of this file take effect while the broker runs, where they can.

    ActiveMQ: runtimeConfigurationPlugin.
    """

    type: Literal["runtime_configuration"] = "runtime_configuration"
    check_period: Duration = Field(default=0.0, ge=0)
    """Time between checks of the file; 0: it is reloaded only on SIGHUP."""

    def install_plugin(self, broker: Broker) -> Broker:
        """Refuse: a broker without a service has no configuration file.

        Raises:
            ConfigurationException: always; BrokerService calls `install_managed_plugin` instead.
        """
        raise _no_file()

    def install_managed_plugin(self, broker: Broker, management: Management) -> Broker:
        """Return the filter that checks the file for changes.

        Raises:
            ConfigurationException: the broker was not configured from a file.
        """
        from pyjms_broker.service import BrokerService  # noqa: PLC0415 - it imports much
        from pyjms_broker.settings.model import BrokerSettings  # noqa: PLC0415 - it imports this
        from pyjms_broker.settings.runtime.configuration import (  # noqa: PLC0415 - the same
            RuntimeConfiguration,
        )

        service = management.context.host
        if not isinstance(service, BrokerService):
            raise _no_file()
        settings, current = service.configured.settings, service.configured.updates
        if not isinstance(settings, BrokerSettings) or settings.source is None:
            raise _no_file()
        if current is None:
            current = RuntimeConfiguration(service, settings, settings.source)
            service.configured.updates = current
        return RuntimeConfigurationBroker(broker, current, self.check_period)

    async def reconfigure(self, installed: Broker) -> Broker | None:
        """Change the interval of the checks."""
        if not isinstance(installed, RuntimeConfigurationBroker):
            return None
        installed.check_every(self.check_period)
        return installed


def _no_file() -> ConfigurationException:
    return ConfigurationException(
        "The plug-in runtime_configuration has no file to read again",
        hint="start the broker with a configuration file, or leave the plug-in out",
    )
