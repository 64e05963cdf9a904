"""Acknowledge modes, transactions and subscriptions of STOMP clients."""

from __future__ import annotations

import pytest

from tests.kit.stomp.client import StompBroker, StompClient

ORDERS = "/queue/orders"


async def fill(client: StompClient, *texts: str, destination: str = ORDERS, **headers: str) -> None:
    for text in texts:
        await client.done("SEND", {"destination": destination, **headers}, text)


def ack_headers(client: StompClient, frame: object) -> dict[str, str]:
    """What names the message of a MESSAGE frame in an ACK, by version."""
    headers = frame.headers  # type: ignore[attr-defined]
    if client.version == "1.2":
        return {"id": headers["ack"]}
    if client.version == "1.1":
        return {"message-id": headers["message-id"], "subscription": headers["subscription"]}
    return {"message-id": headers["message-id"]}


def left(stomp: StompBroker, name: str = "orders") -> int:
    return stomp.broker.queue_statistics(name).messages


@pytest.mark.fact("activemq-edges ST8")
async def test_auto_is_acknowledged_when_it_is_sent(stomp: StompBroker) -> None:
    client = await stomp.client()
    await fill(client, *"abc")
    await client.subscribe(ORDERS)
    assert [(await client.receive("MESSAGE")).body for _ in range(3)] == [b"a", b"b", b"c"]
    await stomp.broker.drained("orders")


async def test_auto_of_a_composite_and_of_a_topic(stomp: StompBroker) -> None:
    client = await stomp.client()
    await fill(client, "1", "2", destination="/queue/a,/queue/b")
    await client.subscribe("/queue/a,/queue/b")
    assert len([await client.receive("MESSAGE") for _ in range(4)]) == 4
    await stomp.broker.drained("a")
    await stomp.broker.drained("b")
    await client.subscribe("/topic/news", id="t", **{"activemq.prefetchSize": 2})
    for number in range(10):  # more than the window: each must be acknowledged
        await client.send("SEND", {"destination": "/topic/news"}, str(number))
        assert (await client.receive("MESSAGE")).body == str(number).encode()


@pytest.mark.fact("activemq-edges ST9")
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
async def test_client_acknowledges_all_before(stomp: StompBroker, version: str) -> None:
    client = await stomp.client(version)
    await fill(client, *"abcd")
    await client.subscribe(ORDERS, ack="client")
    frames = [await client.receive("MESSAGE") for _ in range(4)]
    await client.done("ACK", ack_headers(client, frames[1]))
    assert left(stomp) == 2
    await client.done("ACK", ack_headers(client, frames[3]))
    assert left(stomp) == 0


@pytest.mark.fact("activemq-edges ST9")
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
async def test_client_individual_acknowledges_one(stomp: StompBroker, version: str) -> None:
    client = await stomp.client(version)
    await fill(client, *"abc")
    await client.subscribe(ORDERS, ack="client-individual")
    frames = [await client.receive("MESSAGE") for _ in range(3)]
    await client.done("ACK", ack_headers(client, frames[2]))
    assert left(stomp) == 2
    again = await client.refused("ACK", ack_headers(client, frames[2]))
    assert again.startswith("Unexpected ACK received for message-id [")
    await client.done("UNSUBSCRIBE", {"id": "s"})
    other = await stomp.client()
    await other.subscribe(ORDERS)
    redelivered = [await other.receive("MESSAGE") for _ in range(2)]
    assert [(f.body, f.headers["redelivered"]) for f in redelivered] == [
        (b"a", "true"),
        (b"b", "true"),
    ]


@pytest.mark.fact("activemq-edges ST9")
@pytest.mark.parametrize("mode", ["client", "client-individual"])
async def test_nack_makes_a_dead_letter(stomp: StompBroker, mode: str) -> None:
    client = await stomp.client()
    await fill(client, *"abc", persistent="true")
    await client.subscribe(ORDERS, ack=mode)
    frames = [await client.receive("MESSAGE") for _ in range(3)]
    await client.done("NACK", {"id": frames[1].headers["ack"]})
    assert left(stomp) == 2
    assert len(await stomp.broker.dead_letters()) == 1
    assert (await client.refused("NACK", {"id": frames[1].headers["ack"]})).startswith(
        "Unexpected NACK"
    )
    if mode == "client":
        await client.done("ACK", {"id": frames[2].headers["ack"]})
        assert left(stomp) == 0


@pytest.mark.fact("activemq-edges ST9")
async def test_nack_is_not_of_1_0_and_not_of_transactions(stomp: StompBroker) -> None:
    old, new = await stomp.client("1.0"), await stomp.client()
    assert "v1.0" in await old.refused("NACK", {"message-id": "x"})
    await new.done("BEGIN", {"transaction": "t"})
    assert "transaction" in await new.refused("NACK", {"id": "x", "transaction": "t"})


@pytest.mark.fact("activemq-edges ST10")
async def test_a_transaction_sends_at_its_commit(stomp: StompBroker) -> None:
    client = await stomp.client()
    for end, expected in (("ABORT", 0), ("COMMIT", 2)):
        await client.done("BEGIN", {"transaction": "t"})
        for text in "ab":
            await client.done("SEND", {"destination": ORDERS, "transaction": "t"}, text)
        assert left(stomp) == 0
        await client.done(end, {"transaction": "t"})
        assert left(stomp) == expected


@pytest.mark.fact("activemq-edges ST10")
@pytest.mark.parametrize("mode", ["client", "client-individual"])
async def test_acknowledgements_hold_from_the_commit_on(stomp: StompBroker, mode: str) -> None:
    client = await stomp.client()
    await fill(client, *"ab")
    await client.subscribe(ORDERS, ack=mode)
    frames = [await client.receive("MESSAGE") for _ in range(2)]
    for end, expected in (("ABORT", 2), ("COMMIT", 0)):
        await client.done("BEGIN", {"transaction": "t"})
        for frame in frames:
            await client.done("ACK", {"id": frame.headers["ack"], "transaction": "t"})
        assert left(stomp) == 2
        assert "Unexpected ACK" in await client.refused("ACK", {"id": frames[0].headers["ack"]})
        await client.done(end, {"transaction": "t"})
        assert left(stomp) == expected
    await client.nothing_comes()


async def test_transactions_that_are_not_open(stomp: StompBroker) -> None:
    client = await stomp.client()
    for command in ("COMMIT", "ABORT", "SEND"):
        text = await client.refused(command, {"transaction": "no", "destination": ORDERS})
        assert text == "Invalid transaction id: no"
    await client.done("BEGIN", {"transaction": "t"})
    assert "already started" in await client.refused("BEGIN", {"transaction": "t"})
    await client.done("COMMIT", {"transaction": "t"})
    assert "Invalid transaction" in await client.refused("COMMIT", {"transaction": "t"})


async def test_a_client_that_leaves_rolls_back(stomp: StompBroker) -> None:
    client = await stomp.client()
    await client.done("BEGIN", {"transaction": "t"})
    await client.done("SEND", {"destination": ORDERS, "transaction": "t"}, "x")
    await client.done("DISCONNECT")
    assert await client.closed()
    assert left(stomp) == 0


@pytest.mark.fact("activemq-edges ST7", "activemq-edges ST11")
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
async def test_a_durable_subscription(stomp: StompBroker, version: str) -> None:
    durable = {"activemq.subscriptionName": "news"}
    sender, first = await stomp.client(), await stomp.client(version, client_id="news")
    await first.subscribe("/topic/news", **durable)
    in_use = await first.refused("UNSUBSCRIBE", {"id": "s", **durable})
    assert "Durable consumer is in use" in in_use
    await first.done("DISCONNECT")
    await fill(sender, "while away", destination="/topic/news", persistent="true")
    second = await stomp.client(version, client_id="news")
    await second.subscribe("/topic/news", **durable)
    assert (await second.receive("MESSAGE")).body == b"while away"
    await second.done("UNSUBSCRIBE", {"id": "s"})
    await second.done("UNSUBSCRIBE", {"id": "s", **durable})
    await fill(sender, "nobody", destination="/topic/news", persistent="true")
    await second.subscribe("/topic/news", **durable)
    await second.nothing_comes()


@pytest.mark.fact("activemq-edges ST7")
async def test_headers_of_subscribe_that_cannot_be_meant(stomp: StompBroker) -> None:
    client = await stomp.client()
    durable: dict[str, object] = {"activemq.subscriptionName": "x"}
    cases: list[tuple[dict[str, object], str]] = [
        (durable, "Invalid Subscription: cannot durably subscribe to a Queue destination!"),
        ({"ack": "later"}, "Unknown ack mode"),
        ({"activemq.prefetchSize": 0}, "activemq.prefetchSize must be a whole number from 1"),
        ({"activemq.prefetch": 1}, "activemq.prefetch is unknown"),
        ({"activemq.exclusive": "yes"}, "activemq.exclusive must be true or false"),
        ({"selector": "a = "}, ""),
        ({"destination": "/queue/a?consumer.exclusive=true"}, "Options of destinations"),
    ]
    for headers, reason in cases:
        text = await client.refused("SUBSCRIBE", {"destination": ORDERS, "id": "s", **headers})
        assert reason in text
    assert "without a subscription id" in await client.refused("SUBSCRIBE", {"destination": ORDERS})
    await fill(client, "x")
    await client.nothing_comes()
    await client.subscribe(ORDERS)
    assert (await client.receive("MESSAGE")).body == b"x"


@pytest.mark.fact("activemq-edges ST7", "activemq-edges ST15")
async def test_a_selector_compares_texts_as_numbers(stomp: StompBroker) -> None:
    client = await stomp.client()
    await fill(client, "low", price="3")
    await fill(client, "high", price="30")
    await client.subscribe(ORDERS, selector="price > 5")
    assert (await client.receive("MESSAGE")).body == b"high"
    await client.nothing_comes()


@pytest.mark.fact("activemq-edges ST7")
async def test_options_of_a_subscription_work(stomp: StompBroker) -> None:
    client, other = await stomp.client(), await stomp.client()
    await client.subscribe("/topic/t", id="local", **{"activemq.noLocal": "true"})
    await client.done("SEND", {"destination": "/topic/t"}, "own")
    await other.done("SEND", {"destination": "/topic/t"}, "other")
    assert (await client.receive("MESSAGE")).body == b"other"
    await client.subscribe(ORDERS, ack="client", **{"activemq.prefetchSize": 1})
    await fill(other, *"ab")
    assert (await client.receive("MESSAGE")).body == b"a"
    await client.nothing_comes()
    await other.subscribe("/queue/p", id="low")
    await client.subscribe("/queue/p", id="high", **{"activemq.priority": 5})
    await fill(other, "x", destination="/queue/p")
    assert (await client.receive("MESSAGE")).headers["subscription"] == "high"
    await other.subscribe("/queue/e", id="shared")
    await client.subscribe("/queue/e", id="sole", **{"activemq.exclusive": "true"})
    await fill(other, "x", destination="/queue/e")
    assert (await client.receive("MESSAGE")).headers["subscription"] == "sole"


@pytest.mark.fact("activemq-edges ST7", "activemq-edges ST12")
async def test_a_browser_ends_and_takes_nothing(stomp: StompBroker) -> None:
    client = await stomp.client()
    await fill(client, *"ab")
    await client.subscribe(ORDERS, browser="true")
    frames = [await client.receive("MESSAGE") for _ in range(3)]
    assert [frame.body for frame in frames] == [b"a", b"b", b""]
    end = frames[2].headers
    assert (end["browser"], end["message-id"], end["subscription"]) == ("end", "0", "s")
    assert left(stomp) == 2


@pytest.mark.fact("activemq-edges ST11")
async def test_unsubscribe(stomp: StompBroker) -> None:
    old, new = await stomp.client("1.0"), await stomp.client()
    await old.done("SUBSCRIBE", {"destination": ORDERS})
    await old.done("UNSUBSCRIBE", {"destination": ORDERS})
    await new.subscribe(ORDERS)
    await new.done("UNSUBSCRIBE", {"id": "s"})
    assert await new.refused("UNSUBSCRIBE", {"id": "s"}) == "No subscription matched."
    await fill(new, "x")
    await old.nothing_comes()
    assert left(stomp) == 1


@pytest.mark.fact("activemq-edges ST7")
async def test_a_repeated_id_stands_for_the_newer_one(stomp: StompBroker) -> None:
    client = await stomp.client()
    await client.subscribe("/queue/a")
    await client.subscribe("/queue/b")
    await client.done("UNSUBSCRIBE", {"id": "s"})
    await fill(client, "b", destination="/queue/b")
    await client.send("SEND", {"destination": "/queue/a"}, "a")
    assert (await client.receive("MESSAGE")).body == b"a"
    assert left(stomp, "b") == 1


@pytest.mark.fact("activemq-edges ST7")
async def test_messages_follow_the_receipt_of_the_subscription(stomp: StompBroker) -> None:
    client = await stomp.client()
    await fill(client, "x")
    await client.send("SUBSCRIBE", {"destination": ORDERS, "id": "s", "receipt": "first"})
    assert (await client.receive()).headers["receipt-id"] == "first"
    assert (await client.receive()).command == "MESSAGE"


@pytest.mark.parametrize("version", ["1.1", "1.2"])
@pytest.mark.parametrize("mode", ["client", "client-individual"])
async def test_copies_with_the_same_id_are_distinguished(
    stomp: StompBroker, version: str, mode: str
) -> None:
    client = await stomp.client(version)
    await fill(client, "1", "2", destination="/queue/a,/queue/b")
    await client.subscribe("/queue/>", ack=mode)
    frames = [await client.receive("MESSAGE") for _ in range(4)]
    for frame in [frames[-1]] if mode == "client" and version == "1.2" else frames:
        await client.send("ACK", ack_headers(client, frame))
    await client.send("SEND", {"destination": "/topic/end", "receipt": "end"})
    while (frame := await client.receive("RECEIPT", "ERROR")).command == "ERROR":
        assert mode == "client"  # some were acknowledged by the first of their id
    assert (left(stomp, "a"), left(stomp, "b")) == (0, 0)


@pytest.mark.fact("activemq-edges ST9")
@pytest.mark.parametrize("durable", [False, True])
async def test_nack_of_a_topic(stomp: StompBroker, durable: bool) -> None:
    client = await stomp.client(client_id="c")
    name = {"activemq.subscriptionName": "n"} if durable else {}
    await client.subscribe("/topic/t", ack="client-individual", **name)
    for persistent in ("false", "true"):
        headers = {"destination": "/topic/t", "persistent": persistent}
        await client.send("SEND", headers, persistent)
        frame = await client.receive("MESSAGE")
        await client.done("NACK", {"id": frame.headers["ack"]})
    texts = [(message.content or b"")[4:] for message in await stomp.broker.dead_letters()]
    assert texts == ([b"true"] if durable else [])


async def test_a_durable_subscription_acknowledges_in_a_transaction(stomp: StompBroker) -> None:
    durable = {"activemq.subscriptionName": "n"}
    for end, expected in (("ABORT", b"a"), ("COMMIT", b"b")):
        client = await stomp.client(client_id="c")
        await client.subscribe("/topic/t", ack="client", **durable)
        if end == "ABORT":
            await client.send("SEND", {"destination": "/topic/t", "persistent": "true"}, "a")
        frame = await client.receive("MESSAGE")
        assert frame.body == b"a"
        await client.done("BEGIN", {"transaction": "t"})
        await client.done("ACK", {"id": frame.headers["ack"], "transaction": "t"})
        await client.done(end, {"transaction": "t"})
        await client.done("DISCONNECT")
        sender = await stomp.client()
        if end == "COMMIT":
            await sender.done("SEND", {"destination": "/topic/t", "persistent": "true"}, "b")
        again = await stomp.client(client_id="c")
        await again.subscribe("/topic/t", ack="client", **durable)
        assert (await again.receive("MESSAGE")).body == expected
        await again.done("DISCONNECT")
