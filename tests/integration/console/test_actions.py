"""The effects of the forms, and their messages."""

from __future__ import annotations

import re
from html import unescape

import pytest

from pyjms.jms.destination import Queue, Topic
from pyjms.wire.openwire.commands import ConsumerControl
from pyjms_broker.management.views.clients import clients
from pyjms_broker.service import BrokerService
from tests.kit.clients.raw import RawClient
from tests.kit.waiting import until
from tests.kit.web.console import HOSTILE, Console, console_of, notice_of

ORDERS = {"kind": "queue", "name": "orders"}
DEAD = {"kind": "queue", "name": "ActiveMQ.DLQ"}


def size(service: BrokerService, queue: str) -> int:
    return service.region_broker.destinations()[Queue(queue)].statistics.messages


def ids(text: str) -> list[str]:
    return re.findall(r'type="checkbox" form="bulk" name="id" value="(ID:[^"]+)"', text)


async def first_id(console: Console, queue: str) -> str:
    return ids(await console.text("browse", queue=queue))[0]


@pytest.mark.fact("activemq-edges W5")
@pytest.mark.parametrize("kind", ["queue", "topic"])
async def test_destinations_are_created_and_deleted(
    service: BrokerService, console: Console, kind: str
) -> None:
    name = Queue(HOSTILE) if kind == "queue" else Topic(HOSTILE)
    created = await console.act("create", kind=kind, name=HOSTILE, back=f"{kind}s")
    assert notice_of(created) == f"The {kind} {HOSTILE} was created."
    assert name in service.region_broker.destinations()
    deleted = await console.act("delete", kind=kind, name=HOSTILE, back=f"{kind}s")
    assert notice_of(deleted) == f"The {kind} {HOSTILE} was deleted."
    assert name not in service.region_broker.destinations()


async def test_a_notice_is_shown_once(console: Console) -> None:
    created = await console.act("create", kind="queue", name="a")
    assert notice_of(created)
    assert not notice_of(await console.client.get(created.url))


async def test_purging_says_how_many_before_and_after(
    service: BrokerService, console: Console, shop: RawClient
) -> None:
    await shop.consumer(Queue("orders"), prefetch_size=3)
    for _ in range(3):
        await shop.dispatched()
    asked = await console.text("confirm", action="purge", **ORDERS)
    assert "58 messages will be deleted" in asked
    assert "3 messages in flight to consumers will stay" in asked
    assert size(service, "orders") == 61
    purged = await console.act("purge", **ORDERS)
    assert notice_of(purged).startswith("58 messages of orders were deleted. 3 messages")
    assert size(service, "orders") == 3


async def test_a_question_about_nothing_has_no_button(console: Console) -> None:
    await console.act("create", **ORDERS)
    asked = await console.text("confirm", action="purge", **ORDERS)
    assert "There is nothing to do" in asked
    assert "actions/purge" not in asked


async def test_a_queue_is_paused_and_resumed(
    service: BrokerService, console: Console, shop: RawClient
) -> None:
    assert "is paused" in notice_of(await console.act("pause", **ORDERS))
    await shop.consumer(Queue("orders"))
    await shop.nothing_dispatched()
    assert "dispatches messages again" in notice_of(await console.act("resume", **ORDERS))
    await shop.dispatched()


async def test_counters_are_reset(console: Console, shop: RawClient) -> None:
    await console.act("reset", **ORDERS)
    row = (await console.text("queues")).partition(">orders<")[2].partition("</tr>")[0]
    assert re.findall(r'<td class="n">([\d,]+)</td>', row) == ["61", "0", "0", "0"]


@pytest.mark.parametrize(
    ("action", "there", "left"), [("copy-message", 1, 1), ("move-message", 1, 0)]
)
async def test_a_message_is_copied_or_moved(
    service: BrokerService, console: Console, shop: RawClient, action: str, there: int, left: int
) -> None:
    message_id = await first_id(console, "prices")
    fields = {"kind": "queue", "name": "prices", "id": message_id, "target": "other"}
    assert "to other" in notice_of(await console.act(action, **fields))
    assert (size(service, "other"), size(service, "prices")) == (there, left)


async def test_a_message_is_deleted(
    service: BrokerService, console: Console, shop: RawClient
) -> None:
    fields = {"kind": "queue", "name": "prices", "id": await first_id(console, "prices")}
    assert "cannot be undone" in await console.text("confirm", action="delete-message", **fields)
    assert "was deleted" in notice_of(await console.act("delete-message", **fields))
    assert size(service, "prices") == 0
    again = notice_of(await console.act("delete-message", **fields))
    assert "was not deleted" in again
    assert "What to do" in again


async def test_a_dead_letter_is_retried(
    service: BrokerService, console: Console, shop: RawClient
) -> None:
    dead = ids(await console.text("dead-letters"))
    await console.act("retry-message", **DEAD, id=dead[0])
    assert (size(service, "invoices"), size(service, "ActiveMQ.DLQ")) == (1, 1)


async def test_all_dead_letters_are_retried(
    service: BrokerService, console: Console, shop: RawClient
) -> None:
    assert "2 messages" in await console.text("confirm", action="retry-all", **DEAD)
    retried = notice_of(await console.act("retry-all", **DEAD))
    assert retried == "2 messages of ActiveMQ.DLQ were sent to the original destinations."
    assert (size(service, "invoices"), size(service, "shipping")) == (1, 1)


async def test_several_queues_are_told_before_they_are_purged(
    service: BrokerService, console: Console, shop: RawClient
) -> None:
    fields = {"kind": "queue", "name": ["orders", "prices"]}
    asked = await console.post("confirm", action="purge", **fields)
    assert "62 messages will be deleted" in asked.text
    assert "orders, prices." in asked.text
    assert asked.text.count('name="name" value=') == 2
    assert (size(service, "orders"), size(service, "prices")) == (61, 1)
    purged = await console.act("purge", **fields)
    assert notice_of(purged) == "62 messages of 2 queues were deleted."
    assert (size(service, "orders"), size(service, "prices")) == (0, 0)


async def test_what_fails_of_several_is_told_and_the_rest_is_done(
    service: BrokerService, console: Console, shop: RawClient
) -> None:
    paused = await console.act("pause", kind="queue", name=["gone", "orders"])
    assert "1 of 2 failed; gone: There is no queue 'gone'" in notice_of(paused)
    assert "paused" in await console.text("queue", name="orders")


@pytest.mark.parametrize(
    ("action", "target", "asked", "done", "left"),
    [
        ("delete-message", "", "Delete 2 messages of orders?", "2 messages of orders were", 59),
        ("move-message", "x", "Move 2 messages of orders to x?", "were moved to x.", 59),
        ("copy-message", "x", "Copy 2 messages of orders to x?", "were copied to x.", 61),
    ],
)
async def test_selected_messages_are_told_before_they_are_changed(
    service: BrokerService,
    console: Console,
    shop: RawClient,
    action: str,
    target: str,
    asked: str,
    done: str,
    left: int,
) -> None:
    chosen = ids(await console.text("browse", queue="orders"))[3:5]
    fields = {**ORDERS, "id": chosen, "target": target}
    assert asked in (await console.post("confirm", action=action, **fields)).text
    assert size(service, "orders") == 61
    assert done in notice_of(await console.act(action, **fields))
    assert size(service, "orders") == left
    there = set(ids(await console.text("browse", queue="orders"))) & set(chosen)
    assert (left == 61) == bool(there)


async def test_a_selected_message_that_has_left_is_told(console: Console, shop: RawClient) -> None:
    chosen = ids(await console.text("browse", queue="orders"))[:2]
    deleted = await console.act("delete-message", **ORDERS, id=[chosen[0], "ID:gone"])
    assert "1 of 2 messages were not deleted: in flight to a consumer" in notice_of(deleted)


@pytest.mark.parametrize(
    ("action", "fields", "problem"),
    [
        ("purge", {"kind": "queue"}, "Nothing is selected"),
        ("delete-message", ORDERS, "Nothing is selected"),
        ("close-connection", {}, "Nothing is selected"),
        ("move-message", {**ORDERS, "id": "ID:1"}, "The field target is empty"),
    ],
)
async def test_a_question_about_nothing_returns_to_the_page(
    console: Console, shop: RawClient, action: str, fields: dict[str, str], problem: str
) -> None:
    back = await console.post("confirm", action=action, back="browse?queue=orders", **fields)
    assert problem in notice_of(back)
    assert back.url.path == "/admin/browse"


@pytest.mark.fact("activemq-edges W5")
async def test_a_question_needs_the_token_too(console: Console, shop: RawClient) -> None:
    data = {"action": "purge", "token": "wrong", **ORDERS}
    assert (await console.client.post("/admin/confirm", data=data)).status_code == 403


async def test_a_group_of_dead_letters_is_retried_with_a_rate(
    service: BrokerService, console: Console, shop: RawClient
) -> None:
    group = {**DEAD, "reason": "refused at once: ValueError in invoices"}
    asked = await console.text("confirm", action="retry-group", **group)
    assert 'name="rate"' in asked
    assert "Retry 1 message" in asked
    started = await console.act("retry-group", **group, rate="100")
    assert "100 a second" in notice_of(started)
    await until(lambda: size(service, "ActiveMQ.DLQ") == 1)
    assert size(service, "invoices") == 1
    wrong = await console.act("retry-group", **group, rate="fast")
    assert "The field rate is 'fast'" in notice_of(wrong)


async def test_a_slow_retry_is_shown_and_stopped(
    service: BrokerService, console: Console, shop: RawClient
) -> None:
    await console.act("retry-all", **DEAD, rate="0.001")
    await until(lambda: size(service, "ActiveMQ.DLQ") == 1)
    assert "Retrying all: 1 sent, one in 1,000 s." in await console.text("dead-letters")
    again = await console.act("retry-all", **DEAD, rate="5")
    assert "are retried already" in notice_of(again)
    stopped = await console.act("stop-retry", name="ActiveMQ.DLQ")
    assert notice_of(stopped) == "The retry of ActiveMQ.DLQ was stopped: 1 message was sent."
    assert "Retrying" not in await console.text("dead-letters")
    none = await console.act("stop-retry", name="ActiveMQ.DLQ")
    assert "No retry of ActiveMQ.DLQ goes on" in notice_of(none)


@pytest.mark.fact("activemq-edges JX11")
async def test_one_consumer_is_closed_from_the_page_of_its_queue(
    console: Console, shop: RawClient
) -> None:
    text = await console.text("queue", name="billing")
    link = re.search(r'href="/admin/(confirm\?action=close-consumer[^"]+)"', text)
    assert link is not None
    asked = await console.text(unescape(link[1]))
    assert "Close the consumer of shop on billing?" in asked
    view = re.search(r'name="view" value="([^"]+)"', asked)
    assert view is not None
    closed = await console.act("close-consumer", view=unescape(view[1]))
    assert "The consumer of shop on billing is being closed" in notice_of(closed)
    assert isinstance(await shop.heard(ConsumerControl), ConsumerControl)


async def test_messages_that_match_are_moved(
    service: BrokerService, console: Console, shop: RawClient
) -> None:
    fields = {**DEAD, "target": "later", "selector": "dlqDeliveryFailureCause LIKE '%timeout%'"}
    asked = await console.text("confirm", action="move-all", **fields)
    assert "are moved: 1 message." in asked
    assert ">Move 1 message<" in asked
    moved = notice_of(await console.act("move-all", **fields))
    assert moved == "1 message of ActiveMQ.DLQ was moved to later."
    assert size(service, "later") == 1


async def test_a_subscription_is_created(console: Console, service: BrokerService) -> None:
    fields = {"client_id": "c", "subscription": "s", "topic": "news"}
    created = await console.act("create-subscriber", **fields, selector="colour = 'red'")
    assert notice_of(created) == "The subscription s of c to news was created."
    await console.act("create-subscriber", **{**fields, "subscription": "all"})
    offline = (await console.text("subscribers")).split("<h2>")[2]
    assert "<code>colour = &#39;red&#39;</code>" in offline
    assert ">all</td>" in offline
    wrong = await console.act("create-subscriber", **fields, selector="= =")
    assert "What to do" in notice_of(wrong)
    missing = await console.act("create-subscriber", client_id="c", topic="news")
    assert "The field subscription is empty" in notice_of(missing)


async def test_an_offline_subscription_is_deleted(console: Console, shop: RawClient) -> None:
    fields = {"client_id": "archive", "subscription": "nightly"}
    asked = await console.text("confirm", action="delete-subscriber", **fields)
    assert "2 messages kept for it will be lost" in asked
    await console.act("delete-subscriber", **fields)
    assert "nightly" not in await console.text("subscribers")
    gone = await console.get("confirm", action="delete-subscriber", **fields)
    assert gone.status_code == 404


async def test_a_connection_is_closed(
    service: BrokerService, console: Console, shop: RawClient
) -> None:
    listed = await console.text("connections")
    found = re.search(r'name="id" value="([^"]+)"', listed)
    assert found is not None
    asked = await console.text("confirm", action="close-connection", id=found[1])
    assert "It has 3 consumers and " in asked
    (client,) = clients(service.management.context)
    transport = client.transport
    closed = await console.act("close-connection", id=found[1])
    assert "The connection shop is being closed" in notice_of(closed)
    await transport.wait_stopped()
    assert ">shop<" not in await console.text("connections")


async def test_a_scheduled_message_is_deleted(console: Console, shop: RawClient) -> None:
    listed = await console.text("scheduled")
    job = re.search(r'name="id" value="([^"]+)"', listed)
    assert job is not None
    assert "cannot be undone" in await console.text("confirm", action="delete-job", id=job[1])
    assert "was deleted" in notice_of(await console.act("delete-job", id=job[1]))
    assert "No message is scheduled" in await console.text("scheduled")
    assert "There is no scheduled message" in notice_of(await console.act("delete-job", id=job[1]))


@pytest.mark.fact("activemq-edges W4")
async def test_sending_sets_headers_properties_and_numbers(
    service: BrokerService, console: Console
) -> None:
    sent = await console.post(
        "send",
        destination="incoming",
        type="queue",
        correlation_id="c1",
        persistent="1",
        reply_to="topic://answers",
        priority="7",
        jms_type="order",
        time_to_live="60000",
        group="g",
        group_sequence="3",
        count="2",
        counter="number",
        properties="colour=red\nsize:int=5\nbig:long=6\nshare:double=0.5\ngood:boolean=true",
        body=HOSTILE,
    )
    assert notice_of(sent) == "2 messages were sent to queue incoming."
    first, second = service.region_broker.destinations()[Queue("incoming")].messages()
    message = first.message
    assert (message.correlation_id, message.type, message.priority) == ("c1", "order", 7)
    assert (message.group_id, message.group_sequence, message.persistent) == ("g", 3, True)
    assert message.reply_to == Topic("answers")
    assert message.expiration - message.timestamp == 60_000
    expected = {"colour": "red", "size": 5, "big": 6, "share": 0.5, "good": True}
    assert first.properties == {**expected, "number": 1}
    assert second.properties == {**expected, "number": 2}
    page = await console.text("message", queue="incoming", id=str(first.message_id))
    assert "&lt;script&gt;" in page


async def test_a_delayed_message_is_scheduled(service: BrokerService, console: Console) -> None:
    await console.post("send", destination="later", type="queue", delay="60000", body="x")
    await console.post("send", destination="later", type="queue", cron="0 3 * * *", body="x")
    text = await console.text("scheduled")
    assert "60,000 ms" in text
    assert "0 3 * * *" in text
    assert size(service, "later") == 0


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"destination": ""}, "The field destination is empty"),
        ({"count": "0"}, "The field count is '0'"),
        ({"count": "1001"}, "The field count is '1001'"),
        ({"priority": "high"}, "The field priority is 'high'"),
        ({"properties": "colour"}, "no property in line 1"),
        ({"properties": "a=1\nn:int=x"}, "no int in line 2"),
        ({"cron": "nonsense"}, "cron"),
    ],
    ids=["destination", "none", "too-many", "priority", "property", "number", "cron"],
)
async def test_what_cannot_be_sent_is_shown_with_the_form(
    console: Console, fields: dict[str, str], problem: str
) -> None:
    form = {"destination": "incoming", "type": "queue", "body": "keep <me>", **fields}
    response = await console.post("send", **form)
    assert response.status_code == 422
    assert problem in notice_of(response)
    assert "What to do" in notice_of(response)
    assert "keep &lt;me&gt;" in response.text


async def test_a_schedule_needs_a_scheduler() -> None:
    async with (
        BrokerService("plain", persistent=False, scheduler_support=False) as plain,
        console_of(plain) as console,
    ):
        response = await console.post("send", destination="a", type="queue", delay="5", body="x")
        assert "no scheduler" in notice_of(response)
        assert "scheduler_support" in await console.text("scheduled")


@pytest.mark.parametrize(
    "back", ["//evil.example", "https://evil.example", "queues\r\nx: y", "../x"]
)
async def test_an_action_returns_to_the_console_alone(console: Console, back: str) -> None:
    data = {"token": await console.token(), **ORDERS, "back": back}
    response = await console.client.post("/admin/actions/create", data=data)
    assert response.status_code == 303
    assert response.headers["location"].startswith("/admin/queues?notice=")


@pytest.mark.fact("activemq-edges W5")
@pytest.mark.parametrize("token", ["", "wrong"])
async def test_a_form_without_its_token_is_refused(
    service: BrokerService, console: Console, token: str
) -> None:
    await console.token()
    for path, fields in (("actions/create", ORDERS), ("send", {"destination": "orders"})):
        response = await console.client.post(f"/admin/{path}", data={"token": token, **fields})
        assert response.status_code == 403
        assert "token" in notice_of(response)
    assert Queue("orders") not in service.region_broker.destinations()


async def test_actions_are_not_for_get(console: Console) -> None:
    response = await console.get("actions/create", **ORDERS)
    assert response.status_code == 405


async def test_an_unknown_action_is_an_error_page(console: Console) -> None:
    response = await console.act("explode")
    assert response.status_code == 404
    assert "There is no action 'explode'" in notice_of(response)
