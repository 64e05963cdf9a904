"""What a part of the site knows of the broker, of the user, and of the other parts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import anyio
from starlette.requests import HTTPConnection

from pyjms.errors import IllegalStateException, JMSSecurityException
from pyjms_broker.management.management import Management
from pyjms_broker.web.configuration import WebConfiguration
from pyjms_broker.web.errors import WebError
from pyjms_broker.web.host import WebHost
from pyjms_broker.web.login import logged_in
from pyjms_broker.web.sessions import Session, Sessions
from pyjms_broker.web.user import NOBODY, Access, WebUser

__all__ = ["SESSION", "USER", "WebContext", "client_address"]

USER: Final = "pyjms.user"
SESSION: Final = "pyjms.session"
"""Keys of a request's scope; the session is None when it ends with the request."""
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class WebContext:
    """What the parts of one web server share. Belongs to the broker's event loop.

    Args:
        service: the broker service.
        configuration: the settings of the web server.
    """

    def __init__(self, service: WebHost, configuration: WebConfiguration) -> None:
        self.service = service
        self.configuration = configuration
        self.sessions = Sessions(configuration.session_timeout)
        self.login_page: str | None = None
        """Path that browsers without a login are sent to; None: they ask for user and password."""
        self.stopping = anyio.Event()
        """Set when the broker stops: streams and long polls are to end."""
        self._paths: dict[str, tuple[Access, Access]] = {}
        self._on_stop: list[Callable[[], Awaitable[None]]] = []

    @property
    def management(self) -> Management:
        """The views of everything in the broker. See docs/management.md."""
        return self.service.management

    def allow(self, path: str, access: Access, unsafe: Access | None = None) -> None:
        """Set the rights for `path` and the paths below it; the longest matching path counts.

        Other paths need `READER` for GET and HEAD, and `ADMINISTRATOR` for all other methods.

        Args:
            path: such as `/health`.
            access: for GET and HEAD.
            unsafe: for other methods; the same if it is left out.
        """
        self._paths[path.rstrip("/")] = (access, access if unsafe is None else unsafe)

    def required(self, path: str, method: str) -> Access:
        """Return who may send a request."""
        while path not in self._paths and path:
            path = path.rpartition("/")[0]
        safe, unsafe = self._paths.get(path, (Access.READER, Access.ADMINISTRATOR))
        return safe if method in _SAFE_METHODS else unsafe

    def user(self, request: HTTPConnection) -> WebUser:
        """Return who sends a request."""
        found = request.scope.get(USER, NOBODY)
        assert isinstance(found, WebUser)
        return found

    def require(self, request: HTTPConnection, access: Access) -> None:
        """Check that the user has a right.

        Raises:
            JMSSecurityException: the user does not have it.
        """
        user = self.user(request)
        if not user.may(access):
            raise JMSSecurityException(
                f"User {user.name} is not {access.value}, as {request.scope['path'][:200]} needs",
                hint=_hint(self.configuration, access),
            )

    def form_token(self, request: HTTPConnection) -> str:
        """Return the token that the forms of a page must send back, with a session for it.

        Raises:
            IllegalStateException: nobody is logged in.
        """
        user = self.user(request)
        if user is NOBODY:
            raise IllegalStateException("There is no form token without a login")
        session = self._session(request)
        if session is None or session.user.name != user.name:
            session = self.sessions.create(user, logged_in=False)
            request.scope[SESSION] = session
        return session.form_token

    def check_form(self, request: HTTPConnection, token: object) -> None:
        """Check the token that a form has sent. (activemq-edges W5)

        Raises:
            WebError: it is not that of the user's session: status 403.
        """
        session = self._session(request)
        if session is None or not session.has_token(token if isinstance(token, str) else None):
            raise WebError(
                403,
                "The form's token is missing, or its session has ended",
                "open the page again, and repeat the action",
            )

    async def log_in(self, request: HTTPConnection, name: str, password: str) -> WebUser:
        """Log in the user that a form names; the response sets the session's cookie.

        Raises:
            JMSSecurityException: there is no such user, or too many logins have failed.
        """
        address = client_address(request)
        user = await logged_in(self.service, self.configuration, name, password, address)
        self.log_out(request)
        request.scope[SESSION] = self.sessions.create(user, logged_in=True)
        request.scope[USER] = user
        return user

    def log_out(self, request: HTTPConnection) -> None:
        """End the session of a request. Idempotent."""
        session = self._session(request)
        if session is not None:
            self.sessions.remove(session)
            request.scope[SESSION] = None

    def on_stop(self, function: Callable[[], Awaitable[None]]) -> None:
        """Register `function` to be awaited when the web server stops, once no request runs."""
        self._on_stop.append(function)

    async def close(self) -> None:
        """Call what the parts have registered; for the server."""
        for function in self._on_stop:
            await function()

    def _session(self, request: HTTPConnection) -> Session | None:
        found = request.scope.get(SESSION)
        assert found is None or isinstance(found, Session)
        return found


def client_address(request: HTTPConnection) -> str:
    """Return where a request comes from, as connections of other connectors have it."""
    client = request.client
    return "tcp://unknown:0" if client is None else f"tcp://{client.host}:{client.port}"


def _hint(configuration: WebConfiguration, access: Access) -> str:
    groups = configuration.admin_groups
    if access is Access.READER:
        groups |= configuration.reader_groups
    return f"users of the groups {', '.join(sorted(groups))} are (web: admin_groups, reader_groups)"
