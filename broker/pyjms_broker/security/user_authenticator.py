"""Authentication of users whose passwords the broker compares. (activemq-edges SE1, SE3)"""

from __future__ import annotations

from pyjms_broker.api.context import SecurityContext
from pyjms_broker.security.logins import Credentials
from pyjms_broker.security.passwords import PasswordVerifier, is_hash
from pyjms_broker.security.users import User, UserSource, UserTable

__all__ = ["UserAuthenticator"]


class UserAuthenticator:
    """Authenticates users by name and password.

    Args:
        users: the users who may connect.
        anonymous: the user of clients without user name and password; None: they are refused.
    """

    concurrency = 1
    """One check at a time, so that a flood of logins uses only one core."""

    def __init__(self, users: UserSource, anonymous: SecurityContext | None = None) -> None:
        self._source = users
        self._users = UserTable()
        self._anonymous = anonymous
        self._verifier = PasswordVerifier()

    def load(self) -> None:
        """Load the users. Blocks.

        Raises:
            ConfigurationException: they cannot be loaded.
        """
        self._users = self._source.load()

    def anonymous(self, credentials: Credentials) -> SecurityContext | None:
        """Return the user of a client without user name and password."""
        has_none = credentials.user_name is None and credentials.password is None
        return self._anonymous if has_none else None

    def is_quick(self, credentials: Credentials) -> bool:
        """Return whether no file is read and no hash is compared."""
        if self._source.reloads:
            return False
        user = self._user(credentials)
        if user is None:
            return not self._users.has_hashes
        return not is_hash(user.password) or self._verifier.recognises(
            user.password, credentials.password or ""
        )

    def authenticate(self, credentials: Credentials) -> SecurityContext | None:
        """Return the user with the client's name and password, or None."""
        if self._source.reloads:
            self.load()
        user, password = self._user(credentials), credentials.password or ""
        if user is None:
            if self._users.has_hashes:
                self._verifier.waste_time(password)
            return None
        if credentials.password is None or not self._verifier.matches(user.password, password):
            return None
        return SecurityContext(user.name, user.groups)

    def _user(self, credentials: Credentials) -> User | None:
        name = credentials.user_name
        return None if name is None else self._users.by_name.get(name)
