"""nginx with the configuration of docs/proxies.md, in front of a broker."""

from __future__ import annotations

import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import NamedTuple

import anyio
import anyio.to_thread
import httpx
import pytest
import trustme

from pyjms.cli.options import Credentials
from pyjms_broker.cli.management.client import JolokiaClient
from tests.kit.brokers.security import simple, user
from tests.kit.web.sites import WebBroker, web_broker

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
DOCUMENT = Path(__file__).parents[3] / "docs/proxies.md"
AROUND = """
daemon off; master_process off; pid {folder}/pid; error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
{server}
}}
"""

pytestmark = [
    pytest.mark.skipif(
        NGINX is None, reason="nginx is not installed (Debian: apt-get install nginx)"
    )
]


class Site(NamedTuple):
    """The site as clients outside see it."""

    url: str
    trust: Path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def configuration(folder: Path, port: int, upstream: str) -> str:
    """Return the configuration in the document, with the paths and ports of a test."""
    found = re.search(r"```nginx\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    assert found is not None
    server = found[1]
    for old, new in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("/etc/nginx/", f"{folder}/"),
        ("http://127.0.0.1:8161/", f"{upstream}/"),
    ):
        assert old in server
        server = server.replace(old, new)
    return AROUND.format(folder=folder, server=server)


@contextmanager
def nginx(folder: Path, upstream: str) -> Iterator[Site]:
    """Run nginx in front of a web server."""
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    issued.private_key_pem.write_to_path(folder / "broker.key")
    for number, part in enumerate(issued.cert_chain_pems):
        part.write_to_path(folder / "broker.pem", append=number > 0)
    authority.cert_pem.write_to_path(folder / "ca.pem")
    port = free_port()
    (folder / "nginx.conf").write_text(configuration(folder, port, upstream), "utf-8")
    assert NGINX is not None
    with subprocess.Popen([NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf")]) as process:
        try:
            yield Site(f"https://localhost:{port}/broker", folder / "ca.pem")
        finally:
            process.terminate()


async def answer(site: Site, client: httpx.AsyncClient) -> httpx.Response:
    """Return the first page, as soon as nginx listens."""
    while True:
        try:
            return await client.get(f"{site.url}/admin/queues", headers={"Accept": "text/html"})
        except httpx.ConnectError:
            await anyio.sleep(0.02)


async def check(site: Site, broker: WebBroker) -> None:
    """Log in and read a page, as a browser and as the command line."""
    trust = ssl.create_default_context(cafile=site.trust)
    async with httpx.AsyncClient(verify=trust) as client:
        refused = await answer(site, client)
        data = {"name": "root", "password": "secret"}
        headers = {"Origin": site.url.removesuffix("/broker"), "X-Forwarded-For": "203.0.113.9"}
        entered = await client.post(f"{site.url}/admin/login", data=data, headers=headers)
        page = await client.get(f"{site.url}/admin/queues")
    assert refused.headers["location"] == "/broker/admin/login?next=/admin/queues"
    assert entered.headers["location"] == "/broker/admin/"
    assert {"Secure", "Path=/broker/"} <= set(entered.headers["set-cookie"].split("; "))
    assert (page.status_code, 'href="/broker/admin/topics"' in page.text) == (200, True)
    views = JolokiaClient(f"{site.url}/admin/", Credentials("root", "secret"), ca=site.trust)
    name = f"org.apache.activemq:type=Broker,brokerName={broker.service.broker_name}"
    found = await anyio.to_thread.run_sync(views.read, name, "BrokerName")
    assert found["BrokerName"] == broker.service.broker_name


async def test_the_site_behind_nginx(tmp_path: Path) -> None:
    web = {"trusted_proxies": (ip_network("127.0.0.1"),)}
    async with web_broker(simple(user("root", "admins")), web=web) as broker:
        with nginx(tmp_path, broker.url) as site, anyio.fail_after(30):
            await check(site, broker)
