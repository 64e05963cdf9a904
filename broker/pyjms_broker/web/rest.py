"""Messages over HTTP: the routes, and the connections of their clients. (activemq-edges W6, W7)"""

from __future__ import annotations

import hmac
import json
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from operator import itemgetter
from typing import Final, TypedDict, TypeVar
from urllib.parse import parse_qsl, quote

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from pyjms.client.connection import ActiveMQConnection
from pyjms.client.consumer import ActiveMQMessageConsumer
from pyjms.client.factory import ConnectionFactory
from pyjms.client.session import ActiveMQSession
from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.errors import JMSException
from pyjms.jms import BytesMessage, Message, TextMessage
from pyjms.jms.destination import Destination, Queue, Topic, named_kind, parse_destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms_broker.management.host import ManagedBroker
from pyjms_broker.web.context import WebContext
from pyjms_broker.web.errors import WebError
from pyjms_broker.web.gate import check_origin, check_page_is_known
from pyjms_broker.web.user import Access, WebUser

logger = get_logger(__name__)

_FORM: Final = "application/x-www-form-urlencoded"
_OWN: Final = frozenset({"destination", "type", "body", "clientId", "action"})
_DELIVERY: Final = {"persistent": DeliveryMode.PERSISTENT, "2": DeliveryMode.PERSISTENT}
_PRIORITY: Final = 5
_NAME: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_RESERVED: Final = frozenset(
    {
        *("age", "allow", "authorization", "connection", "cookie", "date", "destination", "etag"),
        *("expires", "forwarded", "from", "host", "id", "link", "location", "origin", "pragma"),
        *("range", "referer", "refresh", "server", "trailer", "upgrade", "vary", "via", "warning"),
    }
)
"""Headers that properties of a message must not set."""
_HEADERS_SIZE: Final = 32 * 1024


def parameters_of(request: Request, body: bytes) -> tuple[dict[str, str], str]:
    """Return the parameters of a request, including those of a form, and the text to send."""
    given = dict(request.query_params)
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise WebError(400, "The body is not UTF-8 text", "send text") from error
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() == _FORM:
        try:
            form = dict(parse_qsl(text, keep_blank_values=True, max_num_fields=1000))
        except ValueError as error:
            raise WebError(400, "The form has too many fields", "send at most 1000") from error
        if "body" in form:
            given.update(form)
    if "body" in given:
        return given, given["body"]
    return given, "".join(f"{line}\n" for line in text.splitlines())


def destination_of(path: str, given: Mapping[str, str]) -> Destination:
    """Return the destination of a request, by default a topic."""
    kind = given.get("type", "topic").lower()
    if kind not in ("queue", "topic"):
        raise WebError(400, f"There is no type {kind[:100]!r}", "write type=queue or type=topic")
    name = path.strip("/").replace("/", ".") or given.get("destination", "")
    if not name:
        raise WebError(
            400, "No destination is named", "write /api/message/NAME?type=queue, or destination="
        )
    named_kind(name)  # raises an error for a misspelt prefix
    found = parse_destination(name, Queue if kind == "queue" else Topic)
    if found.is_temporary:
        raise WebError(
            400,
            f"{name[:100]!r} is temporary: it belongs to another connection",
            "name a queue or a topic",
        )
    if found.is_pattern and not found.is_topic:
        raise WebError(400, f"{name[:100]!r} is a pattern", "name one queue")
    return found


def milliseconds(given: Mapping[str, str], name: str, default: int) -> int:
    """Return a parameter in milliseconds, or raise WebError."""
    return _number(given, name, default, 0, 2**53)


def _number(given: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    text = given.get(name)
    if text is None:
        return default
    if text.isascii() and text.isdecimal() and len(text) < 20 and low <= int(text) <= high:
        return int(text)
    raise WebError(400, f"{name}={text[:100]} is not a number from {low} to {high}", "change it")


class SendOptions(TypedDict):
    """The options for sending a message."""

    delivery_mode: DeliveryMode
    priority: int
    time_to_live: float


def to_send(given: Mapping[str, str], text: str) -> tuple[TextMessage, SendOptions]:
    """Return the message of a request; unknown parameters become properties."""
    message = TextMessage(text)
    message.correlation_id = given.get("JMSCorrelationID")
    message.type = given.get("JMSType")
    if "JMSReplyTo" in given:
        named_kind(given["JMSReplyTo"])
        message.reply_to = parse_destination(given["JMSReplyTo"])
    mode = given.get("JMSDeliveryMode", "persistent").lower()
    options: SendOptions = {
        "delivery_mode": _DELIVERY.get(mode, DeliveryMode.NON_PERSISTENT),
        "priority": _number(given, "JMSPriority", _PRIORITY, 0, 9),
        "time_to_live": milliseconds(given, "JMSTimeToLive", 0) / 1000,
    }
    for name, value in given.items():
        if name == "JMSXGroupSeq":
            message.properties[name] = _number(given, name, 0, 0, 2**31 - 1)
        elif name not in _OWN | _HEADERS:
            try:
                message.properties[name] = value
            except ValueError as error:  # an empty name
                raise WebError(400, str(error), "name the parameter") from error
    return message, options


_HEADERS: Final = frozenset(
    {"JMSCorrelationID", "JMSDeliveryMode", "JMSPriority", "JMSReplyTo", "JMSTimeToLive", "JMSType"}
)


def response_of(message: Message, given: Mapping[str, str]) -> Response:
    """Return the response for a message: its body, with id, destination, properties as headers.

    As for STOMP, unreadable parts are left out, and `transformation-error` says why: one message
    must not keep a client from the next ones.
    """
    own = {"id": message.message_id or "", "destination": message.destination or ""}
    headers = {name: _header(value) for name, value in own.items()}
    content, media_type = b"", "text/plain"
    try:
        _add_properties(headers, message)
        content, media_type = _content(message, given)
    except JMSException as error:
        logger.warning("%s cannot be read for a client of REST: %s", message.message_id, error)
        headers["transformation-error"] = _header(error.reason)
    return Response(content, 200, headers, media_type)


def _add_properties(headers: dict[str, str], message: Message) -> None:
    size = 0
    for name, value in message.properties.items():
        text = _header(value)
        size += len(name) + len(text)
        if _NAME.fullmatch(name) and name.lower() not in _RESERVED and size <= _HEADERS_SIZE:
            headers[name] = text


def _content(message: Message, given: Mapping[str, str]) -> tuple[bytes, str]:
    """Return the body of a response, and its type."""
    if isinstance(message, TextMessage):
        media_type = "text/plain"
        if given.get("json") == "true":
            media_type = "application/json"
        elif given.get("xml") == "true":
            media_type = "text/xml"
        return (message.text or "").encode("utf-8", "replace"), media_type
    if isinstance(message, BytesMessage):
        return message.get_body(bytes) or b"", "application/octet-stream"
    body = message.decode_body() if hasattr(message, "decode_body") else None
    return json.dumps(body, default=str).encode(), "application/json"


def _header(value: object) -> str:
    return quote(str(value), safe=_PRINTABLE, errors="replace")


_PRINTABLE: Final = "".join(chr(code) for code in range(32, 127) if chr(code) != "%")
"""Characters that headers contain unchanged; others are percent-encoded."""


# The HTTP sessions of REST clients, which consist of a signed cookie. (activemq-edges W7)

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


_MAXIMUM: Final = 200
"""The maximum number of named clients, each with a connection."""
_MAXIMUM_CONSUMERS: Final = 20
"""The maximum number of consumers of one named client."""
_IDLE: Final = 300.0
"""Seconds without a request after which a named client is closed."""


@dataclass(frozen=True, slots=True)
class ClientName:
    """The key of a kept client: the client id of requests, or the id of their session."""

    text: str
    is_session: bool = False

    def __str__(self) -> str:
        return "of this session" if self.is_session else repr(self.text[:100])


class RestClient:
    """A connection as a user, with a session and its consumers."""

    def __init__(self, connection: ActiveMQConnection, session: ActiveMQSession) -> None:
        self._connection = connection
        self.session = session
        self._consumers: dict[tuple[Destination, str | None], ActiveMQMessageConsumer] = {}
        self.busy = False
        self.used = _clock.now()

    @property
    def has_failed(self) -> bool:
        """Whether the broker has closed the connection, for example at an operator's request."""
        return self._connection.failure is not None

    async def consumer(
        self, destination: Destination, selector: str | None
    ) -> ActiveMQMessageConsumer:
        """Return the consumer of a destination, which stays open."""
        key = destination, selector
        found = self._consumers.get(key)
        if found is None:
            if len(self._consumers) >= _MAXIMUM_CONSUMERS:
                raise WebError(
                    429,
                    f"The client has {_MAXIMUM_CONSUMERS} consumers, one for each destination and "
                    "selector",
                    "close it with POST and action=unsubscribe, or use another clientId",
                )
            found = await self.session.create_consumer(destination, selector)
            self._consumers[key] = found
        return found

    async def forget(self, destination: Destination, selector: str | None) -> None:
        """Close a consumer; undelivered messages return to the broker. Idempotent."""
        consumer = self._consumers.pop((destination, selector), None)
        if consumer is not None:
            await consumer.close()

    async def close(self) -> None:
        """Close the connection, logging an error."""
        with anyio.CancelScope(shield=True):
            try:
                await self._connection.close()
            except JMSException as error:
                logger.debug("The connection of a REST client did not close: %s", error)


class RestClients:
    """All connections of REST requests."""

    def __init__(self, service: ManagedBroker) -> None:
        self._service = service
        self._named: dict[tuple[str, ClientName], RestClient] = {}
        self._sweeping: BackgroundTask | None = None

    @asynccontextmanager
    async def client(self, user: WebUser, name: ClientName | None) -> AsyncIterator[RestClient]:
        """Use the client of that name, or a separate one for this request.

        While there are too many clients, a session gets a separate one for each request.
        """
        if name is None or (name.is_session and self._is_full(user, name)):
            client = await self._connect(user)
            try:
                yield client
            finally:
                await client.close()
            return
        client = await self._of_name(user, name)
        if client.busy:
            raise WebError(
                500,
                f"Another request uses the client {name}",
                "wait for its answer, or use another clientId",
            )
        client.busy = True
        try:
            yield client
        finally:
            client.busy = False
            client.used = _clock.now()

    def _is_full(self, user: WebUser, name: ClientName) -> bool:
        return len(self._named) >= _MAXIMUM and (user.name, name) not in self._named

    async def _of_name(self, user: WebUser, name: ClientName) -> RestClient:
        key = user.name, name
        found = self._named.get(key)
        if found is not None and not found.has_failed:
            return found
        if found is not None:
            del self._named[key]
            await found.close()
        await self._evict_session()
        made = await self._connect(user)
        try:
            if key not in self._named:  # otherwise another request was faster
                await self._evict_session()  # others may have been added meanwhile
            found = self._named.setdefault(key, made)
        finally:
            if self._named.get(key) is not made:
                await made.close()
        if self._sweeping is None or self._sweeping.done:
            self._sweeping = spawn(self._sweep, name="REST clients")
        return found

    async def _evict_session(self) -> None:
        """If there are too many clients, end the least recently used session, or raise WebError."""
        while len(self._named) >= _MAXIMUM:
            idle = [
                (client.used, key)
                for key, client in self._named.items()
                if key[1].is_session and not client.busy
            ]
            if not idle:
                raise WebError(
                    503,
                    f"There are {_MAXIMUM} clients with a clientId",
                    "close some with POST and action=unsubscribe, or leave clientId out",
                )
            _, key = min(idle, key=itemgetter(0))
            await self._named.pop(key).close()

    async def _connect(self, user: WebUser) -> RestClient:
        factory = ConnectionFactory(
            f"{self._service.vm_uri}?create=false"
            "&jms.prefetchPolicy.all=1&jms.watchTopicAdvisories=false&jms.alwaysSyncSend=true"
        )
        connection = await factory.create_connection(user.name or None, user.password)
        try:
            session = await connection.create_session(False, AcknowledgeMode.CLIENT)
            await connection.start()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await connection.close()
            raise
        return RestClient(connection, session)

    async def unsubscribe(self, user: WebUser, name: ClientName | None) -> bool:
        """Close the client of that name; return whether there was one."""
        client = None if name is None else self._named.pop((user.name, name), None)
        if client is None:
            return False
        await client.close()
        return True

    async def _sweep(self) -> None:
        while self._named:
            await _clock.sleep(_IDLE / 10)
            now = _clock.now()
            for key, client in list(self._named.items()):
                if not client.busy and now - client.used >= _IDLE:
                    del self._named[key]
                    await client.close()

    async def close(self) -> None:
        """Close all connections."""
        await end_tasks(self._sweeping)
        named, self._named = self._named, {}
        for client in named.values():
            await client.close()

    def __len__(self) -> int:
        return len(self._named)


_T = TypeVar("_T")
_PATH: Final = "/api/message"
_MAXIMUM_WAIT: Final = 20_000
"""The maximum wait for a message in milliseconds; a request may specify less."""


class _MessageRoutes:
    def __init__(self, context: WebContext) -> None:
        self._context = context
        self._clients = RestClients(context.service)
        self._sessions = RestSessions(_PATH)
        context.on_stop(self._clients.close)

    async def send(self, request: Request) -> Response:
        """Send a message, or close a named client (`action=unsubscribe`)."""
        given, text = parameters_of(request, await request.body())
        user = self._context.user(request)
        if given.get("action") == "unsubscribe":
            if await self._clients.unsubscribe(user, self._name(request, user, given)):
                return PlainTextResponse("Unsubscribed")
            raise WebError(404, "There is no client of that clientId", "it may have been idle")
        destination = destination_of(request.path_params.get("name", ""), given)
        message, options = to_send(given, text)
        async with self._clients.client(user, None) as client:
            producer = await client.session.create_producer(destination)

            async def send() -> bool:
                await producer.send(message, **options)
                return True

            if not await self._while_wanted(request, send):  # it waits if there is no space
                raise WebError(503, "The broker stops", "send it again later")
        headers = {"messageID": message.message_id or ""}
        return PlainTextResponse("Message sent", headers=headers)

    async def receive(self, request: Request) -> Response:
        """Receive and acknowledge one message; status 204 if none arrives in time.

        The consumer stays open for requests with the same clientId or the same HTTP session. A
        session begins with the first request that sends the cookie, so a client that sends no
        cookies does not leave a consumer with a prefetched message behind.
        """
        check_origin(request, self._context)  # a GET removes a message
        check_page_is_known(request)
        if request.method == "HEAD":
            raise WebError(405, "HEAD would take a message", "send GET", {"Allow": "GET"})
        given = dict(request.query_params)
        destination = destination_of(request.path_params.get("name", ""), given)
        selector = request.headers.get("selector")
        wait = min(milliseconds(given, "readTimeout", _MAXIMUM_WAIT), _MAXIMUM_WAIT)
        await request.body()
        user = self._context.user(request)
        name = self._name(request, user, given)
        async with self._clients.client(user, name) as client:
            keeps = False
            try:
                consumer = await client.consumer(destination, selector)
                longest = max(wait / 1000, 0.001)
                message = await self._while_wanted(request, lambda: consumer.receive(longest))
                response = Response(status_code=204)
                if message is not None:
                    response = response_of(message, given)  # before the message is gone
                    await message.acknowledge()
                keeps = given.get("oneShot") != "true"
            finally:
                if not keeps:
                    with anyio.CancelScope(shield=True):
                        await client.forget(destination, selector)
        if name is None and keeps:
            self._sessions.begin(request, user, response)
        return response

    def _name(self, request: Request, user: WebUser, given: Mapping[str, str]) -> ClientName | None:
        """Return the name of the client for a request; None: a separate client."""
        if "clientId" in given:
            return ClientName(given["clientId"])
        session = self._sessions.of(request, user)
        return None if session is None else ClientName(session, is_session=True)

    async def _while_wanted(self, request: Request, call: Callable[[], Awaitable[_T]]) -> _T | None:
        """Return the result of a call; None if the broker stops before."""
        result: _T | None = None
        failure: JMSException | None = None
        left = False
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                nonlocal left
                await request.receive()  # after the body, this waits for the end of the connection
                left = True
                tasks.cancel_scope.cancel()

            async def stop() -> None:
                await self._context.stopping.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            tasks.start_soon(stop)
            try:
                result = await call()
            except JMSException as error:
                failure = error  # raised inside the task group, it would become an ExceptionGroup
            tasks.cancel_scope.cancel()
        if left:
            raise ClientDisconnect
        if failure is not None:
            raise failure
        return result


def routes(context: WebContext) -> list[BaseRoute]:
    """Return the routes of messages."""
    context.allow(_PATH, Access.USER)
    served = _MessageRoutes(context)
    return [
        Route(path, endpoint, methods=methods)
        for path in (_PATH, f"{_PATH}/{{name:path}}")
        for endpoint, methods in (
            (served.send, ["POST", "PUT"]),
            (served.receive, ["GET", "DELETE"]),
        )
    ]
