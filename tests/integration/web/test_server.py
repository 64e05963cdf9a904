"""The web server: its port, logins, rights, origins and limits."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import trustme
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from pyjms.errors import ConfigurationException, ResourceAllocationException
from pyjms.testing.clock import VirtualClock
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import load_broker_settings
from pyjms_broker.web import Access, WebConfiguration
from pyjms_broker.web.context import Sessions, WebContext
from pyjms_broker.web.user import WebUser
from tests.kit.brokers.security import simple, user
from tests.kit.web.sites import web_broker

USERS = (user("root", "admins"), user("alice", "shop"), user("eve", "watchers"))


def part(context: WebContext) -> list[Route]:
    """A part of the site for these tests."""
    context.allow("/open", Access.ANYBODY)
    context.allow("/mine", Access.USER)

    async def who(request: Request) -> JSONResponse:
        found = context.user(request)
        return JSONResponse({"user": found.name, "access": found.access.name})

    async def echo(request: Request) -> PlainTextResponse:
        return PlainTextResponse(str(len(await request.body())))

    async def form(request: Request) -> PlainTextResponse:
        return PlainTextResponse(context.form_token(request))

    async def submit(request: Request) -> PlainTextResponse:
        context.check_form(request, (await request.body()).decode())
        return PlainTextResponse("done")

    async def login(request: Request) -> JSONResponse:
        name, _, password = (await request.body()).decode().partition(":")
        return JSONResponse({"user": (await context.log_in(request, name, password)).name})

    async def logout(request: Request) -> PlainTextResponse:
        context.log_out(request)
        return PlainTextResponse("bye")

    async def broken(request: Request) -> PlainTextResponse:
        raise ZeroDivisionError("a secret of the program")

    return [
        Route("/open", who, methods=["GET", "POST"]),
        Route("/mine", who, methods=["GET"]),
        Route("/read", who, methods=["GET"]),
        Route("/echo", echo, methods=["POST"]),
        Route("/form", form),
        Route("/form/submit", submit, methods=["POST"]),
        Route("/open/login", login, methods=["POST"]),
        Route("/mine/logout", logout, methods=["GET"]),
        Route("/broken", broken),
    ]


@pytest.fixture(autouse=True)
def installed(install_part: Callable[[str, Any], None]) -> None:
    install_part("tested", part)


WEB: dict[str, Any] = {"parts": ("tested",), "reader_groups": frozenset({"watchers"})}


async def test_a_broker_without_the_section_has_no_web_server() -> None:
    async with BrokerService("plain", persistent=False) as service:
        assert service.website.url is None
    off = WebConfiguration(enabled=False, port=0)
    async with BrokerService("off", persistent=False, web=off) as service:
        assert service.website.url is None


async def test_the_log_says_where_the_web_server_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with web_broker(web=WEB) as broker:
        assert f"Web server started: {broker.url}" in caplog.text
        async with broker.client() as client:
            answer = await client.get("/read")
    assert answer.json() == {"user": "", "access": "ADMINISTRATOR"}
    async with broker.client() as client:
        with pytest.raises(httpx.ConnectError):
            await client.get("/read")


async def test_a_port_in_use_is_an_error_that_names_it() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        service = BrokerService("bound", persistent=False, web=WebConfiguration(port=port))
        with pytest.raises(ResourceAllocationException) as caught:
            await service.start()
    assert f"connector 'web', port {port}" in str(caught.value)
    assert "web: port" in str(caught.value.hint)
    assert not service.started


async def test_other_machines_are_served_only_if_the_broker_has_users() -> None:
    web = WebConfiguration(host="0.0.0.0", port=0)
    service = BrokerService("exposed", persistent=False, web=web)
    with pytest.raises(ConfigurationException, match="Connector 'web' is open to other machines"):
        await service.start()
    async with web_broker(simple(*USERS), web={**WEB, "host": "0.0.0.0"}) as broker:
        port = broker.url.rpartition(":")[2]
        async with broker.client() as client:
            answer = await client.get(f"http://127.0.0.1:{port}/read")
        assert answer.status_code == 401


async def test_logins_are_those_of_the_brokers_users() -> None:
    async with web_broker(simple(*USERS), web=WEB) as broker:
        async with broker.client() as client:
            refused = await client.get("/read")
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"].startswith("Basic ")
            assert refused.json()["hint"]
        for name, path, status in (
            ("root", "/read", 200),
            ("eve", "/read", 200),
            ("alice", "/read", 403),
            ("alice", "/mine", 200),
            ("nobody", "/mine", 401),
            ("root", "/echo", 200),
            ("eve", "/echo", 403),
            ("alice", "/echo", 403),
        ):
            method = "POST" if path == "/echo" else "GET"
            async with broker.client(name) as client:
                answer = await client.request(method, path)
                assert answer.status_code == status, (name, path, answer.text)


@pytest.mark.fact("activemq-edges SE20")
async def test_failed_logins_are_limited_as_elsewhere(caplog: pytest.LogCaptureFixture) -> None:
    async with web_broker(simple(*USERS, maximum_failed_logins=3), web=WEB) as broker:
        async with broker.client("root", "wrong") as client:
            for _ in range(3):
                assert (await client.get("/mine")).status_code == 401
        async with broker.client("root") as client:
            answer = await client.get("/mine")
        async with broker.client("eve") as client:
            assert (await client.get("/mine")).status_code == 200  # others may log in
    assert answer.status_code == 401
    assert "Too many failed logins" in answer.json()["error"]
    assert "at connector web" in caplog.text
    assert "wrong" not in caplog.text


@pytest.mark.parametrize(
    "header", ["Basic", "Basic !", "Basic cm9vdA==", "Bearer x", "Basic /w==", ""]
)
async def test_an_unreadable_login_is_refused(header: str) -> None:
    async with web_broker(simple(*USERS), web=WEB) as broker, broker.client() as client:
        answer = await client.get("/mine", headers={"Authorization": header})
    assert answer.status_code == 401


async def test_a_page_of_another_site_can_change_nothing() -> None:
    web = {**WEB, "allowed_origins": ("https://hawtio.test",)}
    async with web_broker(web=web) as broker, broker.client() as client:
        for headers, status in (
            ({}, 200),
            ({"Origin": broker.url}, 200),
            ({"Origin": "https://hawtio.test"}, 200),
            ({"Origin": "https://evil.test"}, 403),
            ({"Origin": "null"}, 403),
            ({"Sec-Fetch-Site": "cross-site"}, 403),
            ({"Sec-Fetch-Site": "same-origin"}, 200),
            ({"Host": "evil.test", "Origin": "http://evil.test"}, 403),
        ):
            answer = await client.post("/echo", content=b"x", headers=headers)
            assert answer.status_code == status, headers


async def test_a_name_of_the_internet_is_not_this_machine() -> None:
    async with web_broker(web={**WEB, "allowed_hosts": ("broker.test",)}) as broker:
        port = broker.url.rpartition(":")[2]
        async with broker.client() as client:
            for host, status in (
                ("localhost", 200),
                (f"[::1]:{port}", 200),
                ("broker.test", 200),
                ("evil.test", 403),
                ("[", 403),
            ):
                answer = await client.get("/read", headers={"Host": host})
                assert answer.status_code == status, host


async def test_forms_need_the_token_of_their_session() -> None:
    async with web_broker(simple(*USERS), web=WEB) as broker:
        async with broker.client("root") as client:
            token = (await client.get("/form")).text
            assert (await client.get("/form")).text == token
            cookie = client.cookies["pyjms_session"]
            assert (await client.post("/form/submit", content=token)).text == "done"
            assert (await client.post("/form/submit", content="other")).status_code == 403
        async with broker.client("root") as stranger:
            assert (await stranger.post("/form/submit", content=token)).status_code == 403
        async with broker.client(cookies={"pyjms_session": cookie}) as thief:
            assert (await thief.get("/form")).status_code == 401  # the cookie is no login


async def test_a_login_by_form_lasts_until_the_logout() -> None:
    async with web_broker(simple(*USERS), web=WEB) as broker:
        async with broker.client() as client:
            refused = await client.post("/open/login", content="root:wrong")
            assert refused.status_code == 403
            made = await client.post("/open/login", content="root:secret")
            assert made.json() == {"user": "root"}
            cookie = made.headers["set-cookie"]
            assert "HttpOnly" in cookie
            assert "SameSite=Strict" in cookie
            assert (await client.get("/read")).json()["user"] == "root"
            old = client.cookies["pyjms_session"]
            assert (await client.get("/mine/logout")).text == "bye"
            assert (await client.get("/read")).status_code == 401
        async with broker.client(cookies={"pyjms_session": old}) as client:
            assert (await client.get("/read")).status_code == 401


async def test_a_login_ends_without_requests() -> None:
    web = {**WEB, "session_timeout": 60.0}
    async with (
        VirtualClock() as clock,
        web_broker(simple(*USERS), web=web) as broker,
        broker.client() as client,
    ):
        await client.post("/open/login", content="root:secret")
        await clock.advance(59)
        assert (await client.get("/read")).status_code == 200
        await clock.advance(61)
        assert (await client.get("/read")).status_code == 401


async def test_sessions_are_limited_to_a_thousand() -> None:
    sessions = Sessions(60.0)
    kept = sessions.create(WebUser("first"), logged_in=True)
    for number in range(1500):
        assert sessions.get(kept.id) is kept
        sessions.create(WebUser(f"user-{number}"), logged_in=True)
    assert len(sessions) == 1000


@pytest.mark.parametrize("group", ["shop", "admins"])
async def test_the_groups_of_administrators_can_be_set(group: str) -> None:
    web = {**WEB, "admin_groups": frozenset({group})}
    async with web_broker(simple(*USERS), web=web) as broker:
        for name, groups in (("root", "admins"), ("alice", "shop")):
            async with broker.client(name) as client:
                answer = await client.post("/echo")
                assert (answer.status_code == 200) == (groups == group)


async def test_errors_are_json_and_have_no_secrets(caplog: pytest.LogCaptureFixture) -> None:
    async with web_broker(web=WEB) as broker, broker.client() as client:
        answer = await client.get("/broken")
        missing = await client.get("/missing")
        method = await client.delete("/read")
    assert answer.status_code == 500
    assert answer.json()["error"] == "The request has failed"
    assert "secret" not in answer.text
    assert "ZeroDivisionError" in caplog.text
    assert (missing.status_code, missing.json()["path"]) == (404, "/missing")
    assert method.status_code == 405
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_body_that_is_too_large_is_refused() -> None:
    async def parts() -> Any:
        for _ in range(5):
            yield b"x" * 300

    web = {**WEB, "maximum_body_size": 1000}
    async with web_broker(web=web) as broker, broker.client() as client:
        assert (await client.post("/echo", content=b"x" * 1000)).text == "1000"
        assert (await client.post("/echo", content=b"x" * 1001)).status_code == 413
        streamed = await client.post("/echo", content=parts())
    assert streamed.status_code == 413
    assert "maximum_body_size" in streamed.json()["hint"]


async def test_a_request_must_arrive_in_time() -> None:
    async with web_broker(web={**WEB, "request_timeout": 0.2}) as broker:
        host, port = broker.url.removeprefix("http://").split(":")
        async with await anyio.connect_tcp(host, int(port)) as head:
            await head.send(b"GET /read HT")
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                await head.receive()
        async with await anyio.connect_tcp(host, int(port)) as body:
            await body.send(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx")
            assert b" 408 " in await body.receive()


DAMAGED = {
    "after a complete request": b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n"
    b"Connection: close\r\n\r\n\0BAD\r\n\r\n",
    "a negative length": b"POST /api/jolokia HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Length: -1\r\n\r\nGARBAGE\r\n\r\n",
    "no chunk": b"POST /x HTTP/1.1\r\nHost: localhost\r\n"
    b"Transfer-Encoding: chunked\r\n\r\nGET / HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=list(DAMAGED))
async def test_damaged_input_ends_its_connection_and_leaves_no_traceback(
    data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with web_broker() as broker:
        port = int(broker.url.rpartition(":")[2])
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(data)
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                while True:
                    await stream.receive()
    assert [record for record in caplog.records if record.exc_info] == []


GET = "GET {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
UNFINISHED = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"


async def test_an_idle_connection_makes_room_for_a_new_one() -> None:
    async with web_broker(web={**WEB, "maximum_connections": 2}) as broker:
        host, port = broker.url.removeprefix("http://").split(":")
        async with (
            await anyio.connect_tcp(host, int(port)) as first,
            await anyio.connect_tcp(host, int(port)),
            await anyio.connect_tcp(host, int(port)) as third,
        ):
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                await first.receive()
            await third.send(GET.format("/open").encode())
            assert b" 200 " in await third.receive()


async def test_one_address_leaves_room_for_others() -> None:
    async with (
        web_broker(web={**WEB, "maximum_connections": 4}) as broker,
        AsyncExitStack() as all_,
    ):
        host, port = broker.url.removeprefix("http://").split(":")
        busy = []
        for _ in range(3):
            busy.append(
                await all_.enter_async_context(
                    await anyio.connect_tcp(host, int(port), local_host="127.0.0.2")
                )
            )
            await busy[-1].send(UNFINISHED)
        for local, status in (("127.0.0.2", b" 503 "), ("127.0.0.1", b" 200 ")):
            async with await anyio.connect_tcp(host, int(port), local_host=local) as other:
                await other.send(GET.format("/open").encode())
                assert status in await other.receive()


async def test_beyond_the_limit_there_are_only_health_checks() -> None:
    web = {**WEB, "parts": (*WEB["parts"], "health"), "maximum_connections": 1}
    async with web_broker(web=web) as broker:
        host, port = broker.url.removeprefix("http://").split(":")
        async with await anyio.connect_tcp(host, int(port)) as busy:
            await busy.send(UNFINISHED)
            for path, status in (("/health/live", b" 200 "), ("/open", b" 503 ")):
                async with await anyio.connect_tcp(host, int(port)) as other:
                    await other.send(GET.format(path).encode())
                    assert status in await other.receive()
            others = [await anyio.connect_tcp(host, int(port)) for _ in range(12)]
            await busy.send(b"123456789")
            assert b" 200 " in await busy.receive()
            for other in others:
                await other.aclose()


async def test_a_browser_is_sent_to_the_login_page(
    install_part: Callable[[str, Any], None],
) -> None:
    def with_page(context: WebContext) -> list[Route]:
        context.login_page = "/open"
        return part(context)

    install_part("paged", with_page)
    web = {**WEB, "parts": ("paged",)}
    async with web_broker(simple(*USERS), web=web) as broker, broker.client() as client:
        sent = await client.get("/read", headers={"Accept": "text/html"})
        plain = await client.get("/read")
    assert (sent.status_code, sent.headers["location"]) == (303, "/open?next=/read")
    assert plain.status_code == 401


async def test_the_site_over_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / "broker.pem")
    (tmp_path / "broker.yaml").write_text(
        "broker_name: encrypted\npersistent: false\n"
        f"web: {{port: 0, tls: {{key_store: {tmp_path / 'broker.pem'}}}}}\n"
    )
    context = ssl.create_default_context()
    authority.configure_trust(context)
    settings = load_broker_settings(tmp_path / "broker.yaml", environ={})
    async with BrokerService.from_settings(settings) as service:
        url = str(service.website.url).replace("127.0.0.1", "localhost")
        assert url.startswith("https://")
        async with httpx.AsyncClient(verify=context) as client:
            assert (await client.get(f"{url}/health/live")).json() == {"status": "up"}


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_the_web_server_needs_asyncio() -> None:
    service = BrokerService("on-trio", persistent=False, web=WebConfiguration(port=0))
    with pytest.raises(ConfigurationException, match="needs asyncio"):
        await service.start()


async def test_a_part_that_is_not_installed_is_an_error() -> None:
    web = WebConfiguration(port=0, parts=("helth",))
    with pytest.raises(ConfigurationException, match="part 'helth' is not installed") as caught:
        await BrokerService("parts", persistent=False, web=web).start()
    assert "health" in str(caught.value.hint)


async def test_a_page_needs_its_right() -> None:
    async with web_broker(simple(*USERS), web=WEB) as broker, broker.client("alice") as client:
        refused = await client.get("/form")
    assert refused.status_code == 403
    assert "alice is not a reader" in refused.json()["error"]
