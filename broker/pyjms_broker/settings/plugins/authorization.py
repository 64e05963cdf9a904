"""The authorization plug-in in broker.yaml (`plugins`). (activemq-edges SE4 to SE6)"""

from __future__ import annotations

from typing import Literal

from pyjms_broker.api.broker import Broker
from pyjms_broker.security.access import AuthorizationEntry, AuthorizationMap
from pyjms_broker.security.audit import AuditBroker
from pyjms_broker.security.authorization import AuthorizationBroker
from pyjms_broker.settings.extensions import PluginSettings
from pyjms_broker.settings.plugins.groups import Groups
from pyjms_broker.settings.values import DestinationName, Section

__all__ = ["AccessSettings", "AuditSettings", "AuthorizationEntrySettings", "AuthorizationSettings"]


class AccessSettings(Section):
    """Groups by right: `admins,users` or a list; `*`: every user."""

    read: Groups = frozenset()
    """Groups that may receive and browse."""
    write: Groups = frozenset()
    """Groups that may send."""
    admin: Groups = frozenset()
    """Groups that may create and remove destinations, also by their first message or consumer."""


class AuthorizationEntrySettings(AccessSettings):
    """The rights on a destination (`entries` of `authorization`)."""

    destination: DestinationName
    """Name or pattern: orders.> for queues, topic://news.*."""


class AuthorizationSettings(PluginSettings):
    """Which groups may do what. ActiveMQ: authorizationPlugin."""

    type: Literal["authorization"] = "authorization"
    entries: tuple[AuthorizationEntrySettings, ...] = ()
    """Rights by destination; the rights of all matching entries are combined."""
    default_entry: AccessSettings | None = None
    """Additional rights on all destinations; null: none."""
    temp_destination_entry: AccessSettings | None = None
    """Rights on temporary destinations; null: everybody has all rights."""

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the filter that checks the rights of clients."""
        return AuthorizationBroker(broker, self._rights())

    async def reconfigure(self, installed: Broker) -> Broker | None:
        """Apply the new rights from now on."""
        if not isinstance(installed, AuthorizationBroker):
            return None
        installed.change_rights(self._rights())
        return installed

    def _rights(self) -> AuthorizationMap:
        return AuthorizationMap(
            (_entry(each, each) for each in self.entries),
            None if self.default_entry is None else _entry(self.default_entry),
            None if self.temp_destination_entry is None else _entry(self.temp_destination_entry),
        )


class AuditSettings(PluginSettings):
    """The audit log has what clients create and remove, too: logger `pyjms_broker.audit`."""

    type: Literal["audit"] = "audit"

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the filter that writes the audit log."""
        return AuditBroker(broker)


def _entry(
    access: AccessSettings, named: AuthorizationEntrySettings | None = None
) -> AuthorizationEntry:
    destination = None if named is None else named.destination
    return AuthorizationEntry(destination, access.read, access.write, access.admin)
