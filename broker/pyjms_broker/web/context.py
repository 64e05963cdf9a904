"""What each part of the site works with: the broker, the user of a request, and the other parts.

A user has logged in with the request itself or with an earlier one of the session. The filter chain
checks user name and password (`Broker.authenticate`), so users, hashes, limits of failed logins and
log messages are the same as for connectors. (activemq-edges W1, SE1)
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import anyio
from starlette.requests import HTTPConnection

from pyjms.errors import IllegalStateException, JMSSecurityException
from pyjms.runtime import clock as _clock
from pyjms.wire.openwire.commands import ConnectionInfo
from pyjms_broker.api.completion import wait_for
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.management.host import ManagedBroker
from pyjms_broker.management.management import Management
from pyjms_broker.web.configuration import WebConfiguration
from pyjms_broker.web.errors import WebError
from pyjms_broker.web.user import NOBODY, Access, WebUser

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
    """All sessions of one web server; one ends after `timeout` seconds without a request."""

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


CONNECTOR_NAME = "web"
"""The connector's name in log messages about refused logins."""


def basic_credentials(header: str) -> tuple[str, str]:
    """Return the user name and password of an `Authorization` header.

    Raises:
        JMSSecurityException: it is not `Basic`, or invalid.
    """
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() == "basic":
        try:
            name, colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            pass
        else:
            if colon:
                return name, password
    raise JMSSecurityException(
        "The header Authorization cannot be read", hint="send Basic with user:password in base64"
    )


async def logged_in(
    host: ManagedBroker, configuration: WebConfiguration, name: str, password: str, address: str
) -> WebUser:
    """Return the user with that name and password. Cancellable.

    Raises:
        JMSSecurityException: the login is wrong, or the address has failed too often.
        IllegalStateException: the broker is not running.
    """
    context = ConnectionContext()
    context.connector_name = CONNECTOR_NAME
    info = ConnectionInfo(user_name=name, password=password)
    info.client_ip = address
    await wait_for(host.broker.authenticate(context, info))
    security = context.security
    if security is None:
        raise JMSSecurityException(f"User name [{name}] or password is invalid.")
    groups = security.groups
    access = Access.USER
    if groups & configuration.reader_groups:
        access = Access.READER
    if groups & configuration.admin_groups:
        access = Access.ADMINISTRATOR
    return WebUser(security.user_name, groups, access, password)


USER: Final = "pyjms.user"
SESSION: Final = "pyjms.session"
"""Keys of a request's scope; the session is None if it ends with the request."""
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class WebContext:
    """The state shared by the parts of one web server. Use it on the broker's event loop.

    Args:
        service: the broker service.
        configuration: the settings of the web server.
    """

    def __init__(self, service: ManagedBroker, configuration: WebConfiguration) -> None:
        self.service = service
        self.configuration = configuration
        self.sessions = Sessions(configuration.session_timeout)
        self.login_page: str | None = None
        """The path to which browsers are redirected for a login; None: HTTP Basic."""
        self.stopping = anyio.Event()
        """Set when the broker stops, so that streams and long polls end."""
        self._paths: dict[str, tuple[Access, Access]] = {}
        self.before_start: set[str] = set()
        """Paths that answer without a login while the broker is starting, or a slave."""
        self._on_stop: list[Callable[[], Awaitable[None]]] = []

    @property
    def management(self) -> Management:
        """The management views of the broker. See docs/management.md."""
        return self.service.management

    def allow(self, path: str, access: Access, unsafe: Access | None = None) -> None:
        """Set the access for `path` and the paths below it; the longest matching path applies.

        Other paths need `READER` for GET and HEAD, and `ADMINISTRATOR` for all other methods.

        Args:
            path: the path, such as `/health`.
            access: the access required for GET and HEAD.
            unsafe: the access required for other methods; by default the same.
        """
        self._paths[path.rstrip("/")] = (access, access if unsafe is None else unsafe)

    def access_for(self, path: str, method: str) -> Access:
        """Return the access required for a request."""
        while path not in self._paths and path:
            path = path.rpartition("/")[0]
        safe, unsafe = self._paths.get(path, (Access.READER, Access.ADMINISTRATOR))
        return safe if method in _SAFE_METHODS else unsafe

    def user(self, request: HTTPConnection) -> WebUser:
        """Return the user who sends a request."""
        found = request.scope.get(USER, NOBODY)
        assert isinstance(found, WebUser)
        return found

    def require(self, request: HTTPConnection, access: Access) -> None:
        """Check that the user has the access.

        Raises:
            JMSSecurityException: the user does not.
        """
        user = self.user(request)
        if not user.may(access):
            raise JMSSecurityException(
                f"User {user.name} is not {access.value}, as {request.scope['path'][:200]} needs",
                hint=_hint(self.configuration, access),
            )

    def form_token(self, request: HTTPConnection) -> str:
        """Return the token that a page's forms must send back, creating a session if needed.

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
        """Check the token sent by a form. (activemq-edges W5)

        Raises:
            WebError: it is not the token of the user's session (status 403).
        """
        session = self._session(request)
        if session is None or not session.has_token(token if isinstance(token, str) else None):
            raise WebError(
                403,
                "The form's token is missing, or its session has ended",
                "open the page again, and repeat the action",
            )

    async def log_in(self, request: HTTPConnection, name: str, password: str) -> WebUser:
        """Log in with the data of a form; the response sets the session's cookie.

        Raises:
            JMSSecurityException: the login is wrong, or too many logins have failed.
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
        """Register `function` to be awaited when the web server stops, after all requests."""
        self._on_stop.append(function)

    async def close(self) -> None:
        """Await the functions registered with `on_stop`. Called by the server."""
        for function in self._on_stop:
            await function()

    def _session(self, request: HTTPConnection) -> Session | None:
        found = request.scope.get(SESSION)
        assert found is None or isinstance(found, Session)
        return found


def client_address(request: HTTPConnection) -> str:
    """Return the client's address in the same form as for connections of other connectors."""
    client = request.client
    return "tcp://unknown:0" if client is None else f"tcp://{client.host}:{client.port}"


def _hint(configuration: WebConfiguration, access: Access) -> str:
    groups = configuration.admin_groups
    if access is Access.READER:
        groups |= configuration.reader_groups
    return f"users of the groups {', '.join(sorted(groups))} are (web: admin_groups, reader_groups)"
