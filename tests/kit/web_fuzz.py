"""Random requests for the broker's web site: Jolokia, messages by REST, logins and cookies.

`python -m tests.kit.web_fuzz jolokia 1000000 [SEED]` sends a million requests, and says how much
the process has grown; the other kinds are `rest` and `login`.
"""

from __future__ import annotations

import base64
import json
import random
import resource
import sys
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

import anyio
from anyio.lowlevel import checkpoint

from tests.kit.jolokia import BROKER, ORDERS, QUEUES, TEXT
from tests.kit.security import simple, user
from tests.kit.web import web_broker

Request = tuple[str, str, str, list[tuple[str, str]], bytes]
"""Method, path, query, headers and body."""

WORDS: list[Any] = [
    None, True, 0, -1, 1e300, 2**70, "", "x", "*", "\ud800", "a/b", "!", "!/", "\x00", "é", [], {},
    [None], {"a": [1]}, "x" * 300, BROKER, ORDERS, QUEUES, TEXT, "org.apache.activemq", "QueueSize",
    "Name", "Queues", "MemoryLimit", "browse()", "browse(java.lang.String)", "purge", "pause",
    "resume", "addQueue", "orders", "colour = 'red'", "colour =", "resetStatistics", "ID:none",
    "moveMatchingMessagesTo(java.lang.String,java.lang.String)", "read", "write", "exec", "list",
    "search", "version", "maxDepth", "ignoreErrors", "org.apache.activemq:type=Broker,*", "[null]",
]  # fmt: skip
KEYS = ["type", "mbean", "attribute", "operation", "arguments", "value", "path", "config", "x"]
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


def jolokia_request(chance: random.Random) -> Request:
    path = "/api/jolokia"
    if chance.random() < 0.3:
        parts = [str(chance.choice(WORDS)) for _ in range(chance.randrange(6))]
        return "GET", f"{path}/{'/'.join(parts)}", "", [], b""

    def one() -> Any:
        if chance.random() < 0.05:
            return chance.choice(WORDS)
        keys = chance.sample(KEYS, chance.randrange(len(KEYS)))
        made = {key: chance.choice(WORDS) for key in keys}
        if chance.random() < 0.8:
            made["type"] = chance.choice(["read", "write", "exec", "list", "search", "version"])
            made["mbean"] = chance.choice([BROKER, ORDERS, QUEUES])
        return made

    content = one() if chance.random() < 0.9 else [one() for _ in range(chance.randrange(4))]
    body = json.dumps(content).encode()
    if chance.random() < 0.1:
        body = _damaged(chance, body)
    return "POST", path, "", [], body


def rest_request(chance: random.Random) -> Request:
    path = "/api/message"
    if chance.random() < 0.8:
        path += "/" + "/".join(chance.choices(TEXTS, k=chance.randrange(1, 3)))
    given = {
        name: chance.choice(TEXTS) for name in chance.choices(PARAMETERS, k=chance.randrange(5))
    }
    given["readTimeout"] = chance.choice(["0", "1", "1", "1", "x", "-1"])
    if chance.random() < 0.5:
        given["type"] = "queue"
    query = "&".join(f"{quote(key)}={quote(value)}" for key, value in given.items())
    headers = [("content-type", chance.choice(["", "x", "application/x-www-form-urlencoded"]))]
    if chance.random() < 0.3:
        headers.append(("selector", chance.choice(["colour = 'red'", "colour =", "x" * 300, ""])))
    body = _damaged(chance, b"body=hello&colour=red\n") if chance.random() < 0.5 else b"hello"
    return (
        chance.choice(["GET", "POST", "POST", "DELETE", "PUT", "HEAD", "X"]),
        path,
        query,
        headers,
        body,
    )


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
COOKIES = ["", "x", "pyjms_session=", "pyjms_session=x", "=;=;", "a=\x01", "é"]
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
        body = _damaged(chance, body)
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


def _damaged(chance: random.Random, data: bytes) -> bytes:
    made = bytearray(data)
    for _ in range(chance.randrange(4)):
        if made:
            made[chance.randrange(len(made))] = chance.randrange(256)
    return bytes(made[: chance.randrange(len(made) + 1)]) if chance.random() < 0.3 else bytes(made)


KINDS: dict[str, Callable[[random.Random], Request]] = {
    "jolokia": jolokia_request,
    "rest": rest_request,
    "login": login_request,
}


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
        else:
            parts.append(message.get("body", b""))

    await app(scope, receive, send)
    return status, b"".join(parts)


async def run(kind: str, inputs: int, seed: int = 1) -> dict[int, int]:
    """Send random requests; return how often each status was the answer.

    Fails where an answer is not what docs/http.md promises, or a request hangs.
    """
    chance = random.Random(seed)
    make, found = KINDS[kind], dict[int, int]()
    # the limit of failed logins would refuse everything after ten
    secured = simple(user("root", "admins"), maximum_failed_logins=0)
    plugins = [secured] if kind == "login" else []
    parts = (*PARTS, "console") if kind == "login" else PARTS
    async with web_broker(*plugins, broker_name="jolokia", web={"parts": parts}) as broker:
        server = broker.service.website._server
        assert server is not None
        app = server.app
        for number in range(inputs):
            request = make(chance)
            await checkpoint()  # a loop that never runs keeps the timers that were cancelled
            with anyio.fail_after(30):
                status, body = await call(app, request)
            where = f"seed {seed}, input {number}: {request}"
            assert status in STATUS[kind], f"{status} {body[:300]!r} for {where}"
            if kind == "jolokia" and status == 200:
                answers = json.loads(body)
                for answer in answers if isinstance(answers, list) else [answers]:
                    assert answer["status"] in (200, 400, 404, 500), where
                    assert answer["status"] != 500 or answer["error_type"].startswith(
                        "javax.jms."
                    ), f"{answer} for {where}"
            elif kind == "login" and status in (200, 303) and not _may_enter(request):
                assert request[1].startswith("/admin/"), f"let in: {where}"
                assert b'type="password"' in body or status == 303, f"let in: {where}"
            elif status >= 400 and request[0] != "HEAD" and not request[1].startswith("/admin/"):
                assert json.loads(body)["error"], where
            found[status] = found.get(status, 0) + 1
    return found


PARTS = ("jolokia", "message", "metrics")
STATUS = {
    "jolokia": {200, 404},
    "rest": {200, 204, 307, 400, 404, 405, 409, 413, 429},
    "login": {200, 303, 400, 401, 403, 404, 405, 413},
}


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


async def _main(kind: str, inputs: int, seed: int) -> None:
    await run(kind, min(inputs, 20_000), seed)
    before = _memory()
    found = await run(kind, inputs, seed + 1)
    print(
        f"{found}, no failure; memory {before} MiB after the first 20000, {_memory()} MiB at the end"
    )


if __name__ == "__main__":
    _seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    anyio.run(_main, sys.argv[1], int(sys.argv[2]), _seed)
