"""Random requests for the broker's web site: Jolokia, messages by REST, logins and cookies.

`python -m tests.kit.web.fuzz jolokia 1000000 [SEED]` sends a million requests, and says from time
to time how much memory the process has; the other kinds are `rest` and `login`.
"""

from __future__ import annotations

import base64
import json
import random
import resource
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import anyio
from anyio.lowlevel import checkpoint

from pyjms.client.connection import ActiveMQConnection
from pyjms.client.factory import ConnectionFactory
from pyjms.enums import AcknowledgeMode
from pyjms.errors import JMSException
from pyjms.jms.destination import Queue, Topic
from pyjms.runtime import clock as _clock
from pyjms_broker.management import Management
from pyjms_broker.service import BrokerService
from tests.kit.brokers.security import simple, user
from tests.kit.web.jolokia_fuzz import JolokiaRequests, Request, damaged
from tests.kit.web.sites import web_broker

TEXTS = [
    "", "x", "queue", "topic", "orders", "queue://orders", "topic://orders", "que://x", "a.>", "*",
    "temp-queue://x", "ActiveMQ.Advisory.Queue", "PyJMS.x", "x?consumer.prefetchSize=5", "0", "-1",
    "9", "10", "99999999999999999999", "5000000000", "true", "unsubscribe", "c1", "c2", "persistent",
    "colour = 'red'", "colour =", "\ud7ff", "\x00", "\r\n", "%", "é", "a,b", "x" * 300, "orders?x=y",
]  # fmt: skip
PARAMETERS = [
    "type", "destination", "body", "clientId", "action", "JMSPriority", "JMSDeliveryMode",
    "JMSTimeToLive", "JMSReplyTo", "JMSType", "JMSCorrelationID", "JMSXGroupID", "JMSXGroupSeq",
    "JMSExpiration", "colour", "two words", "", "oneShot", "json", "xml", "Location", "JMSXUserID",
]  # fmt: skip


def rest_request(chance: random.Random) -> Request:
    path = "/api/message"
    names = GOOD_NAMES if chance.random() < 0.6 else TEXTS
    if chance.random() < 0.8:
        path += "/" + "/".join(chance.choices(names, k=chance.randrange(1, 3)))
    given = {
        name: chance.choice(TEXTS) for name in chance.choices(PARAMETERS, k=chance.randrange(4))
    }
    given["readTimeout"] = chance.choice(["0", "1", "1", "1", "x", "-1"])
    if chance.random() < 0.7:
        given["type"] = chance.choice(["queue", "queue", "topic"])
    if chance.random() < 0.3:
        given["clientId"] = chance.choice(["c1", "c2", "c3"])
    query = "&".join(f"{quote(key)}={quote(value)}" for key, value in given.items())
    headers = [("content-type", chance.choice(["", "x", "application/x-www-form-urlencoded"]))]
    if chance.random() < 0.3:
        headers.append(("selector", chance.choice(["colour = 'red'", "colour =", "x" * 300, ""])))
    if chance.random() < 0.3:
        headers.append(("cookie", chance.choice([*COOKIES, *SESSIONS[-10:]])))
    body = damaged(chance, b"body=hello&colour=red\n") if chance.random() < 0.5 else b"hello"
    return (
        chance.choices(METHODS, (4, 6, 2, 2, 1, 1))[0],
        path,
        query,
        headers,
        body,
    )


SESSIONS: list[str] = []
"""The cookies that answers have set since the last renewal."""
METHODS = ["GET", "POST", "DELETE", "PUT", "HEAD", "X"]
GOOD_NAMES = ["orders", "others", "news", "a", "b"]


def login_request(chance: random.Random) -> Request:
    if chance.random() < 0.4:
        return _login_form(chance)
    pair = chance.choice([GOOD, GOOD, "root:x", ":", "root", "é:é", "\x00:\x00", "x" * 300, ""])
    scheme = chance.choice(["Basic", "basic", "Bearer", "", "Basic Basic"])
    coded = base64.b64encode(pair.encode()) if chance.random() < 0.8 else pair.encode()
    headers = [("authorization", f"{scheme} {coded.decode()}")]
    if chance.random() < 0.5:
        headers.append(("cookie", chance.choice(COOKIES)))
    if chance.random() < 0.3:
        headers.append((chance.choice(["origin", "referer", "sec-fetch-site", "host"]), "[x"))
    if chance.random() < 0.2:
        headers.append(("content-length", chance.choice(["", "x", "-1", "9" * 30, "²"])))
    return (
        chance.choice(["GET", "POST"]),
        chance.choice(["/metrics", "/api/jolokia", "//", "/%", "/admin/", "/admin/login"]),
        "",
        headers,
        b"{}",
    )


GOOD = "root:secret"
COOKIES = [
    "", "x", "pyjms_session=", "pyjms_session=x", "=;=;", "a=\x01", "é", "pyjms_messages=a.b",
    "pyjms_messages=é.é", "pyjms_messages=." + "0" * 64, "pyjms_messages", "pyjms_messages=a\x00.",
]  # fmt: skip
NAMES = ["root", "", "x", "\x00", "é", "root\r\n", "x" * 5000, "*", "${PATH}", "%00", "(uid=*)"]


def _login_form(chance: random.Random) -> Request:
    """The form of the console, with fields that are missing, repeated and damaged."""
    fields = [
        (chance.choice(["name", "name", "password", "next", "token", ""]), chance.choice(NAMES))
        for _ in range(chance.randrange(12))
    ]
    if chance.random() < 0.3:
        fields += [("name", "root"), ("password", "secret")]
    body = urlencode(fields).encode()
    kind = "application/x-www-form-urlencoded"
    if chance.random() < 0.2:
        kind = chance.choice(["multipart/form-data", "multipart/form-data; boundary=x", "", "a/b"])
        body = chance.choice(
            [b"--x\r\n", b'--x\r\nContent-Disposition: form-data; name="name"\r\n']
        )
    if chance.random() < 0.2:
        body = damaged(chance, body)
    headers = [("content-type", kind)]
    if chance.random() < 0.3:
        headers.append(("cookie", chance.choice(COOKIES)))
    return "POST", chance.choice(["/admin/login", "/admin/logout"]), "", headers, body


def _may_enter(request: Request) -> bool:
    """Return whether a request has the right user and password."""
    _, path, _, headers, body = request
    if path in ("/admin/login", "/admin/logout"):
        return b"secret" in body
    given = dict(headers).get("authorization", "").partition(" ")
    return given[0].lower() == "basic" and given[2] == base64.b64encode(GOOD.encode()).decode()


KINDS: dict[str, Callable[[random.Random, Management], Callable[[], Request]]] = {
    "jolokia": JolokiaRequests,
    "rest": lambda chance, _: partial(rest_request, chance),
    "login": lambda chance, _: partial(login_request, chance),
}
"""What makes the requests of each kind, for a broker."""


async def call(app: Any, request: Request) -> tuple[int, bytes]:
    """Send a request to an ASGI application; return status and body of its answer."""
    method, path, query, headers, body = request
    given = [(b"host", b"localhost")] if all(name != "host" for name, _ in headers) else []
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": path, "raw_path": quote(path.encode("utf-8", "replace")).encode(),
        "query_string": query.encode(), "root_path": "", "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8161), "state": {},
        "headers": given + [(k.encode(), v.encode("utf-8", "replace")) for k, v in headers],
    }  # fmt: skip
    sent = False
    status, parts = 0, []

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if sent:
            await anyio.sleep_forever()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
            for name, value in message["headers"]:
                assert b"\n" not in value
                assert b"\r" not in value
                assert name == name.lower()
                if name == b"set-cookie":
                    SESSIONS.append(value.partition(b";")[0].decode())
        else:
            parts.append(message.get("body", b""))

    await app(scope, receive, send)
    return status, b"".join(parts)


async def run(
    kind: str, inputs: int, seed: int = 1, progress: Callable[[int], None] = lambda _: None
) -> dict[int, int]:
    """Send random requests; return how often each status was the answer.

    Fails where an answer is not what docs/http.md promises, or a request hangs. What the requests
    leave behind is removed from time to time, so that the last ones take as long as the first.
    `progress` is called after each with how many there were.
    """
    chance = random.Random(seed)
    found = dict[int, int]()
    # the limit of failed logins would refuse everything after ten
    secured = simple(user("root", "admins"), maximum_failed_logins=0)
    plugins = [secured] if kind == "login" else []
    parts = (*PARTS, "console") if kind == "login" else PARTS
    attributes = {"broker_name": "jolokia", "scheduler_support": True}
    async with web_broker(*plugins, **attributes, web={"parts": parts}) as broker:
        server = broker.service.website._server
        assert server is not None
        app = server.app
        make: Callable[[], Request] | None = None
        prepared = Prepared(broker.service, has_client=kind == "jolokia")
        for number in range(inputs):
            if number % RENEWED == 0:
                await leave(app)
                await prepared.renew()
                make = KINDS[kind](chance, broker.service.management)
            assert make is not None
            request = make()
            await checkpoint()  # a loop that never runs keeps the timers that were cancelled
            with anyio.fail_after(30):
                status, body = await call(app, request)
            check(kind, request, status, body, f"seed {seed}, input {number}: {request}")
            found[status] = found.get(status, 0) + 1
            progress(number + 1)
        await prepared.close()
    return found


def check(kind: str, request: Request, status: int, body: bytes, where: str) -> None:
    """Check that an answer is one that docs/http.md promises."""
    assert status in STATUS[kind], f"{status} {body[:300]!r} for {where}"
    if kind == "jolokia" and status == 200:
        answers = json.loads(body)
        for answer in answers if isinstance(answers, list) else [answers]:
            assert answer["status"] in (200, 400, 403, 404, 500), where
            assert answer.get("error_type") != UNEXPECTED, f"{answer} for {where}"
            JOLOKIA[answer["status"]] += 1
    elif kind == "login" and status in (200, 303) and not _may_enter(request):
        assert request[1].startswith("/admin/"), f"let in: {where}"
        assert b'type="password"' in body or status == 303, f"let in: {where}"
    elif status >= 400 and request[0] != "HEAD" and not request[1].startswith("/admin/"):
        assert json.loads(body)["error"], where


UNEXPECTED = "java.lang.Exception"
"""The kind of an error that operations must not raise: a defect."""
JOLOKIA: Counter[int] = Counter()
"""How often each status was in an answer of Jolokia, whose HTTP status is 200."""
RENEWED = 1000
"""Requests after which the destinations are made again."""


async def leave(app: Any) -> None:
    """Close the clients of /api/message: their consumers of topics would get ever more messages."""
    for name in {"c1", "c2", "c3", *TEXTS}:
        query = f"action=unsubscribe&clientId={quote(name)}"
        await call(app, ("POST", "/api/message", query, [], b""))
    for cookie in SESSIONS:
        await call(app, ("POST", "/api/message", "action=unsubscribe", [("cookie", cookie)], b""))
    del SESSIONS[:-5]


class Prepared:
    """The destinations that the requests name, perhaps a client, and nothing else.

    Args:
        service: the broker.
        has_client: whether there is a client, with consumers and a producer.
    """

    def __init__(self, service: BrokerService, *, has_client: bool) -> None:
        self._service = service
        self._has_client = has_client
        self._client: ActiveMQConnection | None = None

    async def renew(self) -> None:
        """Remove objects that requests have created, and recreate those they have removed."""
        await self.close()
        service, context = self._service, self._service.management.context
        (view,) = service.management.find("*:type=Broker,brokerName=*")
        for name in ("MemoryLimit", "StoreLimit", "TempLimit", "JobSchedulerStoreLimit"):
            view.set(name, 2**30)
        for connector in list(service.connectors):
            await view.invoke("removeConnector", connector.name)
        for network in list(service.networks.connectors):
            await service.networks.remove(network.name)
        if service.job_store is not None:
            (jobs,) = service.management.find("*:service=JobScheduler,*")
            await jobs.invoke("removeAllJobs")
        for each in list(service.region_broker.subscriptions.durable_subscriptions()):
            client_id, subscription_name = each.key
            await view.invoke("destroyDurableSubscriber", client_id, subscription_name)
        for destination in context.destinations():
            service.broker.remove_destination(context.client, destination, 1.0)
        for kind, name in (("Queue", "orders"), ("Queue", "others"), ("Topic", "news")):
            await view.invoke(f"add{kind}", name)
        if self._has_client:
            await self._connect()

    async def _connect(self) -> None:
        factory = ConnectionFactory(f"{self._service.vm_uri}?create=false")
        self._client = await factory.create_connection()
        await self._client.set_client_id("c1")
        session = await self._client.create_session(False, AcknowledgeMode.CLIENT)
        await session.create_durable_subscriber(Topic("news"), "nightly")
        await session.create_consumer(Queue("orders"), "colour = 'red'")
        await session.create_producer(Queue("orders"))
        await session.create_producer(None)

    async def close(self) -> None:
        """Close the client; a request may have closed it already."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(JMSException):
                await client.close()


PARTS = ("jolokia", "message", "metrics")
STATUS = {
    "jolokia": {200, 404},
    "rest": {200, 204, 307, 400, 404, 405, 409, 413, 429},
    "login": {200, 303, 400, 401, 403, 404, 405, 413},
}


def _memory() -> int:
    """Return the memory of this process, in MiB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() // 2**20


async def _main(kind: str, inputs: int, seed: int) -> None:
    began = _clock.now()

    def progress(number: int) -> None:
        if number * 100 // inputs in (1, 10, 25, 50, 75, 100) and number * 100 % inputs == 0:
            print(f"{number}: {_memory()} MiB after {_clock.now() - began:.0f} s", flush=True)

    found = await run(kind, inputs, seed, progress)
    answers = f", of these answers {dict(JOLOKIA)}" if JOLOKIA else ""
    print(f"{found}{answers}: no failure")


if __name__ == "__main__":
    _seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    anyio.run(_main, sys.argv[1], int(sys.argv[2]), _seed)
