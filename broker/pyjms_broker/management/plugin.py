"""The interface of broker plug-ins that use the management views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pyjms_broker.api.broker import Broker

if TYPE_CHECKING:
    from pyjms_broker.management.management import Management

__all__ = ["ManagedPlugin"]


@runtime_checkable
class ManagedPlugin(Protocol):
    """A broker plug-in whose filter uses the management views."""

    def install_managed_plugin(self, broker: Broker, management: Management) -> Broker:
        """Return the new outermost filter; called instead of `install_plugin`."""
