"""The settings common to all authentication plug-ins in broker.yaml."""

from __future__ import annotations

from abc import abstractmethod

from pydantic import Field

from pyjms._yaml import Duration
from pyjms_broker.api.broker import Broker
from pyjms_broker.security.authentication import AuthenticationBroker
from pyjms_broker.security.failed_logins import FailedLogins
from pyjms_broker.security.logins import Authenticator
from pyjms_broker.settings.extensions import PluginSettings

__all__ = ["LoginSettings"]


class LoginSettings(PluginSettings):
    """The limit of failed logins; subclasses create the authenticator."""

    maximum_failed_logins: int = Field(default=10, ge=0)
    """Failed logins after which an address is refused for some time; 0: no limit."""
    failed_login_period: Duration = Field(default=60.0, gt=0)
    """Time after which an address's failed logins are forgotten."""

    @abstractmethod
    def authenticator(self) -> Authenticator:
        """Create the authenticator; called each time the broker starts."""

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the filter that authenticates clients."""
        return AuthenticationBroker(broker, self.authenticator(), self._limit())

    async def reconfigure(self, installed: Broker) -> Broker | None:
        """Reload the users from their files and apply them to the next logins."""
        if not isinstance(installed, AuthenticationBroker):
            return None
        await installed.change(self.authenticator(), self._limit())
        return installed

    def _limit(self) -> FailedLogins:
        return FailedLogins(self.maximum_failed_logins, self.failed_login_period)
