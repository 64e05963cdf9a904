"""The HTTP sessions of REST clients, which consist of a signed cookie. (activemq-edges W7)"""

from __future__ import annotations

import hmac
import secrets
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from pyjms_broker.web.user import WebUser

__all__ = ["RestSessions"]

_COOKIE: Final = "pyjms_messages"
_LONGEST: Final = 200


class RestSessions:
    """Creates and verifies the session cookies of one web server.

    A session has no state except for its client in `RestClients`, and no rights: another user's
    cookie is not valid.

    Args:
        path: the path of the cookie.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._key = secrets.token_bytes(32)

    def of(self, request: Request, user: WebUser) -> str | None:
        """Return the session of a request; None if the client has sent no valid cookie."""
        header = request.headers.get("cookie", "")
        if _COOKIE not in header:
            return None
        try:
            found = SimpleCookie(header).get(_COOKIE)
        except CookieError:
            return None
        value = "" if found is None else found.value
        name, _, signature = value.partition(".")
        if len(value) > _LONGEST or not signature.isascii():
            return None
        return name if hmac.compare_digest(signature, self._signature(name, user)) else None

    def begin(self, request: Request, user: WebUser, response: Response) -> None:
        """Set the cookie of a new session in a response."""
        name = secrets.token_urlsafe(18)
        response.set_cookie(
            _COOKIE,
            f"{name}.{self._signature(name, user)}",
            path=self._path,
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )

    def _signature(self, name: str, user: WebUser) -> str:
        text = f"{name}\n{user.name}".encode("utf-8", "surrogatepass")
        return hmac.new(self._key, text, sha256).hexdigest()
