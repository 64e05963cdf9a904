"""The security plug-ins in broker.yaml (`plugins`). (activemq-edges 6)"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from pyjms.errors import ConfigurationException
from pyjms_broker.api.context import SecurityContext
from pyjms_broker.security.logins import Authenticator
from pyjms_broker.security.passwords import check_stored
from pyjms_broker.security.user_authenticator import UserAuthenticator
from pyjms_broker.security.users import FixedUsers, PropertiesUsers, User, group_names
from pyjms_broker.settings.plugins.groups import Groups
from pyjms_broker.settings.plugins.logins import LoginSettings
from pyjms_broker.settings.values import Section

__all__ = ["PropertiesAuthenticationSettings", "SimpleAuthenticationSettings", "UserSettings"]


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
    """Users of the configuration. ActiveMQ: simpleAuthenticationPlugin. (activemq-edges SE1)"""

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
        return UserAuthenticator(FixedUsers(user.build() for user in self.users), anonymous)


class PropertiesAuthenticationSettings(LoginSettings):
    """Users of ActiveMQ's files. ActiveMQ: PropertiesLoginModule. (activemq-edges SE3)"""

    type: Literal["properties_authentication"] = "properties_authentication"
    users_file: Path = Path("users.properties")
    """File with a line user=password for each user."""
    groups_file: Path = Path("groups.properties")
    """File with a line group=user1,user2 for each group."""
    reload: bool = False
    """Whether changes of the files take effect at the next login, without a restart."""

    def authenticator(self) -> Authenticator:
        """Create what knows the users."""
        return UserAuthenticator(
            PropertiesUsers(self.users_file, self.groups_file, reloads=self.reload)
        )
