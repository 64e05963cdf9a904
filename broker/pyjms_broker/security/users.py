"""Users with their passwords and groups, and the comparison. (activemq-edges SE1, SE3)"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

from pyjms.configuration.encryption import decrypt, is_encrypted
from pyjms.configuration.properties_file import read_properties
from pyjms.errors import ConfigurationException
from pyjms.runtime.logging import get_logger
from pyjms_broker.api.context import SecurityContext
from pyjms_broker.security.authentication import Authenticator, Credentials
from pyjms_broker.security.passwords import PasswordVerifier, check_stored, is_hash

logger = get_logger(__name__)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class User:
    """A user; `password` is plain text or a scrypt hash."""

    name: str
    password: str = field(repr=False)
    groups: frozenset[str]


class UserTable:
    """All users, by name: those of the configuration, or a snapshot of files."""

    reloads = False

    def __init__(self, users: Iterable[User] = ()) -> None:
        self.by_name = {user.name: user for user in users}
        hashes = [user.password for user in self.by_name.values() if is_hash(user.password)]
        costs = Counter(text.rsplit("$", 2)[0] for text in hashes)
        usual = costs.most_common(1)[0][0] if costs else ""
        self.sample_hash = next((text for text in hashes if text.startswith(usual)), None)
        """A hash with the most common parameters; None: no password is a hash."""

    def load(self) -> UserTable:
        """Return the table itself, as a source of users."""
        return self


Check = Callable[[Path, str, str], str]
"""Converts a user's value from a file, or raises ConfigurationException."""


class GroupedFiles(Generic[_T]):
    """A pair of ActiveMQ's files: a value per user, and `group=user1,user2`.

    It is thread-safe.

    Args:
        users_file: the file of values.
        groups_file: the file of groups.
        check: converts a value from the file.
        make: makes the result from the values by user and the groups by user.
        reloads: whether changes of the files take effect at once, as with ActiveMQ's `reload=true`.
    """

    def __init__(
        self,
        users_file: Path,
        groups_file: Path,
        check: Check,
        make: Callable[[dict[str, str], dict[str, frozenset[str]]], _T],
        *,
        reloads: bool,
    ) -> None:
        self._paths = (users_file, groups_file)
        self._check = check
        self._make = make
        self.reloads = reloads
        self._version: tuple[object, ...] | None = None
        self._found: _T | None = None
        self._lock = Lock()

    def load(self) -> _T:
        """Return what `make` has made of the files. Blocks.

        It is the same object until a file has changed. If a file becomes unreadable later, that is
        logged, and the last object is returned.
        """
        with self._lock:
            found = self._found
            if found is not None and not self.reloads:
                return found
            version = tuple(_version_of(path) for path in self._paths)
            if found is not None and version == self._version:
                return found
            self._version = version
            try:
                self._found = found = self._read()
            except ConfigurationException as error:
                if found is None:
                    raise
                logger.error(
                    "The users stay as they were, since the changed ones are wrong: %s", error
                )
            return found

    def _read(self) -> _T:
        users_file, groups_file = self._paths
        values, groups = read_properties(users_file), read_properties(groups_file)
        groups_by_user: dict[str, frozenset[str]] = {}
        for group, members in groups.items():
            for member in group_names(members):
                groups_by_user[member] = groups_by_user.get(member, frozenset()) | {group}
        checked = {user: self._check(users_file, user, value) for user, value in values.items()}
        return self._make(checked, groups_by_user)


def properties_users(
    users_file: Path, groups_file: Path, *, reloads: bool
) -> GroupedFiles[UserTable]:
    """Return the users of ActiveMQ's files: `user=password`, and `group=user1,user2`."""

    def table(passwords: Mapping[str, str], groups: Mapping[str, frozenset[str]]) -> UserTable:
        return UserTable(
            User(name, password, groups.get(name, frozenset()))
            for name, password in passwords.items()
        )

    return GroupedFiles(users_file, groups_file, _check_password, table, reloads=reloads)


def _version_of(path: Path) -> object:
    try:
        status = path.stat()
    except OSError as error:
        return error.errno
    return status.st_mtime_ns, status.st_size, status.st_ino


def _check_password(path: Path, name: str, password: str) -> str:
    try:
        if is_encrypted(password):
            password = decrypt(password, os.environ)
        return check_stored(password)
    except ConfigurationException as error:
        raise ConfigurationException(
            f"{path}, user '{name}': {error.reason}", hint=error.hint
        ) from None


def group_names(text: str) -> frozenset[str]:
    """Return the names in a comma-separated list."""
    return frozenset(name for part in text.split(",") if (name := part.strip()))


class UserAuthenticator(Authenticator):
    """Authenticates users by name and password.

    Args:
        users: the users who may connect.
        anonymous: the user of clients without user name and password; None: they are refused.
    """

    concurrency = 2
    """Checks at a time, so that a flood of logins does not use all cores."""

    def __init__(
        self, users: UserTable | GroupedFiles[UserTable], anonymous: SecurityContext | None = None
    ) -> None:
        self._source = users
        self._users = UserTable()
        self._anonymous = anonymous
        self._verifier = PasswordVerifier()

    def load(self) -> None:
        """Load the users. Blocks."""
        self._users = self._source.load()

    def anonymous(self, credentials: Credentials) -> SecurityContext | None:
        """Return the user of a client without user name and password."""
        has_none = credentials.user_name is None and credentials.password is None
        return self._anonymous if has_none else None

    def may_exist(self, user_name: str) -> bool:
        """Return whether there is such a user."""
        return user_name in self._users.by_name

    def user_groups(self) -> Mapping[str, frozenset[str]] | None:
        """Return the users as they were loaded last."""
        return {name: user.groups for name, user in self._users.by_name.items()}

    def is_quick(self, credentials: Credentials) -> bool:
        """Return whether no file is read and no hash is compared."""
        if self._source.reloads:
            return False
        return self._users.sample_hash is None or self._recognise(credentials) is not None

    def authenticate(self, credentials: Credentials) -> SecurityContext | None:
        """Return the user with the client's name and password, or None.

        If any password is a hash, each refusal takes as long as a comparison with one, whether or
        not the user exists and has a hash.
        """
        if self._source.reloads:
            self.load()
        user = self._recognise(credentials)
        if user is None:
            user, sample = self._user(credentials), self._users.sample_hash
            if user is None or credentials.password is None or not is_hash(user.password):
                if sample is not None:
                    self._verifier.waste_time(sample, credentials.password or "")
                return None
            if not self._verifier.matches(user.password, credentials.password):
                return None
        return SecurityContext(user.name, user.groups)

    def _recognise(self, credentials: Credentials) -> User | None:
        """Return the user if the password is right and no hash has to be compared. Quick."""
        user, password = self._user(credentials), credentials.password
        if user is None or password is None:
            return None
        return user if self._verifier.recognises(user.password, password) else None

    def _user(self, credentials: Credentials) -> User | None:
        name = credentials.user_name
        return None if name is None else self._users.by_name.get(name)
