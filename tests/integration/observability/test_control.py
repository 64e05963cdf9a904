"""Control of listeners over HTTP: mounted, with a token, and on the port of the health checks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import pytest

from pyjms import JmsApplication, PyjmsSettings, jms_listener
from pyjms.testing.app import JmsTestApp
from tests.kit.waiting import until

TOKEN = "sixteen-characters-or-more"


@jms_listener("orders", id="orders")
async def on_order(order: str) -> None: ...


@jms_listener("returns", id="returns")
async def on_return(order: str) -> None: ...


@pytest.fixture
async def client(jms_app: JmsTestApp) -> AsyncIterator[httpx.AsyncClient]:
    application = await jms_app.start(on_order, on_return)
    transport = httpx.ASGITransport(application.control_app())
    async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
        yield client


async def states(client: httpx.AsyncClient) -> dict[str, str]:
    response = await client.get("/listeners")
    assert response.status_code == 200
    return {each["id"]: each["state"] for each in response.json()["listeners"]}


async def test_listeners_are_listed(client: httpx.AsyncClient) -> None:
    first, second = (await client.get("/listeners/")).json()["listeners"]
    assert first == {
        "id": "orders",
        "destination": "orders",
        "state": "running",
        "concurrency": "1-1",
        "consumers": 1,
        "busy": 0,
    }
    assert second["id"] == "returns"


async def test_one_listener_is_paused_and_resumed(
    client: httpx.AsyncClient, jms_app: JmsTestApp
) -> None:
    response = await client.post("/listeners/orders/pause")
    assert [each["id"] for each in response.json()["listeners"]] == ["orders"]
    await until(lambda: jms_app.application.registry["orders"].state.name == "STOPPED")
    assert await states(client) == {"orders": "stopped", "returns": "running"}
    await client.post("/listeners/orders/resume")
    assert await states(client) == {"orders": "running", "returns": "running"}


async def test_all_listeners(client: httpx.AsyncClient, jms_app: JmsTestApp) -> None:
    assert len((await client.post("/listeners/pause")).json()["listeners"]) == 2
    assert not jms_app.application.registry.is_running
    await client.post("/listeners/resume")
    assert set((await states(client)).values()) == {"running"}


async def test_a_listener_is_scaled(client: httpx.AsyncClient) -> None:
    (scaled,) = (await client.post("/listeners/orders/scale?lower=2&upper=5")).json()["listeners"]
    assert (scaled["concurrency"], scaled["consumers"]) == ("2-5", 2)


@pytest.mark.parametrize(
    ("method", "path", "status", "reason"),
    [
        ("GET", "/listeners/orders/pause", 405, "use POST"),
        ("POST", "/listeners", 405, "use GET"),
        ("POST", "/listeners/nobody/pause", 404, "there are: orders, returns"),
        ("POST", "/listeners/orders/explode", 404, "pause, resume or scale"),
        ("POST", "/listeners/scale?lower=2", 404, "pause, resume or scale"),
        ("POST", "/listeners/orders/scale", 422, "needs ?lower=2"),
        ("POST", "/listeners/orders/scale?lower=x", 422, "lower is a number, not 'x'"),
        ("POST", "/listeners/orders/scale?lower=3&upper=2", 422, "is not a range"),
        ("GET", "/elsewhere", 404, "/listeners"),
    ],
)
async def test_what_is_refused(
    client: httpx.AsyncClient, method: str, path: str, status: int, reason: str
) -> None:
    response = await client.request(method, path)
    assert response.status_code == status
    assert reason in response.json()["error"]
    assert set((await states(client)).values()) == {"running"}


@pytest.mark.parametrize("header", [None, "Bearer wrong", f"Basic {TOKEN}", TOKEN])
async def test_a_token_is_asked_for(jms_app: JmsTestApp, header: str | None) -> None:
    application = await jms_app.start(on_order)
    transport = httpx.ASGITransport(application.control_app(TOKEN))
    headers = {"authorization": header} if header else {}
    async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
        response = await client.post("/listeners/pause", headers=headers)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert application.registry.is_running
        good = await client.get("/listeners", headers={"authorization": f"Bearer {TOKEN}"})
        assert good.status_code == 200


@pytest.mark.parametrize("token", [None, TOKEN])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_port_of_the_health_checks(jms_app: JmsTestApp, token: str | None) -> None:
    health: dict[str, Any] = {"port": 0, "host": "127.0.0.1", "control_token": token}
    settings = PyjmsSettings.model_validate({"health": health}).with_broker_url(jms_app.url)
    application = JmsApplication(on_order, settings=settings)
    with anyio.fail_after(30):
        async with application, httpx.AsyncClient(trust_env=False, verify=False) as client:
            url = f"http://127.0.0.1:{application.observation.port}"
            assert (await client.get(f"{url}/health/ready")).status_code == 200
            headers = {"authorization": f"Bearer {TOKEN}"}
            response = await client.post(f"{url}/listeners/orders/pause", headers=headers)
            assert response.status_code == (405 if token is None else 200)
            assert application.registry["orders"].is_running is (token is None)


def test_a_short_token_is_refused() -> None:
    with pytest.raises(ValueError, match="control_token"):
        PyjmsSettings.model_validate({"health": {"control_token": "short"}})
