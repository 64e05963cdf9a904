"""The check of every request before it reaches a part of the site."""

from __future__ import annotations

import re
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import Final
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyjms.errors import JMSSecurityException
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms_broker.security.audit import acting_as
from pyjms_broker.web.context import (
    COOKIE,
    SESSION,
    USER,
    Session,
    WebContext,
    basic_credentials,
    client_address,
    logged_in,
)
from pyjms_broker.web.errors import WebError, response_to
from pyjms_broker.web.proxies import SENT_HOST, TrustedProxies, path_prefix
from pyjms_broker.web.user import NOBODY, Access, WebUser

logger = get_logger(__name__)


def limit_body(request: HTTPConnection, receive: Receive, maximum: int, timeout: float) -> Receive:
    """Wrap `receive` so that it refuses a body that is too large or arrives too slowly."""
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced[:20]) > maximum:
        raise _too_large(maximum)
    received = 0
    deadline = _clock.now() + timeout
    complete = False

    async def receive_limited() -> Message:
        nonlocal received, complete
        if complete:
            return await receive()  # waits until the client disconnects
        message: Message | None = None
        with _clock.timeout(max(deadline - _clock.now(), 0.001)):
            message = await receive()
        if message is None:
            raise WebError(
                408,
                f"The body of the request did not arrive within {timeout:g} s",
                "send it faster, or in parts; see web: request_timeout",
                {"Connection": "close"},
            )
        received += len(message.get("body", b""))
        complete = not message.get("more_body", False)
        if received > maximum:
            raise _too_large(maximum)
        return message

    return receive_limited


def _too_large(maximum: int) -> WebError:
    return WebError(
        413,
        f"The body of the request is larger than {maximum} bytes",
        "send less, or raise web: maximum_body_size",
        {"Connection": "close"},
    )


_NO_NAME: Final = "anybody without a login"
"""The user in the audit log if there is no login."""
_SAFE: Final = frozenset({"GET", "HEAD"})
_HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""Default headers of all responses."""


class Gate:
    """ASGI middleware around the whole site, which checks host, origin, login and access."""

    def __init__(self, app: ASGIApp, context: WebContext) -> None:
        self._app = app
        self._context = context
        self._proxies = TrustedProxies(context.configuration.trusted_proxies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. (ASGI)"""
        if scope["type"] != "http":
            raise WebError(400, f"There is no {scope['type']} here", "send a request of HTTP")
        scope = self._proxies.apply(scope)
        request = HTTPConnection(scope)
        given = scope[SESSION] = self._context.sessions.get(_cookie(request))
        completed = _with_headers(scope, given, send)
        try:
            try:
                await self._admit(request)
                limits = self._context.configuration
                receive = limit_body(
                    request, receive, limits.maximum_body_size, limits.request_timeout
                )
            except (WebError, JMSSecurityException) as error:
                await self._refusal(request, error)(scope, receive, completed)
            else:
                name = request.scope[USER].name if USER in scope else ""
                with acting_as(name or _NO_NAME, client_address(request)):
                    await self._app(scope, receive, completed)
        except ClientDisconnect:
            logger.debug("The client has left: %s", scope["path"])
        except Exception:  # the site has already responded with status 500
            logger.exception("The request %s has failed", scope["path"][:200])

    async def _admit(self, request: HTTPConnection) -> None:
        """Authenticate the user and check the user's access."""
        context = self._context
        method, path = request.scope["method"], request.scope["path"]
        required = context.access_for(path, method)
        if not context.service.started:
            if required is Access.ANYBODY or path in context.before_start:
                return
            state = "waits for another broker's lock" if context.service.slave else "starts"
            raise WebError(503, f"The broker {state}", "try again later", {"Retry-After": "5"})
        has_users = context.service.broker.authenticates_clients
        if not has_users:
            _check_host(request, context)
        if method not in _SAFE:
            check_origin(request, context)
        user = await self._user(request) if has_users else _OPERATOR
        request.scope[USER] = user
        if required is Access.ANYBODY:
            return
        if user is NOBODY:
            raise WebError(401, "This needs a login", "send user and password (HTTP Basic)")
        context.require(request, required)

    async def _user(self, request: HTTPConnection) -> WebUser:
        header = request.headers.get("authorization")
        if header is None:
            session = request.scope[SESSION]
            return session.user if session is not None and session.logged_in else NOBODY
        try:
            name, password = basic_credentials(header)
            context = self._context
            return await logged_in(
                context.service, context.configuration, name, password, client_address(request)
            )
        except JMSSecurityException as error:
            raise WebError(401, error.reason, error.hint) from error

    def _refusal(self, request: HTTPConnection, error: WebError | JMSSecurityException) -> Response:
        if not isinstance(error, WebError) or error.status != 401:
            return response_to(request, error)
        page = self._context.login_page
        is_page = "text/html" in request.headers.get("accept", "")
        if page is not None and is_page and request.scope["method"] in _SAFE:
            following = quote(request.scope["path"])
            return RedirectResponse(f"{path_prefix.get()}{page}?next={following}", 303)
        response = response_to(request, error)
        if request.headers.get("x-requested-with") != "XMLHttpRequest":  # scripts show the error
            response.headers["www-authenticate"] = 'Basic realm="pyjms", charset="UTF-8"'
        return response


_OPERATOR: Final = WebUser("", frozenset(), Access.ADMINISTRATOR)
"""The user of all requests if the broker has no users."""


def _cookie(request: HTTPConnection) -> str | None:
    header = request.headers.get("cookie")
    if header is None:
        return None
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return None
    return None if found is None else found.value


def _host(request: HTTPConnection) -> str:
    """Return the host and port in the client's URL."""
    return request.headers.get("host", "")


def _check_host(request: HTTPConnection, context: WebContext) -> None:
    """Check that the host name is not one that a foreign page has given to this machine.

    Such a page would have the same origin as this site (DNS rebinding), and without users there is
    no login to protect the site. A browser on a trusted proxy's machine is believed as the proxy
    is, and a page may write X-Forwarded-Host, but not Host: so both names are checked.
    """
    if context.service.allow_anonymous_remote:
        return
    shown = _host(request)
    for host in (shown, request.scope.get(SENT_HOST, shown)):
        name = host[1 : host.find("]")] if host.startswith("[") else host.partition(":")[0]
        if not _is_this_machine(name, context):
            raise WebError(
                403,
                f"The host {name[:100]!r} in the URL is not this machine's",
                "write localhost, configure users, or name the host in web: allowed_hosts",
            )


def _is_this_machine(name: str, context: WebContext) -> bool:
    if name.lower() in ("localhost", *context.configuration.allowed_hosts):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def check_origin(request: HTTPConnection, context: WebContext) -> None:
    """Check that a request comes from a page of this site, or not from a page."""
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site", "none")
    own = f"{request.scope['scheme']}://{_host(request)}"
    if origin is not None and origin in (own, *context.configuration.allowed_origins):
        return
    referer = request.headers.get("referer")
    same = referer is None or f"{referer}/".startswith(f"{own}/")  # for old browsers
    if origin is None and site in ("none", "same-origin") and same:
        return
    if origin is not None and _is_script_on_this_machine(request, context, origin):
        return
    raise WebError(
        403,
        f"Pages of {str(origin or 'other sites')[:100]} may not do that",
        "name the page's origin in web: allowed_origins, or its proxy in web: trusted_proxies",
    )


def check_page_is_known(request: HTTPConnection) -> None:
    """Check that a browser says from which page a GET comes that makes a change.

    It says so, and `check_origin` has checked it, but for an URL of plain http to another machine
    (no Sec-Fetch-Site) that a page opens without Referer: with a login of HTTP Basic that the
    browser remembers, such a page of another site would act as the user. The cookie of a session
    is not sent for it (SameSite).
    """
    headers, session = request.headers, request.scope.get(SESSION)
    if session is not None and session.logged_in and "authorization" not in headers:
        return
    is_browser = "accept-language" in headers and headers.get("user-agent", "")[:8] == "Mozilla/"
    if is_browser and not any(name in headers for name in ("origin", "referer", "sec-fetch-site")):
        raise WebError(
            403,
            "The browser does not say which page makes this change",
            "use https, or send it by POST or from a program such as curl",
        )


_JOLOKIA: Final = "/api/jolokia"
_NOT_OF_SCRIPTS: Final = ("sec-fetch-", "x-forwarded-", "x-real-ip", "forwarded", "via", "cookie")
"""Starts of headers that browsers and proxies add."""
_LOCAL_ORIGIN: Final = re.compile(r"(?:https?://)?(?:localhost|127\.0\.0\.1|\[::1\])(?::(\d+))?")


def _is_script_on_this_machine(request: HTTPConnection, context: WebContext, origin: str) -> bool:
    """Return whether it is a health check that was written for ActiveMQ.

    ActiveMQ's Jolokia demands some Origin with `localhost`, of programs as well. A browser adds
    other headers, too, and no credentials that a page may choose.
    """
    local = _LOCAL_ORIGIN.fullmatch(origin)
    client, server = request.client, request.scope.get("server")
    if local is None or client is None or not request.scope["path"].startswith(_JOLOKIA):
        return False
    try:
        is_near = ip_address(client.host).is_loopback
    except ValueError:
        return False
    port = local[1]
    credentials = request.headers.get("authorization", "").lower().startswith("basic ")
    return (
        is_near
        and (port is None or (server is not None and port == str(server[1])))
        and (credentials or not context.service.broker.authenticates_clients)
        and not any(name.lower().startswith(_NOT_OF_SCRIPTS) for name in request.headers)
    )


def _with_headers(scope: Scope, given: Session | None, send: Send) -> Send:
    """Wrap `send` to add the default headers, and the cookie of a new session.

    Redirects within the site get the path of the client's URL, and name no host, which only the
    request has said.
    """
    own = f"{scope['scheme']}://{Headers(scope=scope).get('host', '')}"

    async def send_completed(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            session = scope[SESSION]
            if session is not given:
                headers.append("set-cookie", _set_cookie(scope, session))
            location = headers.get("location", "")
            path = location.removeprefix(own)
            if path != location and path.startswith("/") and not path.startswith("//"):
                headers["location"] = f"{path_prefix.get()}{path}"
        await send(message)

    return send_completed


def _set_cookie(scope: Scope, session: Session | None) -> str:
    secure = "; Secure" if scope["scheme"] == "https" else ""
    value = "; Max-Age=0" if session is None else session.id
    path = f"{path_prefix.get()}/"
    return f"{COOKIE}={value}; Path={path}; HttpOnly; SameSite=Strict{secure}"
