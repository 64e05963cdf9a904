"""Sessions of logged-in users, in memory, under random ids."""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from pyjms import _clock
from pyjms_broker.web.user import WebUser

__all__ = ["COOKIE", "Session", "Sessions"]

COOKIE: Final = "pyjms_session"
_MAXIMUM: Final = 1000
"""The maximum number of sessions; the least recently used one is dropped."""
_LONGEST: Final = 12 * 3600.0
"""Seconds after which a session ends, even if it is in use."""


@dataclass(slots=True, eq=False)
class Session:
    """One browser's session."""

    user: WebUser
    logged_in: bool
    """Whether the cookie identifies the user; otherwise each request has a login."""
    began: float
    used: float
    id: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    form_token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    """The token that forms must send back, which pages of other sites do not know."""

    def has_token(self, token: str | None) -> bool:
        """Return whether `token` is the session's token, in constant time."""
        return token is not None and hmac.compare_digest(token.encode(), self.form_token.encode())


class Sessions:
    """All sessions of one web server.

    Args:
        timeout: seconds without a request after which a session ends.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._by_id: OrderedDict[str, Session] = OrderedDict()

    def create(self, user: WebUser, *, logged_in: bool) -> Session:
        """Return a new session."""
        now = _clock.now()
        session = Session(user, logged_in, now, now)
        self._by_id[session.id] = session
        while len(self._by_id) > _MAXIMUM:
            self._by_id.popitem(last=False)
        return session

    def get(self, session_id: str | None) -> Session | None:
        """Return the session with that id; None if it has ended or never existed."""
        session = None if session_id is None else self._by_id.get(session_id)
        if session is None:
            return None
        now = _clock.now()
        if now - session.used > self._timeout or now - session.began > _LONGEST:
            self.remove(session)
            return None
        session.used = now
        self._by_id.move_to_end(session.id)
        return session

    def remove(self, session: Session) -> None:
        """End a session. Idempotent."""
        self._by_id.pop(session.id, None)

    def __len__(self) -> int:
        return len(self._by_id)
