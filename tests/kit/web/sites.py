"""Brokers with a web server, and clients of it."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.routing import BaseRoute

from pyjms_broker import entry_points
from pyjms_broker.service import BrokerService
from pyjms_broker.web import WebConfiguration
from pyjms_broker.web.context import WebContext

_numbers = itertools.count(1)


class WebBroker:
    """A running broker with a web server."""

    def __init__(self, service: BrokerService) -> None:
        self.service = service
        url = service.website.url
        assert url is not None
        self.url = url

    def client(self, user: str | None = None, password: str = "secret", **more: Any) -> Any:
        """Return a client that sends its login with each request."""
        auth = None if user is None else (user, password)
        # without TLS, and so without loading the machine's certificates, which takes 30 ms
        return httpx.AsyncClient(base_url=self.url, auth=auth, timeout=20, verify=False, **more)


StartWeb = Callable[..., AbstractAsyncContextManager[WebBroker]]


@asynccontextmanager
async def web_broker(
    *plugins: Any, web: dict[str, Any] | None = None, **attributes: Any
) -> AsyncIterator[WebBroker]:
    """Start a broker with these plug-ins, and with these settings of its web server."""
    service = BrokerService(
        **{"broker_name": f"web-{next(_numbers)}", "persistent": False, **attributes},
        plugins=plugins,
        web=WebConfiguration(**{"port": 0, **(web or {})}),
    )
    async with service:
        yield WebBroker(service)


@pytest.fixture
def install_part(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Any], None]:
    """Make a part of the site known under a name, as an installed distribution would."""
    made: dict[str, Callable[[WebContext], Sequence[BaseRoute]]] = {}
    really_installed, really_load = entry_points.installed_names, entry_points.load

    def installed_names(group: str) -> list[str]:
        return [*really_installed(group), *(made if group == entry_points.WEB_PARTS else ())]

    def load(group: str, name: str) -> object:
        return made[name] if name in made else really_load(group, name)

    monkeypatch.setattr(entry_points, "installed_names", installed_names)
    monkeypatch.setattr(entry_points, "load", load)
    return made.__setitem__
