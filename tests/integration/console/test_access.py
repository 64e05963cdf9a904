"""The rights to view the console and to change things, with and without users."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import httpx
import pytest

from pyjms.jms.destination import Queue
from pyjms_broker.service import BrokerService
from tests.kit.brokers.security import simple, user
from tests.kit.web.console import Console, console_of, notice_of


@pytest.fixture
async def secured() -> AsyncIterator[Console]:
    users = simple(user("ann", "admins"), user("rita", "readers"), user("joe", "users"))
    service = BrokerService("secured", persistent=False, plugins=[users])
    async with service, console_of(service, reader_groups=frozenset({"readers"})) as console:
        yield console


async def log_in(
    console: Console, name: str, password: str = "secret", **more: str
) -> httpx.Response:
    data = {"name": name, "password": password, **more}
    return await console.client.post("/admin/login", data=data)


async def test_a_browser_without_login_gets_the_form(secured: Console) -> None:
    response = await secured.client.get("/admin/queues", headers={"accept": "text/html"})
    assert response.status_code == 303
    assert response.headers["location"] == "/admin/login?next=/admin/queues"
    form = await secured.client.get(response.headers["location"])
    assert 'name="next" value="/admin/queues"' in form.text
    assert "secured" not in form.text, "the broker's name is for users"


async def test_an_administrator_logs_in_and_out(secured: Console) -> None:
    response = await log_in(secured, "ann", next="/admin/queues")
    assert (response.status_code, response.headers["location"]) == (303, "/admin/queues")
    cookie = response.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite" in cookie
    created = await secured.act("create", kind="queue", name="orders")
    assert "was created" in notice_of(created)
    assert Queue("orders") in secured.service.region_broker.destinations()
    await secured.client.post("/admin/logout", data={"token": await secured.token()})
    assert (await secured.get("queues")).status_code == 401


@pytest.mark.parametrize(
    "target", ["//evil.example", "https://evil.example/", "/other", "/admin/../x"]
)
async def test_a_login_leads_to_the_console_alone(secured: Console, target: str) -> None:
    response = await log_in(secured, "ann", next=target)
    assert response.headers["location"] == "/admin/"


async def test_a_wrong_password_is_reported_on_the_form(secured: Console) -> None:
    response = await log_in(secured, "ann", "<wrong>")
    assert response.status_code == 401
    assert "invalid" in notice_of(response)
    assert "wrong" not in response.text
    assert (await secured.get("queues")).status_code == 401


async def test_a_reader_sees_everything_and_changes_nothing(secured: Console) -> None:
    await log_in(secured, "ann")
    await secured.act("create", kind="queue", name="orders")
    await log_in(secured, "rita")
    text = await secured.text("queues")
    assert ">orders<" in text
    assert "Delete" not in text
    token = re.search(r'name="token" value="([^"]+)"', text)
    assert token is not None
    fields = {"token": token[1], "kind": "queue", "name": "orders"}
    for path in ("actions/delete", "actions/create", "send"):
        response = await secured.client.post(f"/admin/{path}", data=fields)
        assert response.status_code == 403
    assert "actions/delete" not in await secured.text(
        "confirm", action="delete", kind="queue", name="orders"
    )
    assert Queue("orders") in secured.service.region_broker.destinations()


async def test_other_users_see_nothing(secured: Console) -> None:
    await log_in(secured, "joe")
    for page in ("", "queues", "message?queue=a&id=b", "confirm?action=purge&name=a"):
        assert (await secured.get(page)).status_code == 403


async def test_a_page_of_another_site_can_do_nothing(secured: Console) -> None:
    await log_in(secured, "ann")
    fields = {"token": await secured.token(), "kind": "queue", "name": "orders"}
    headers = {"origin": "https://evil.example"}
    response = await secured.client.post("/admin/actions/create", data=fields, headers=headers)
    assert response.status_code == 403
    assert Queue("orders") not in secured.service.region_broker.destinations()


async def test_the_notice_of_one_user_is_not_for_another(secured: Console) -> None:
    await log_in(secured, "ann")
    data = {"token": await secured.token(), "kind": "queue", "name": "orders"}
    sent = await secured.client.post("/admin/actions/create", data=data)
    await log_in(secured, "rita")
    assert not notice_of(await secured.client.get(sent.headers["location"]))
