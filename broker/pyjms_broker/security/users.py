"""Where users, their passwords and groups come from. (activemq-edges SE1, SE3)"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Protocol

from pyjms._logger import get_logger
from pyjms._yaml import decrypted, is_encrypted
from pyjms.errors import ConfigurationException
from pyjms_broker.security.passwords import check_stored, is_hash
from pyjms_broker.security.properties_file import read_properties

__all__ = [
    "FixedUsers",
    "GroupedFiles",
    "PropertiesUsers",
    "User",
    "UserSource",
    "UserTable",
    "group_names",
]

logger = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class User:
    """A user; `password` is the text or a scrypt hash."""

    name: str
    password: str = field(repr=False)
    groups: frozenset[str]


class UserTable:
    """All users at one time, by name."""

    def __init__(self, users: Iterable[User] = ()) -> None:
        self.by_name = {user.name: user for user in users}
        self.has_hashes = any(is_hash(user.password) for user in self.by_name.values())


class UserSource(Protocol):
    """Something that knows users."""

    @property
    def reloads(self) -> bool:
        """Whether `load` may return other users later, and is to be called for each login."""

    def load(self) -> UserTable:
        """Return the users; blocking.

        Raises:
            ConfigurationException: they cannot be read, and never could.
        """


class FixedUsers:
    """Users that the configuration has."""

    def __init__(self, users: Iterable[User]) -> None:
        self._users = UserTable(users)

    reloads = False

    def load(self) -> UserTable:
        """Return the users."""
        return self._users


Check = Callable[[Path, str, str], str]
"""Returns the value of a user in a file, or raises ConfigurationException."""


class GroupedFiles:
    """Two files of ActiveMQ: a value for each user, and `group=user1,user2`. (activemq-edges SE3)

    May be used by several threads.

    Args:
        users_file: the values.
        groups_file: the groups.
        check: makes a value of what the file has.
        reloads: whether changes of the files count at once, as with ActiveMQ's `reload=true`.
    """

    def __init__(self, users_file: Path, groups_file: Path, check: Check, *, reloads: bool) -> None:
        self._paths = (users_file, groups_file)
        self._check = check
        self.reloads = reloads
        self._version: tuple[object, ...] | None = None
        self._found: tuple[dict[str, str], dict[str, frozenset[str]]] | None = None
        self._lock = Lock()

    def load(self) -> tuple[dict[str, str], dict[str, frozenset[str]]]:
        """Return the values by user, and the groups by user; blocking.

        They are the same objects until a file has changed. Once they were read, a file that has
        become unreadable is logged, and changes nothing.

        Raises:
            ConfigurationException: a file cannot be read, or has a value that cannot be used.
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

    def _read(self) -> tuple[dict[str, str], dict[str, frozenset[str]]]:
        users_file, groups_file = self._paths
        values, groups = read_properties(users_file), read_properties(groups_file)
        groups_by_user: dict[str, frozenset[str]] = {}
        for group, members in groups.items():
            for member in group_names(members):
                groups_by_user[member] = groups_by_user.get(member, frozenset()) | {group}
        return (
            {user: self._check(users_file, user, value) for user, value in values.items()},
            groups_by_user,
        )


class PropertiesUsers:
    """ActiveMQ's files: `user=password`, and `group=user1,user2`. (activemq-edges SE3)

    Args:
        users_file: the passwords.
        groups_file: the groups.
        reloads: whether changes of the files count at once, as with ActiveMQ's `reload=true`.
    """

    def __init__(self, users_file: Path, groups_file: Path, *, reloads: bool) -> None:
        self._files = GroupedFiles(users_file, groups_file, _checked, reloads=reloads)
        self.reloads = reloads
        self._read: object = None
        self._users = UserTable()

    def load(self) -> UserTable:
        """Return the users; blocking. Raises as `GroupedFiles.load`."""
        found = self._files.load()
        if found is not self._read:
            passwords, groups = found
            self._users = UserTable(
                User(name, password, groups.get(name, frozenset()))
                for name, password in passwords.items()
            )
            self._read = found
        return self._users


def _version_of(path: Path) -> object:
    try:
        status = path.stat()
    except OSError as error:
        return error.errno
    return status.st_mtime_ns, status.st_size, status.st_ino


def _checked(path: Path, name: str, password: str) -> str:
    try:
        if is_encrypted(password):
            password = decrypted(password, os.environ)
        return check_stored(password)
    except ConfigurationException as error:
        raise ConfigurationException(
            f"{path}, user '{name}': {error.reason}", hint=error.hint
        ) from None


def group_names(text: str) -> frozenset[str]:
    """Return the names in a list separated by commas."""
    return frozenset(name for part in text.split(",") if (name := part.strip()))
