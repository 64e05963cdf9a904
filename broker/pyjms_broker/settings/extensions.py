"""Base classes for the settings of plug-ins, stores and policies in other distributions.

A subclass is the target of an entry point (`broker.plugins`, `broker.stores`,
`broker.recovery_policies`), whose name is the `type` in broker.yaml. Its fields are the settings,
which are validated like all others: an unknown key is an error with file and line.
docs/extending-broker.md has a recipe for each.
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from pyjms.configuration.section import Section
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.policies import SubscriptionRecoveryPolicy

if TYPE_CHECKING:
    from pyjms_broker.store.api import PersistenceAdapter


class PluginSettings(Section):
    """A broker plug-in and its settings (`plugins`).

    An instance is a `pyjms_broker.api.BrokerPlugin`: `BrokerService(plugins=[MyPlugin(key=1)])`.
    """

    @abstractmethod
    def install_plugin(self, broker: Broker) -> Broker:
        """Return the new outermost broker of the chain, usually a BrokerFilter around `broker`.

        Called each time the broker starts, on its event loop; must not block.
        """

    async def reconfigure(self, installed: Broker) -> Broker | None:
        """Apply these settings to a running broker (plug-in `runtime_configuration`).

        Args:
            installed: the filter that `install_plugin` returned for the previous settings.

        Returns:
            The filter that replaces it in the chain, usually `installed` itself; None (default):
            the settings take effect at the next start.

        Raises:
            ConfigurationException: they cannot be applied; the previous settings stay in effect.
        """
        return None


class RecoveryPolicySettings(Section):
    """The settings of a subscription recovery policy (`subscription_recovery_policy`)."""

    @abstractmethod
    def build(self) -> SubscriptionRecoveryPolicy:
        """Create the policy; called once per policy entry that uses it."""


class StoreSettings(Section):
    """A store's settings (`persistence`).

    An instance is a `pyjms_broker.service.PersistenceFactory`.
    """

    directory: Path | None = None
    """The store's directory; null: `directory_name` in the broker's own directory."""

    @property
    def directory_name(self) -> str | None:
        """Name of the store's directory in the broker's; None (default): the store has no files."""
        return None

    @abstractmethod
    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        """Create the closed store; called each time the broker starts.

        Args:
            directory: the store's directory; the broker's if there is no `directory_name`.
            broker_name: distinguishes brokers that share a store.

        Raises:
            ConfigurationException: the settings contradict each other, or a package is missing.
        """
