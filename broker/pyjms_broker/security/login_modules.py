"""ActiveMQ's login modules: properties files, guests and certificates. (activemq-edges SE3)"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyjms.errors import ConfigurationException
from pyjms_broker.api.context import SecurityContext
from pyjms_broker.security.authentication import Credentials
from pyjms_broker.security.users import (
    GroupedFiles,
    PropertiesUsers,
    UserAuthenticator,
    group_names,
)

__all__ = [
    "LoginModule",
    "LoginRefusedError",
    "LoginUnavailableError",
    "certificate_module",
    "guest_module",
    "is_true",
    "properties_module",
]

_PREFIX: Final = "org.apache.activemq.jaas."


class LoginRefusedError(Exception):
    """A login module has refused a client."""


class LoginUnavailableError(LoginRefusedError):
    """A login module cannot check clients at present."""


class LoginModule(ABC):
    """A method of authenticating clients."""

    @abstractmethod
    def login(self, credentials: Credentials) -> SecurityContext | None:
        """Return the user of a client; None: the module does not apply. Blocks.

        Raises:
            LoginRefusedError: the credentials are wrong.
        """


class _PropertiesLogin(LoginModule):
    def __init__(self, users: PropertiesUsers) -> None:
        self._users = UserAuthenticator(users)
        self._users.load()

    def login(self, credentials: Credentials) -> SecurityContext | None:
        found = self._users.authenticate(credentials)
        if found is None:
            raise LoginRefusedError
        return found


class _GuestLogin(LoginModule):
    def __init__(self, guest: SecurityContext, *, only_without_password: bool) -> None:
        self._guest = guest
        self._only_without_password = only_without_password

    def login(self, credentials: Credentials) -> SecurityContext | None:
        if self._only_without_password and credentials.password is not None:
            return None
        return self._guest


class _CertificateLogin(LoginModule):
    def __init__(self, files: GroupedFiles) -> None:
        self._files = files
        self._files.load()

    def login(self, credentials: Credentials) -> SecurityContext | None:
        subject = credentials.subject
        if subject is None:
            raise LoginRefusedError
        names, groups = self._files.load()
        for user, named in names.items():
            if _is_regex(named):
                if re.fullmatch(named[1:-1], subject):
                    return SecurityContext(user, groups.get(user, frozenset()))
            elif named == subject:
                return SecurityContext(user, groups.get(user, frozenset()))
        raise LoginRefusedError


def properties_module(options: Mapping[str, str], directory: Path) -> LoginModule:
    """Return a PropertiesLoginModule: `user=password`, `group=user1,user2`."""
    return _PropertiesLogin(
        PropertiesUsers(
            _file(options, f"{_PREFIX}properties.user", directory, "users.properties"),
            _file(options, f"{_PREFIX}properties.group", directory, "groups.properties"),
            reloads=is_true(options, "reload"),
        )
    )


def guest_module(options: Mapping[str, str], _directory: Path) -> LoginModule:
    """Return a GuestLoginModule, which accepts all clients, or those without a password.

    The user is always the guest, regardless of the client's user name.
    """
    groups = group_names(options.get(f"{_PREFIX}guest.group", "guests"))
    guest = SecurityContext(options.get(f"{_PREFIX}guest.user", "guest"), groups)
    return _GuestLogin(guest, only_without_password=is_true(options, "credentialsInvalidate"))


def certificate_module(options: Mapping[str, str], directory: Path) -> LoginModule:
    """Return a TextFileCertificateLoginModule: `user=CN=..., O=...` or `user=/regex/`."""
    users = _file(options, f"{_PREFIX}textfiledn.user", directory)
    groups = _file(options, f"{_PREFIX}textfiledn.group", directory)
    return _CertificateLogin(
        GroupedFiles(users, groups, _checked_names, reloads=is_true(options, "reload"))
    )


def _checked_names(path: Path, user: str, named: str) -> str:
    if _is_regex(named):
        try:
            re.compile(named[1:-1])
        except re.error as error:
            raise ConfigurationException(
                f"{path}, user '{user}': the regular expression is wrong: {error}"
            ) from None
    return named


def _is_regex(named: str) -> bool:
    return len(named) > 2 and named.startswith("/") and named.endswith("/")


def is_true(options: Mapping[str, str], name: str) -> bool:
    """Return whether an option is `true`, ignoring case."""
    return options.get(name, "").lower() == "true"


def _file(
    options: Mapping[str, str], key: str, directory: Path, default: str | None = None
) -> Path:
    name = options.get(key, default)
    if name is None:
        raise ConfigurationException(f"the login module has no option {key}")
    return Path(options.get("baseDir", directory)) / name
