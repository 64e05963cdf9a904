"""Users and rights in broker.yaml: the plug-ins for logins and for authorization.

(activemq-edges 6)
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from pyjms.configuration.section import Duration, Section
from pyjms.errors import ConfigurationException
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.context import SecurityContext
from pyjms_broker.security.authentication import AuthenticationBroker, Authenticator
from pyjms_broker.security.authorization import (
    AuthorizationBroker,
    AuthorizationEntry,
    AuthorizationMap,
)
from pyjms_broker.security.failed_logins import FailedLogins
from pyjms_broker.security.jaas import JaasAuthenticator
from pyjms_broker.security.passwords import check_stored
from pyjms_broker.security.users import (
    User,
    UserAuthenticator,
    UserTable,
    group_names,
    properties_users,
)
from pyjms_broker.settings.extensions import PluginSettings
from pyjms_broker.settings.values import DestinationName, Groups

__all__ = [
    "AccessSettings",
    "AuthorizationEntrySettings",
    "AuthorizationSettings",
    "JaasAuthenticationSettings",
    "JaasCertificateAuthenticationSettings",
    "JaasDualAuthenticationSettings",
    "LoginSettings",
    "PropertiesAuthenticationSettings",
    "SimpleAuthenticationSettings",
    "UserSettings",
]


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
    bridges: Groups | None = None
    """Groups whose users may connect as bridges of other brokers, as administrators of > may; null:
    everybody."""

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
            self.bridges,
        )


def _entry(
    access: AccessSettings, named: AuthorizationEntrySettings | None = None
) -> AuthorizationEntry:
    destination = None if named is None else named.destination
    return AuthorizationEntry(destination, access.read, access.write, access.admin)


class LoginSettings(PluginSettings):
    """The limit of failed logins; subclasses create the authenticator."""

    maximum_failed_logins: int = Field(default=10, ge=0)
    """Failed logins of an address before unknown names, and users with as many, are refused; 0: no
    limit."""
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


class UserSettings(Section):
    """A user (`users` of `simple_authentication`). ActiveMQ: authenticationUser."""

    username: str = Field(min_length=1)
    """Name that the client logs in with."""
    password: SecretStr
    """Password, or a hash that `pyjms broker passwd` prints."""
    groups: Groups = frozenset()
    """Groups of the user: admins,users or a list."""

    @field_validator("password")
    @classmethod
    def _check_password(cls, password: SecretStr) -> SecretStr:
        try:
            check_stored(password.get_secret_value())
        except ConfigurationException as error:
            raise ValueError(str(error)) from None
        return password

    def build(self) -> User:
        """Create the user."""
        return User(self.username, self.password.get_secret_value(), self.groups)


class SimpleAuthenticationSettings(LoginSettings):
    """Users of the configuration. ActiveMQ: simpleAuthenticationPlugin."""

    type: Literal["simple_authentication"] = "simple_authentication"
    users: tuple[UserSettings, ...] = ()
    """The users with their passwords and groups."""
    anonymous_access_allowed: bool = False
    """Whether clients without user and password may connect."""
    anonymous_user: str = "anonymous"
    """Name of the user for such clients."""
    anonymous_group: str = "anonymous"
    """Groups of that user."""

    @model_validator(mode="after")
    def _check_users(self) -> Self:
        names = [user.username for user in self.users]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"users: there are two of the name {twice[0]}")
        if not names and not self.anonymous_access_allowed:
            raise ValueError("users: there are none, so no client could connect")
        return self

    def authenticator(self) -> Authenticator:
        """Create what knows the users."""
        anonymous = None
        if self.anonymous_access_allowed:
            anonymous = SecurityContext(self.anonymous_user, group_names(self.anonymous_group))
        return UserAuthenticator(UserTable(user.build() for user in self.users), anonymous)


class PropertiesAuthenticationSettings(LoginSettings):
    """Users of ActiveMQ's files. ActiveMQ: PropertiesLoginModule."""

    type: Literal["properties_authentication"] = "properties_authentication"
    users_file: Path = Path("users.properties")
    """File with a line user=password for each user."""
    groups_file: Path = Path("groups.properties")
    """File with a line group=user1,user2 for each group."""
    reload: bool = False
    """Whether changes of the files take effect at the next login, without a restart."""

    def authenticator(self) -> Authenticator:
        """Create what knows the users."""
        users = properties_users(self.users_file, self.groups_file, reloads=self.reload)
        return UserAuthenticator(users)


class _JaasSettings(LoginSettings):
    login_config: Path = Path("login.config")
    """The file with the login modules."""
    configuration: str = "activemq-domain"
    """Name of the entry in that file."""


class JaasAuthenticationSettings(_JaasSettings):
    """Users of login modules. ActiveMQ: jaasAuthenticationPlugin."""

    type: Literal["jaas_authentication"] = "jaas_authentication"

    def authenticator(self) -> Authenticator:
        """Create what asks the login modules."""
        return JaasAuthenticator(self.login_config, self.configuration, None)


class JaasCertificateAuthenticationSettings(_JaasSettings):
    """Users are the subjects of certificates. ActiveMQ: jaasCertificateAuthenticationPlugin."""

    type: Literal["jaas_certificate_authentication"] = "jaas_certificate_authentication"

    def authenticator(self) -> Authenticator:
        """Create what asks the login modules."""
        return JaasAuthenticator(self.login_config, None, self.configuration)


class JaasDualAuthenticationSettings(_JaasSettings):
    """Certificates at connectors with TLS, passwords elsewhere.

    ActiveMQ: jaasDualAuthenticationPlugin.
    """

    type: Literal["jaas_dual_authentication"] = "jaas_dual_authentication"
    ssl_configuration: str = "activemq-ssl-domain"
    """Name of the entry for clients of connectors with TLS."""

    def authenticator(self) -> Authenticator:
        """Create what asks the login modules."""
        return JaasAuthenticator(self.login_config, self.configuration, self.ssl_configuration)
