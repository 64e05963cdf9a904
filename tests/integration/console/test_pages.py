"""What the pages show, of a broker with nothing and of one with something of everything."""

from __future__ import annotations

import re
from contextlib import AsyncExitStack
from html import unescape

import pytest

from pyjms.jms.destination import Queue
from pyjms.testing.clock import VirtualClock
from pyjms.wire.openwire.commands import ActiveMQBytesMessage
from pyjms_broker.service import BrokerService
from tests.kit.clients.raw import RawClient
from tests.kit.web.console import HOSTILE, Console, Live, connected, notice_of

PAGES = (
    *("", "queues", "topics", "subscribers", "connections", "network", "scheduled"),
    *("dead-letters", "send", "warnings", "search", "settings"),
)


@pytest.mark.parametrize("page", PAGES)
async def test_a_page_of_an_empty_broker_says_what_to_do(console: Console, page: str) -> None:
    text = await console.text(page)
    assert "<h1>" in text
    filled = ("", "send")
    assert ('class="empty"' in text) == (page not in filled)


@pytest.mark.fact("activemq-edges W1")
async def test_home_shows_the_broker(console: Console) -> None:
    text = await console.text("")
    for shown in ("Broker demo", "ID:", "Uptime", "seconds", "Memory", "Store", "Temp", "1.0 GiB"):
        assert shown in text


@pytest.mark.fact("activemq-edges W2")
async def test_the_table_of_queues_has_their_counters(console: Console, shop: RawClient) -> None:
    text = await console.text("queues")
    row = text[text.index(">orders<") :].partition("</tr>")[0]
    assert re.findall(r'<td class="n">([\d,]+)</td>', row) == ["61", "0", "61", "0"]
    assert ">Browse<" in row
    assert ">Send<" in row
    for operation in ("Purge", "Pause", "Resume", "Delete"):
        assert f">{operation}<" in text


async def test_tables_are_filtered_sorted_and_paged(
    service: BrokerService, console: Console
) -> None:
    for number in range(70):
        await console.act("create", kind="queue", name=f"line.{number:02d}")
    await console.act("create", kind="queue", name="other")
    first = await console.text("queues", filter="LINE")
    assert "1 to 50 of 70" in first
    assert ">other<" not in first
    second = await console.text("queues", filter="LINE", page="2")
    assert "51 to 70 of 70" in second
    assert ">line.69<" in second
    queue = service.management.view(service.management.context.names.destination(Queue("line.33")))
    await queue.invoke("sendTextMessage", "one")
    sorted_by_pending = await console.text("queues", sort="pending", descending="1")
    row = re.search(r'name=([\w.]+)">line', sorted_by_pending)
    assert row is not None
    assert row[1] == "line.33"
    assert 'aria-sort="descending"' in sorted_by_pending


@pytest.mark.fact("activemq-edges W3")
async def test_subscribers_are_active_offline_or_not_durable(
    console: Console, shop: RawClient
) -> None:
    text = await console.text("subscribers")
    active, offline, plain = text.split("<h2>")[1:]
    assert ">reader" in active
    assert "nightly" in offline
    assert re.search(r'<td class="n">2</td><td class="n">0</td>', offline), "two messages wait"
    assert "delete-subscriber" in offline
    assert "delete-subscriber" not in active + plain
    assert "shop" in plain


async def test_a_connection_shows_its_sessions(console: Console, shop: RawClient) -> None:
    listed = await console.text("connections")
    link = re.search(r'href="/admin/(connection\?id=[^"]+)">shop', listed)
    assert link is not None
    text = await console.text(link[1].replace("&amp;", "&"))
    assert "Session 1" in text
    assert "colour = &#39;red&#39;" in text
    assert ">reader<" in text
    missing = await console.get("connection", id="ID:gone-1")
    assert missing.status_code == 404
    assert "There is no connection ID:gone-1" in notice_of(missing)


async def test_connections_are_filtered_sorted_and_paged(
    service: BrokerService, console: Console
) -> None:
    async with AsyncExitStack() as stack:
        for number in range(53):
            client = await stack.enter_async_context(connected(service, f"client-{number:02}"))
        await client.consumer(Queue("q"))
        await check_connections(console)


async def check_connections(console: Console) -> None:
    first = await console.text("connections")
    assert "1 to 50 of 53" in first
    assert "51 to 53 of 53" in await console.text("connections", page="2")
    one = await console.text("connections", filter="CLIENT-07")
    assert "1 to 1 of 1" in one
    assert ">OpenWire</td>" in one
    assert re.search(r'<td class="time">20\d\d-\d\d-\d\d \d\d:\d\d:\d\d</td>', one)
    last = await console.text("connections", sort="client", descending="1")
    shown = re.findall(r">(client-\d+)</a>", last)
    assert shown[:2] == ["client-52", "client-51"]
    by_consumers = await console.text("connections", sort="consumers", descending="1")
    assert re.findall(r">(client-\d+)</a>", by_consumers)[0] == "client-52"


async def test_connections_show_the_rates_of_their_messages(
    console: Console, shop: RawClient, jms_clock: VirtualClock
) -> None:
    await console.text("connections")
    await shop.send(Queue("orders"), *("x" * 20))
    await jms_clock.advance(10)
    text = await console.text("connections", sort="sent", descending="1")
    row = text.partition(">shop</a>")[2].partition("</tr>")[0]
    assert re.findall(r'<td class="n">([^<]*)</td>', row)[2:] == ["2.0", "0"]


async def test_a_queue_shows_its_consumers_and_producers(console: Console, shop: RawClient) -> None:
    assert "colour = &#39;red&#39;" in await console.text("queue", name="billing")
    assert "ID:test-" in await console.text("queue", name="orders")
    assert "reader" in await console.text("topic", name="news")


@pytest.mark.fact("activemq-edges W4")
async def test_browsing_is_paged_and_filtered(console: Console, shop: RawClient) -> None:
    first = await console.text("browse", queue="orders")
    assert "order number 24<" in first
    assert "order number 25<" not in first
    last = await console.text("browse", queue="orders", page="3")
    assert "the last order" in last
    assert "51 to 61 of 61" in last
    none = await console.text("browse", queue="orders", selector="colour = 'red'")
    assert "No message matches" in none
    wrong = await console.get("browse", queue="orders", selector="colour = = 'red'")
    assert wrong.status_code == 400
    assert "What to do" in notice_of(wrong)
    gone = await console.get("browse", queue="nothing")
    assert gone.status_code == 404
    assert "There is no queue 'nothing'" in notice_of(gone)


async def test_messages_are_found_by_a_text_in_their_bodies(
    console: Console, shop: RawClient
) -> None:
    found = await console.text("browse", queue="orders", body="NUMBER 5")
    assert "1 to 11 of 11" in found  # 5 and 50 to 59
    both = await console.text("browse", queue="orders", body="number 5", selector="TRUE = FALSE")
    assert "No message has this in its body, and matches the selector." in both
    assert "message?queue=maps" in await console.text("search", body=HOSTILE[:20])
    none = await console.text("search", body="number 5", q="prices")
    assert "message?queue" not in none
    assert "message?queue=orders" in await console.text("search", q="the last order")


@pytest.mark.parametrize("kind", ["text", "bytes"])
async def test_a_body_of_json_is_indented(console: Console, shop: RawClient, kind: str) -> None:
    body = '{"id": 7, "items": [1.10, 2]}'
    text = shop.text(await shop.producer(Queue("json")), Queue("json"), body)
    octets = ActiveMQBytesMessage(
        producer_id=text.producer_id,
        destination=text.destination,
        message_id=text.message_id,
        content=body.encode(),
    )
    await shop.request(octets if kind == "bytes" else text)
    browsed = await console.text("browse", queue="json")
    link = re.search(r'href="/admin/(message\?[^"]+)"', browsed)
    assert link is not None
    shown = unescape(await console.text(unescape(link[1])))
    assert '{\n  "id": 7,\n  "items": [\n    1.10,\n    2\n  ]\n}' in shown
    assert body in unescape(await console.text(unescape(f"{link[1]}&raw=1"))) or kind == "bytes"


async def test_home_shows_the_queues_with_the_most_messages(
    console: Console, shop: RawClient
) -> None:
    text = await console.text("")
    names = re.findall(r'<th scope="row"><a href="/admin/queue\?name=([^"]+)"', text)
    assert names[:2] == ["orders", "ActiveMQ.DLQ"]


async def test_scheduled_messages_are_listed(console: Console, shop: RawClient) -> None:
    text = await console.text("scheduled")
    assert "queue://orders" in text
    assert "3,600,000 ms" in text


async def test_dead_letters_have_their_reasons(console: Console, shop: RawClient) -> None:
    text = await console.text("dead-letters")
    assert "refused at once: ValueError in invoices" in text
    assert "timeout after 30 s" not in text  # the whole text is on the message's page
    assert "queue://invoices" in text
    one = await console.text(
        "dead-letters", selector="dlqDeliveryFailureCause LIKE '%timeout%'", queue="ActiveMQ.DLQ"
    )
    assert "1 to 1 of 1" in one
    link = re.search(r'href="/admin/(message\?[^"]+)"', one)
    assert link is not None
    message = await console.text(link[1].replace("&amp;", "&"))
    assert "builtins.ValueError: timeout after 30 s" in message
    for event in ("Sent", "Dead-lettered", "Arrived"):
        assert f"<strong>{event}</strong>" in message


async def test_warnings_say_why(console: Console, shop: RawClient) -> None:
    await console.act("pause", kind="queue", name="prices")
    text = await console.text("warnings")
    for kind, where in (
        ("Paused queue with messages", "prices"),
        ("Dead letters", "ActiveMQ.DLQ"),
        ("Offline subscription with messages", "archive / nightly"),
    ):
        assert re.search(rf"{kind}: <a [^>]*>{where}</a>", text), kind
    assert "2 queues with messages have no consumer" in text
    assert re.search(
        r">orders</a>: it has 61 messages, the oldest for \d+ s, and no consumer", text
    )


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"q": "ORD"}, "queue?name=orders"),
        ({"q": "shop"}, "connection?id="),
        ({"q": "night"}, "topic?name=news"),
        ({"selector": "dlqDeliveryFailureCause LIKE '%timeout%'"}, "message?queue=ActiveMQ.DLQ"),
    ],
    ids=["destination", "client", "subscription", "message"],
)
async def test_search_finds(
    console: Console, shop: RawClient, query: dict[str, str], found: str
) -> None:
    assert found in await console.text("search", **query)


async def test_search_finds_a_message_by_its_id(console: Console, shop: RawClient) -> None:
    browsed = await console.text("browse", queue="prices")
    message_id = re.search(r"<code>(ID:[^<]+)</code>", browsed)
    assert message_id is not None
    assert "message?queue=prices" in await console.text("search", q=message_id[1])


@pytest.mark.parametrize("page", [*PAGES, "search?q=script", "browse?queue=prices"])
async def test_what_clients_send_is_escaped(console: Console, shop: RawClient, page: str) -> None:
    await shop.consumer(Queue(HOSTILE), selector="a = '<script>'")
    response = await console.get(page)
    assert "<script>document" not in response.text
    assert "<img src=x" not in response.text
    assert "selector = '<script>" not in response.text


@pytest.mark.parametrize("queue", ["prices", "maps", "ActiveMQ.DLQ"])
async def test_hostile_messages_are_shown_as_text(
    console: Console, shop: RawClient, queue: str
) -> None:
    browsed = await console.text("browse", queue=queue)
    for link in re.findall(r'href="/admin/(message\?[^"]+)"', browsed):
        text = await console.text(link.replace("&amp;", "&"))
        assert "<script>document" not in text
        assert "<img src=x" not in text
    if queue != "ActiveMQ.DLQ":
        assert "&lt;script&gt;document" in text


async def test_pages_allow_no_foreign_script(console: Console) -> None:
    response = await console.get("queues")
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert re.search(r"<script(?![^>]* src=)", response.text) is None
    assert re.search(r'\s(on\w+|style)="', response.text) is None
    for file in re.findall(r'(?:src|href)="(/admin/static/[^"]+)"', response.text):
        served = await console.client.get(file)
        assert served.status_code == 200
        assert "immutable" in served.headers["cache-control"]


async def test_an_update_has_the_lines_that_changed(console: Console, shop: RawClient) -> None:
    page = Live(console, "queues")
    whole = await page.update()
    assert ">orders<" in page.text
    assert "<html" not in page.text
    assert await page.update() == 0, "nothing has changed"
    await shop.send(Queue("orders"), "one more")
    assert 0 < await page.update() < whole / 4
    assert re.search(r'>orders</a></th>\s*<td class="n">62</td>', page.text)
    fresh = Live(console, "queues")
    await fresh.update()
    assert fresh.text == page.text


async def test_an_update_of_an_unknown_page_is_the_whole_part(
    console: Console, shop: RawClient
) -> None:
    page, other = Live(console, "queues"), Live(console, "queues")
    await page.update()
    other.key = "forgotten"
    await other.update()
    assert other.text == page.text


async def test_names_are_completed(console: Console, shop: RawClient) -> None:
    assert (await console.get("names", q="ORD")).json() == ["orders"]
    assert (await console.get("names", q="new", kind="topic")).json() == ["news"]
    for number in range(40):
        await console.act("create", kind="queue", name=f"x{number:02}.orders")
    found = (await console.get("names", q="orders")).json()
    assert (found[0], len(found)) == ("orders", 30)


async def test_a_consumer_of_a_pattern_is_on_the_pages_of_its_queues(
    console: Console, shop: RawClient
) -> None:
    await shop.destination(Queue("stock.eu"))
    await shop.consumer(Queue("stock.>"))
    text = await console.text("queue", name="stock.eu")
    assert "No client consumes from it now" not in text
    assert re.search(r"<tbody>.*shop", text, re.DOTALL)
