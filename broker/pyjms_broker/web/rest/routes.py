"""The routes for messages over HTTP. (activemq-edges W6, W7)"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from pyjms.errors import JMSException
from pyjms_broker.web.context import WebContext
from pyjms_broker.web.errors import WebError
from pyjms_broker.web.gate import check_origin
from pyjms_broker.web.rest.clients import ClientName, RestClients
from pyjms_broker.web.rest.messages import (
    destination_of,
    milliseconds,
    parameters_of,
    response_of,
    to_send,
)
from pyjms_broker.web.rest.sessions import RestSessions
from pyjms_broker.web.user import Access, WebUser

__all__ = ["routes"]

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
                await producer.send(
                    message,
                    delivery_mode=options.delivery_mode,
                    priority=options.priority,
                    time_to_live=options.time_to_live,
                )
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
                if message is not None:
                    await message.acknowledge()
                keeps = given.get("oneShot") != "true"
            finally:
                if not keeps:
                    with anyio.CancelScope(shield=True):
                        await client.forget(destination, selector)
        response = Response(status_code=204) if message is None else response_of(message, given)
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
        """Return the result of a call; None if the broker stops before.

        Raises:
            JMSException: the call has failed.
            ClientDisconnect: the client disconnects before.
        """
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
