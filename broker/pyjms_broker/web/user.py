"""The user of a request, and the access that a path requires."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Access(Enum):
    """The access required for a path."""

    ANYBODY = "anybody"
    """Anyone, without a login."""
    USER = "a user"
    """Any logged-in user; on a broker without users, anyone who reaches the port."""
    READER = "a reader"
    """A user of `reader_groups` or `admin_groups`."""
    ADMINISTRATOR = "an administrator"
    """A user of `admin_groups`."""


@dataclass(frozen=True, slots=True)
class WebUser:
    """The user who sends a request.

    Args:
        name: the user's name; empty without a login.
        groups: the user's groups.
        access: the user's access.
        password: the password of the login, for connections as this user.
    """

    name: str = ""
    groups: frozenset[str] = frozenset()
    access: Access = Access.ANYBODY
    password: str | None = None

    def may(self, required: Access) -> bool:
        """Return whether the user has the required access."""
        return _ORDER[self.access] >= _ORDER[required]

    def __repr__(self) -> str:
        return f"WebUser({self.name!r}, {self.access.name})"


_ORDER = {access: number for number, access in enumerate(Access)}
NOBODY = WebUser()
"""The user of requests without a login."""
