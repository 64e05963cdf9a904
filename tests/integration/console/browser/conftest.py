"""A real browser, the console of a furnished broker on a port, and axe-core."""

from __future__ import annotations

import zipfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, async_playwright

from pyjms_broker.network import NetworkConnectorAttributes
from pyjms_broker.service import BrokerService
from pyjms_broker.web import WebConfiguration
from tests.kit.clients.raw import RawClient
from tests.kit.servers.java_programs import maven_class_path
from tests.kit.waiting import until
from tests.kit.web.console import furnished

CHROMIUM = Path("/usr/bin/chromium")
PATIENCE = 20_000
"""Milliseconds that the browser waits for what a test expects."""


@pytest.fixture
async def service() -> AsyncIterator[BrokerService]:
    service = BrokerService(
        "demo", persistent=False, scheduler_support=True, web=WebConfiguration(port=0)
    )
    async with service:
        yield service


@pytest.fixture
async def shop(service: BrokerService) -> AsyncIterator[RawClient]:
    """A client of the broker, which has something of everything, bridges to two brokers included."""
    async with AsyncExitStack() as stack:
        for options in (
            NetworkConnectorAttributes(name="to-berlin"),
            NetworkConnectorAttributes(name="to-madrid", duplex=True, message_ttl=2),
        ):
            name = options.name.removeprefix("to-")
            remote = await stack.enter_async_context(BrokerService(name, persistent=False))
            uri = f"static:({remote.vm_uri}?create=false)"
            connector = service.add_network_connector(uri, options)
            connector.start()
            stack.push_async_callback(connector.stop)
        await until(lambda: len(service.networks.bridges) == 2)
        stopped = NetworkConnectorAttributes(name="to-nowhere")
        service.add_network_connector("static:(tcp://127.0.0.1:1)", stopped)
        yield await stack.enter_async_context(furnished(service))


@pytest.fixture(scope="module")
def chromium() -> Path:
    if not CHROMIUM.exists():
        pytest.skip("no chromium: apt-get install chromium")
    return CHROMIUM


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """The only loop that Playwright runs on, one for all tests, as long as their browser."""
    return "asyncio"


@pytest.fixture(scope="module")
async def browser(chromium: Path) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        await browser.close()


@pytest.fixture
async def page(service: BrokerService, shop: RawClient, browser: Browser) -> AsyncIterator[Page]:
    """A page of the browser; what its console reports as an error fails the test."""
    errors: list[str] = []
    context = await browser.new_context(
        base_url=service.website.url, viewport={"width": 1280, "height": 900}
    )
    page = await context.new_page()
    page.set_default_timeout(PATIENCE)
    page.on(
        "console", lambda message: errors.append(message.text) if message.type == "error" else None
    )
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    await context.close()
    assert errors == []


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core."""
    try:
        found = maven_class_path(Path(__file__).parent / "pom.xml")
    except LookupError as error:
        pytest.skip(f"axe-core: apt-get install maven, and reach Maven Central: {error}")
    with zipfile.ZipFile(found) as jar:
        name = next(each for each in jar.namelist() if each.endswith("/axe.min.js"))
        return jar.read(name).decode()
