"""Base classes for the settings of plug-ins, stores and policies that other distributions bring.

Such a class is the target of an entry point (`broker.plugins`, `broker.stores`,
`broker.recovery_policies`), whose name is the `type` in broker.yaml. Its fields are the settings:
they are validated as all others are, an unknown key is an error with file and line.
docs/extending.md has a recipe for each.
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from pyjms_broker.api.broker import Broker
from pyjms_broker.settings.values import Section

if TYPE_CHECKING:
    from pyjms_broker.api.recovery import SubscriptionRecoveryPolicy
    from pyjms_broker.store.api import PersistenceAdapter

__all__ = ["PluginSettings", "RecoveryPolicySettings", "StoreSettings"]


class PluginSettings(Section):
    """A broker plug-in and its settings (`plugins`).

    An instance is a `pyjms_broker.api.BrokerPlugin`: `BrokerService(plugins=[MyPlugin(key=1)])`.
    """

    @abstractmethod
    def install_plugin(self, broker: Broker) -> Broker:
        """Return the new outer end of the filter chain, usually a BrokerFilter around `broker`.

        Called at each start of the broker, on its event loop; must not block.
        """

    async def reconfigure(self, installed: Broker) -> Broker | None:
        """Have these settings take effect in a running broker (plug-in `runtime_configuration`).

        Args:
            installed: what `install_plugin` has returned for the earlier settings.

        Returns:
            What takes its place in the filter chain, usually `installed` itself; None (default):
            the settings take effect at the next start.

        Raises:
            ConfigurationException: they cannot; the earlier ones stay in effect.
        """
        return None


class RecoveryPolicySettings(Section):
    """The settings of a subscription recovery policy (`subscription_recovery_policy`)."""

    @abstractmethod
    def build(self) -> SubscriptionRecoveryPolicy:
        """Create the policy; called once for each policy entry that has it."""


class StoreSettings(Section):
    """A store's settings (`persistence`).

    An instance is a `pyjms_broker.service.PersistenceFactory`.
    """

    directory: Path | None = None
    """The store's directory; null: `directory_name` in the broker's own directory."""

    @property
    def directory_name(self) -> str | None:
        """Name of the store's directory in the broker's; None (default): it has no files."""
        return None

    @abstractmethod
    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        """Create the store, closed; called at each start of the broker.

        Args:
            directory: the store's directory; without a `directory_name` the broker's own one.
            broker_name: distinguishes brokers that share a store.

        Raises:
            ConfigurationException: the settings contradict each other, or a package is missing.
        """
