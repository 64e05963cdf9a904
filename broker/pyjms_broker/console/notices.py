"""Results of actions, which the next page shows once.

The page's URL contains a random id instead of the text, so that no link can inject text.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

__all__ = ["Notice", "Notices"]

_MOST: Final = 200


@dataclass(frozen=True, slots=True)
class Notice:
    """The result of an action, or the reason for its failure.

    Args:
        text: what was done, or what is wrong and where.
        hint: what to do; may be empty.
        is_error: whether the action has failed.
    """

    text: str
    hint: str = ""
    is_error: bool = False


class Notices:
    """The notices that have not been shown yet; beyond 200, the oldest are dropped."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[str, Notice]] = OrderedDict()

    def add(self, user: str, notice: Notice) -> str:
        """Store a notice for a user and return its id."""
        key = secrets.token_urlsafe(12)
        self._kept[key] = (user, notice)
        while len(self._kept) > _MOST:
            self._kept.popitem(last=False)
        return key

    def take(self, user: str, key: str | None) -> Notice | None:
        """Remove and return a user's notice; None if it is unknown or another user's."""
        owner, notice = self._kept.get(key or "", ("", None))
        if key is None or notice is None or owner != user:
            return None
        del self._kept[key]
        return notice
