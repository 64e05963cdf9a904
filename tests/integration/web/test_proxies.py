"""Behind a reverse proxy: whose request it is, the client's URL, and what is not believed."""

from __future__ import annotations

import logging
import re
import ssl
from contextlib import AsyncExitStack
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import httpx
import pytest
import trustme

from pyjms.testing.clock import VirtualClock
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import load_broker_settings
from tests.kit.brokers.security import simple, user
from tests.kit.web.sites import web_broker

USERS = (user("root", "admins"), user("eve", "shop"))
PROXY = {"trusted_proxies": (ip_network("127.0.0.1/32"), ip_network("10.0.0.0/8"))}
OUTSIDE = {
    "X-Forwarded-For": "203.0.113.9",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "broker.example.com",
}
PAGES = ("", "queues", "topics", "connections", "subscribers", "warnings", "scheduled", "send")
LOGIN = {"name": "root", "password": "secret"}


@pytest.fixture
def audited(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """The log with the lines of the audit log."""
    caplog.set_level(logging.INFO, "pyjms_broker.audit")
    return caplog


async def address_of_refusal(caplog: pytest.LogCaptureFixture, sent: str, **web: Any) -> str:
    """Return the address in the audit log of a wrong login with `X-Forwarded-For: sent`."""
    async with (
        web_broker(simple(*USERS), web=web) as broker,
        broker.client("root", "wrong") as client,
    ):
        await client.get("/metrics", headers={"X-Forwarded-For": sent})
    addresses = [vars(each).get("address") for each in caplog.records]
    (address,) = [each for each in addresses if each is not None]
    return str(address)


@pytest.mark.fact("activemq-edges W35")
@pytest.mark.parametrize(
    ("sent", "address"),
    [
        ("203.0.113.9", "tcp://203.0.113.9:0"),
        ("203.0.113.9:4711", "tcp://203.0.113.9:0"),
        ("203.0.113.9, 10.1.1.1", "tcp://203.0.113.9:0"),
        ("198.51.100.1, 203.0.113.9, 10.1.1.1", "tcp://203.0.113.9:0"),
        ("unknown, 10.1.1.1", "tcp://10.1.1.1:0"),
        ("10.2.2.2, 10.1.1.1", "tcp://10.2.2.2:0"),
        ("[2001:db8::1]:443", "tcp://2001:db8::1:0"),
    ],
)
async def test_the_audit_log_has_the_clients_address(
    audited: pytest.LogCaptureFixture, sent: str, address: str
) -> None:
    assert await address_of_refusal(audited, sent, **PROXY) == address


@pytest.mark.fact("activemq-edges W35")
@pytest.mark.parametrize("trusted", [(), (ip_network("10.0.0.0/8"),)])
async def test_the_header_of_others_is_not_believed(
    audited: pytest.LogCaptureFixture, trusted: tuple[object, ...]
) -> None:
    address = await address_of_refusal(audited, "203.0.113.9", trusted_proxies=trusted)
    assert address.startswith("tcp://127.0.0.1:")


async def status(client: httpx.AsyncClient, forwarded: str) -> tuple[int, str]:
    """Return the status and the text of a login of the client that a proxy names."""
    answer = await client.get("/metrics", headers={"X-Forwarded-For": forwarded})
    return answer.status_code, answer.text


async def test_failed_logins_count_for_the_client_behind_the_proxy() -> None:
    async with web_broker(simple(*USERS, maximum_failed_logins=3), web=PROXY) as broker:
        async with broker.client("root", "wrong") as client:
            for _ in range(3):
                await status(client, "203.0.113.9")
        async with broker.client("root") as client:
            refused = await status(client, "203.0.113.9")
            invented = await status(client, "198.51.100.7, 203.0.113.9")
            other = await status(client, "203.0.113.10")
    assert (refused[0], "Too many failed logins" in refused[1]) == (401, True)
    assert invented[0] == 401
    assert other[0] == 200


@pytest.mark.fact("activemq-edges W35")
async def test_the_client_uses_https() -> None:
    async with (
        web_broker(simple(*USERS), web=PROXY) as broker,
        broker.client(headers=OUTSIDE) as client,
    ):
        page = "https://broker.example.com"
        entered = await client.post("/admin/login", data=LOGIN, headers={"Origin": page})
        foreign = await client.post(
            "/admin/login", data=LOGIN, headers={"Origin": "https://evil.example.com"}
        )
        inside = await client.post(
            "/admin/login", data=LOGIN, headers={"Origin": broker.url, "X-Forwarded-Proto": "ftp"}
        )
    assert entered.status_code == 303
    assert "; Secure" in entered.headers["set-cookie"]
    assert (foreign.status_code, inside.status_code) == (403, 403)


async def test_a_broker_without_users_is_asked_by_an_allowed_name() -> None:
    allowed = {**PROXY, "allowed_hosts": ("broker.example.com",)}
    async with web_broker(web=allowed) as broker, broker.client(headers=OUTSIDE) as client:
        assert (await client.get("/admin/")).status_code == 200
        named = await client.get("/admin/", headers={"X-Forwarded-Host": "other.example.com"})
    assert named.status_code == 403


@pytest.mark.fact("activemq-edges W35")
async def test_a_page_that_names_this_machine_is_refused_although_it_says_it_is_a_proxy() -> None:
    """A browser on the proxy's machine is believed as the proxy is; it can not change Host."""
    page = {"Host": "evil.example.com", "X-Forwarded-Host": "localhost"}
    async with web_broker(web=PROXY) as broker, broker.client(headers=page) as client:
        answer = await client.get("/api/jolokia/version")
    assert (answer.status_code, "'evil.example.com'" in answer.text) == (403, True)


@pytest.mark.fact("activemq-edges W35")
async def test_the_site_may_be_below_a_path() -> None:
    headers = {**OUTSIDE, "X-Forwarded-Prefix": "/broker"}
    async with (
        web_broker(simple(*USERS), web=PROXY) as broker,
        broker.client(headers=headers) as client,
    ):
        first = await client.get("/", headers={"Accept": "text/html"})
        login = await client.get("/admin/queues", headers={"Accept": "text/html"})
        data = {**LOGIN, "next": "/admin/queues"}
        entered = await client.post("/admin/login", data=data)
        cookie = entered.headers["set-cookie"].partition(";")[0]
        shown = [
            (await client.get(f"/admin/{page}", headers={"Cookie": cookie})).text for page in PAGES
        ]
        without = await client.get(
            "/admin/queues", headers={"Cookie": cookie, "X-Forwarded-Prefix": "//evil.com"}
        )
        slash = await client.get("/admin/queues/", headers={"Cookie": cookie})
    assert slash.headers["location"] == "/broker/admin/queues"
    assert first.headers["location"] == "/broker/admin/login?next=/"
    assert login.headers["location"] == "/broker/admin/login?next=/admin/queues"
    assert entered.headers["location"] == "/broker/admin/queues"
    assert "; Path=/broker/;" in entered.headers["set-cookie"]
    links = [link for text in shown for link in re.findall(r"=[\"'](/[^\"']*)", text)]
    assert {each[:14] for each in links} == {"/broker/admin/"}
    assert "/broker/admin/actions/create" in links
    assert 'href="/admin/queues"' in without.text


async def test_a_trusted_proxy_may_use_all_connections() -> None:
    web = {"trusted_proxies": (ip_network("127.0.0.2"),), "maximum_connections": 4}
    async with web_broker(web=web) as broker, AsyncExitStack() as all_:
        host, port = broker.url.removeprefix("http://").split(":")
        answers: list[anyio.abc.SocketStream] = []
        for _ in range(4):
            stream = await anyio.connect_tcp(host, int(port), local_host="127.0.0.2")
            await all_.enter_async_context(stream)
            await stream.send(
                b"POST /admin/send HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
                if len(answers) < 3
                else b"GET /health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n"
            )
            answers.append(stream)
        assert b" 200 " in await answers[-1].receive()


def certificate(folder: Path) -> ssl.SSLContext:
    """Write a certificate of a new authority; return a context that trusts no other."""
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    issued.private_key_and_cert_chain_pem.write_to_path(folder / "broker.pem")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def is_trusted(client: httpx.AsyncClient, url: str) -> bool:
    """Return whether the client trusts the site's certificate."""
    try:
        return (await client.get(url)).is_success
    except httpx.ConnectError:
        return False


@pytest.mark.fact("activemq-edges W36")
async def test_a_renewed_certificate_is_used_without_a_restart(tmp_path: Path) -> None:
    first = certificate(tmp_path)
    (tmp_path / "broker.yaml").write_text(
        "broker_name: renewed\npersistent: false\n"
        f"web: {{port: 0, tls: {{key_store: {tmp_path / 'broker.pem'}}}}}\n"
    )
    settings = load_broker_settings(tmp_path / "broker.yaml", environ={})
    async with VirtualClock() as clock, BrokerService.from_settings(settings) as service:
        url = str(service.website.url).replace("127.0.0.1", "localhost") + "/health/live"
        async with httpx.AsyncClient(verify=first) as open_, httpx.AsyncClient(verify=first) as old:
            assert (await open_.get(url)).status_code == 200
            second = certificate(tmp_path)
            await clock.advance(2.5)
            async with httpx.AsyncClient(verify=second) as new:
                while not await is_trusted(new, url):  # the file is read in a thread
                    await clock.advance(1)
            assert not await is_trusted(old, url)
            assert (await open_.get(url)).status_code == 200
