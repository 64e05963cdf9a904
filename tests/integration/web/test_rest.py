"""Messages by HTTP: sent, received, and what is refused. (activemq-edges W6, W7)"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import anyio
import pytest

from pyjms.aio import ConnectionFactory, JmsTemplate, TextMessage
from pyjms.enums import DeliveryMode
from pyjms.jms.destination import Queue, Topic
from pyjms.testing.clock import VirtualClock
from pyjms_broker.policy.entry import PolicyEntry, PolicyMap
from pyjms_broker.settings.security import AuthorizationSettings
from pyjms_broker.web.errors import WebError
from pyjms_broker.web.rest import ClientName, RestClients
from pyjms_broker.web.user import NOBODY
from tests.kit.brokers.security import simple, user
from tests.kit.waiting import until
from tests.kit.web.sites import WebBroker, web_broker

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def template(broker: WebBroker) -> JmsTemplate:
    return JmsTemplate(ConnectionFactory(broker.service.vm_uri), receive_timeout=5)


async def size(broker: WebBroker, queue: str) -> Any:
    name = f"*:type=Broker,brokerName=*,destinationType=Queue,destinationName={queue}"
    found = broker.service.management.find(name)
    return found[0].get("QueueSize") if found else None


def consumers(broker: WebBroker, queue: str = "q") -> int:
    """Return the number of consumers of a queue."""
    name = f"*:type=Broker,brokerName=*,destinationType=Queue,destinationName={queue}"
    return sum(v.get("ConsumerCount") for v in broker.service.management.find(name))  # type: ignore[misc]


@pytest.mark.fact("activemq-edges W6")
async def test_a_posted_message() -> None:
    async with web_broker() as broker, broker.client() as client:
        path = "/api/message/orders/new?type=queue&JMSCorrelationID=c-1&JMSType=order&JMSReplyTo=answers&colour=red"
        sent = await client.post(f"{path}&JMSTimeToLive=60000", data={"body": "one\ntwo"})
        assert (sent.status_code, sent.text) == (200, "Message sent")
        message = await template(broker).receive("orders.new")
        assert isinstance(message, TextMessage)
        assert message.message_id == sent.headers["messageID"]
        assert message.text == "one\ntwo"
        assert message.delivery_mode is DeliveryMode.PERSISTENT
        assert message.priority == 5
        assert (message.correlation_id, message.type) == ("c-1", "order")
        assert str(message.reply_to) == "queue://answers"
        assert dict(message.properties.items()) == {"colour": "red"}
        assert message.expiration > 0


@pytest.mark.fact("activemq-edges W6")
async def test_a_raw_body_and_other_parameters() -> None:
    async with web_broker() as broker, broker.client() as client:
        path = (
            "/api/message?destination=queue://orders&JMSDeliveryMode=non_persistent&JMSPriority=9"
        )
        await client.post(path, content=b"one\r\ntwo", headers={"Content-Type": "text/plain"})
        message = await template(broker).receive("orders")
        assert isinstance(message, TextMessage)
        assert message.text == "one\ntwo\n"
        assert message.delivery_mode is DeliveryMode.NON_PERSISTENT
        assert message.priority == 9


@pytest.mark.fact("activemq-edges W6")
async def test_the_default_is_a_topic() -> None:
    async with web_broker() as broker, broker.client() as client:
        async with anyio.create_task_group() as tasks:
            got: list[Any] = []

            async def receive() -> None:
                got.append(await template(broker).receive(Topic("news")))

            tasks.start_soon(receive)
            name = "*:type=Broker,brokerName=*,destinationType=Topic,destinationName=news"
            await until(
                lambda: any(v.get("ConsumerCount") for v in broker.service.management.find(name))
            )
            await client.post("/api/message/news", content="hello")
        assert got[0].text == "hello\n"


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_a_message_is_taken(method: str) -> None:
    async with web_broker() as broker, broker.client() as client:
        await client.post("/api/message/orders?type=queue&colour=red", data={"body": "first"})
        taken = await client.request(method, "/api/message/orders?type=queue&readTimeout=5000")
        assert (taken.status_code, taken.text) == (200, "first")
        assert taken.headers["destination"] == "queue://orders"
        assert taken.headers["id"].startswith("ID:")
        assert taken.headers["colour"] == "red"
        assert await size(broker, "orders") == 0
        none = await client.request(method, "/api/message/orders?type=queue&readTimeout=10")
        assert (none.status_code, none.content) == (204, b"")


async def test_a_selector_and_content_types() -> None:
    async with web_broker() as broker, broker.client() as client:
        for colour in ("red", "blue"):
            await client.post(f"/api/message/q?type=queue&colour={colour}", data={"body": "{}"})
        path = "/api/message/q?type=queue&readTimeout=5000"
        blue = await client.get(f"{path}&json=true", headers={"selector": "colour = 'blue'"})
        assert blue.headers["colour"] == "blue"
        assert blue.headers["content-type"] == "application/json"
        red = await client.get(f"{path}&xml=true")
        assert red.headers["content-type"].startswith("text/xml")
        bad = await client.get(path, headers={"selector": "colour ="})
        assert bad.status_code == 400


async def test_a_named_client_keeps_its_consumer() -> None:
    async with web_broker() as broker, broker.client() as client:
        path = "/api/message/news?clientId=reader&readTimeout=10"
        assert (await client.get(path)).status_code == 204
        await client.post("/api/message/news", data={"body": "kept"})
        assert (await client.get(path)).text == "kept"
        closed = await client.post("/api/message?action=unsubscribe&clientId=reader")
        assert closed.text == "Unsubscribed"
        await client.post("/api/message/news", data={"body": "lost"})
        assert (await client.get(path)).status_code == 204
        again = await client.post("/api/message?action=unsubscribe&clientId=nobody")
        assert again.status_code == 404


async def test_an_idle_client_with_a_name_holds_one_message() -> None:
    async with web_broker() as broker, broker.client() as client:
        path = "/api/message/q?type=queue&readTimeout=10"
        assert (await client.get(f"{path}&clientId=c")).status_code == 204
        for text in ("one", "two", "three"):
            await client.post("/api/message/q?type=queue", data={"body": text})
        assert [(await client.get(path)).text for _ in range(3)] == ["two", "three", ""]
        assert (await client.get(f"{path}&clientId=c")).text == "one"


@pytest.mark.fact("activemq-edges W7")
async def test_a_session_keeps_its_consumer_once_the_client_has_sent_the_cookie() -> None:
    async with web_broker() as broker, broker.client() as client:
        path = "/api/message/q?type=queue&readTimeout=10"
        first = await client.get(path)
        cookie = first.headers["set-cookie"]
        assert cookie.startswith("pyjms_messages=")
        for part in ("HttpOnly", "Path=/api/message", "SameSite=strict"):
            assert part in cookie
        assert consumers(broker) == 0  # a client without cookies holds nothing
        second = await client.get(path)
        assert "set-cookie" not in second.headers
        assert consumers(broker) == 1
        for text in ("held", "free"):
            await client.post("/api/message/q?type=queue", data={"body": text})
        async with broker.client() as other:
            assert (await other.get(f"{path}&oneShot=true")).text == "free"
            assert not other.cookies
        assert (await client.get(path)).text == "held"
        assert (await client.get(f"{path}&oneShot=true")).status_code == 204
        assert consumers(broker) == 0
        assert (await client.get(path)).status_code == 204
        assert (await client.post("/api/message?action=unsubscribe")).text == "Unsubscribed"
        assert consumers(broker) == 0


@pytest.mark.fact("activemq-edges W7")
async def test_a_session_gets_what_was_sent_to_a_topic_between_its_requests() -> None:
    async with web_broker() as broker, broker.client() as client:
        path = "/api/message/news?readTimeout=10"
        assert [(await client.get(path)).status_code for _ in range(2)] == [204, 204]
        for text in ("one", "two"):
            await client.post("/api/message/news", data={"body": text})
        assert [(await client.get(path)).text for _ in range(3)] == ["one", "two", ""]


@pytest.mark.fact("activemq-edges W7")
@pytest.mark.parametrize("names_it", [False, True])
async def test_two_requests_at_once_do_not_share_a_client(names_it: bool) -> None:
    async with web_broker() as broker, broker.client() as client:
        more = f"type=queue{'&clientId=c' if names_it else ''}"
        await client.get(f"/api/message/q?{more}&readTimeout=10")
        taken: list[str] = []
        async with anyio.create_task_group() as tasks:

            async def read() -> None:
                taken.append((await client.get(f"/api/message/other?{more}")).text)

            tasks.start_soon(read)
            await until(lambda: consumers(broker, "other"))
            refused = await client.get(f"/api/message/q?{more}&readTimeout=10")
            assert refused.status_code == 500
            assert "Another request uses the client" in refused.json()["error"]
            await client.post("/api/message/other?type=queue", data={"body": "x"})
        assert taken == ["x"]


async def test_the_session_of_another_user_is_none() -> None:
    users = simple(user("alice", "admins"), user("bob", "admins"))
    async with web_broker(users) as broker, broker.client("alice") as alice:
        path = "/api/message/q?type=queue&readTimeout=10"
        await alice.get(path)
        stolen = {"cookie": f"pyjms_messages={alice.cookies['pyjms_messages']}"}
        async with broker.client("bob") as bob:
            for cookie in (stolen, {"cookie": "pyjms_messages=x.y"}, {"cookie": "pyjms_messages"}):
                answer = await bob.get(path, headers=cookie)
                assert answer.headers["set-cookie"].startswith("pyjms_messages=")
                assert consumers(broker) == 0
        await alice.get(path)
        assert consumers(broker) == 1


async def test_idle_sessions_end_and_give_back_what_they_hold() -> None:
    async with VirtualClock() as clock, web_broker() as broker, broker.client() as client:
        path = "/api/message/q?type=queue"
        for text in ("one", "two"):
            await client.post(path, data={"body": text})
            assert (await client.get(path)).text == text
        await client.post(path, data={"body": "x"})
        await clock.advance(290)
        assert consumers(broker) == 1
        await clock.advance(45)
        assert consumers(broker) == 0
        assert (await client.get(f"{path}&oneShot=true")).text == "x"


async def test_a_client_that_leaves_while_its_message_waits_for_space_leaves_nothing() -> None:
    entry = PolicyEntry(destination=Queue("full"), memory_limit=1)
    name = "*:type=Broker,brokerName=*,destinationType=Queue,destinationName=full"
    async with web_broker(policies=PolicyMap([entry])) as broker:
        async with anyio.create_task_group() as tasks, broker.client() as client:
            path = "/api/message/full?type=queue"
            assert (await client.post(path, data={"body": "x"})).status_code == 200

            async def send() -> None:
                await client.post(path, data={"body": "waits"})

            tasks.start_soon(send)
            (queue,) = broker.service.management.find(name)
            await until(lambda: queue.get("BlockedSends"))
            assert len(broker.service.connections.by_id) == 1
            tasks.cancel_scope.cancel()
        await until(lambda: not broker.service.connections.by_id)
        assert await size(broker, "full") == 1


async def test_a_client_ended_by_the_broker_is_recreated() -> None:
    async with web_broker() as broker, broker.client() as client:
        path = "/api/message/q?type=queue&clientId=c&readTimeout=20000"
        name = "*:type=Broker,connectionViewType=clientId,*"
        failed: list[Any] = []
        async with anyio.create_task_group() as tasks:

            async def read() -> None:
                failed.append(await client.get(path))

            tasks.start_soon(read)
            await until(lambda: broker.service.management.find(name))
            await until(lambda: consumers(broker))
            await broker.service.management.find(name)[0].invoke("stop")
        assert failed[0].status_code == 500
        assert "The JMS connection has failed" in failed[0].json()["error"]
        await client.post("/api/message/q?type=queue", data={"body": "x"})
        assert (await client.get(path)).text == "x"


async def test_named_clients_are_limited_to_200() -> None:
    async with web_broker() as broker:
        clients = RestClients(broker.service)
        refused: list[int] = []

        async def use(number: int) -> None:
            try:
                async with clients.client(NOBODY, ClientName(f"c{number}")):
                    pass
            except WebError as error:
                refused.append(error.status)

        async with anyio.create_task_group() as tasks:
            for number in range(205):
                tasks.start_soon(use, number)
        assert refused == [503] * 5
        assert len(clients) == len(broker.service.connections.by_id) == 200
        await clients.close()


async def test_sessions_make_room_for_clients_with_an_id() -> None:
    async with web_broker() as broker:
        clients = RestClients(broker.service)
        for number in range(200):
            async with clients.client(NOBODY, ClientName(f"s{number}", is_session=True)):
                pass
        async with clients.client(NOBODY, ClientName("more", is_session=True)):
            assert len(broker.service.connections.by_id) == 201  # one for this request
        async with clients.client(NOBODY, ClientName("c")):
            assert len(broker.service.connections.by_id) == len(clients) == 200
        await clients.close()


@pytest.mark.parametrize("parameter", ["", "&readTimeout=3600000"])
async def test_a_request_waits_for_20_seconds_at_most(parameter: str) -> None:
    statuses: list[int] = []
    async with VirtualClock() as clock, web_broker() as broker, broker.client() as client:
        async with anyio.create_task_group() as tasks:

            async def read() -> None:
                answer = await client.get(f"/api/message/q?type=queue{parameter}")
                statuses.append(answer.status_code)

            tasks.start_soon(read)
            await until(lambda: consumers(broker))
            await clock.advance(19.9)
            assert consumers(broker) == 1
            assert statuses == []
            await clock.advance(0.2)
        assert statuses == [204]


async def test_one_shot_closes_the_consumer() -> None:
    async with web_broker() as broker, broker.client() as client:
        await client.get("/api/message/q?type=queue&clientId=c&readTimeout=10&oneShot=true")
        await client.post("/api/message/q?type=queue", data={"body": "x"})
        other = await client.get("/api/message/q?type=queue&readTimeout=5000")
        assert other.text == "x"


async def test_a_second_reader_of_one_client_is_an_error() -> None:
    async with web_broker() as broker, broker.client() as client:
        path = "/api/message/q?type=queue&clientId=c"
        answers: list[int] = []
        async with anyio.create_task_group() as tasks:

            async def read() -> None:
                answers.append((await client.get(f"{path}&readTimeout=20000")).status_code)

            tasks.start_soon(read)
            tasks.start_soon(read)
            await until(lambda: answers)
            assert answers == [500]
            await client.post("/api/message/q?type=queue", data={"body": "x"})
        assert answers == [500, 200]


async def test_a_client_that_leaves_takes_nothing() -> None:
    async with web_broker() as broker:
        host, port = broker.url.removeprefix("http://").split(":")
        stream = await anyio.connect_tcp(host, int(port))
        await stream.send(b"GET /api/message/q?type=queue HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await until(lambda: consumers(broker))
        await stream.aclose()
        await until(lambda: not consumers(broker))
        async with broker.client() as client:
            await client.post("/api/message/q?type=queue", data={"body": "x"})
        assert await size(broker, "q") == 1


async def test_waiting_requests_end_when_the_broker_stops() -> None:
    statuses: list[int] = []
    async with anyio.create_task_group() as tasks, web_broker() as broker:
        client = broker.client()

        async def read() -> None:
            async with client:
                statuses.append((await client.get("/api/message/q?type=queue")).status_code)

        tasks.start_soon(read)
        await until(lambda: len(broker.service.connections.by_id) == 1)
    assert statuses == [204]


async def test_rights_are_those_of_the_user() -> None:
    rights = AuthorizationSettings.model_validate(
        {"entries": [{"destination": "mine.>", "read": "shop", "write": "shop", "admin": "shop"}]}
    )
    users = simple(user("alice", "shop"))
    async with web_broker(users, rights) as broker, broker.client("alice") as client:
        assert (await client.post("/api/message/mine/a?type=queue", data={"body": "x"})).is_success
        refused = await client.post("/api/message/other?type=queue", data={"body": "x"})
        assert refused.status_code == 403
        assert "alice is not authorized" in refused.json()["error"]
        assert (await client.get("/api/message/other?type=queue&readTimeout=1")).status_code == 403
        async with broker.client() as nobody:
            assert (await nobody.get("/api/message/mine/a?type=queue")).status_code == 401


async def test_a_property_cannot_become_a_header_of_the_site() -> None:
    async with web_broker() as broker, broker.client() as client:
        value = quote("a\r\nX: y é %")
        await client.post(f"/api/message/q?type=queue&Location=x&note={value}", data={"body": "x"})
        taken = await client.get("/api/message/q?type=queue&readTimeout=5000")
        assert "location" not in taken.headers
        assert taken.headers["note"] == "a%0D%0AX: y %C3%A9 %25"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/message"),
        ("POST", "/api/message/q?type=stack"),
        ("POST", "/api/message/q?JMSPriority=10"),
        ("POST", "/api/message/q?JMSTimeToLive=-1"),
        ("POST", "/api/message/q?JMSXGroupSeq=x"),
        ("POST", "/api/message/q?JMSReplyTo=que://x"),
        ("POST", "/api/message?destination=que://x"),
        ("POST", "/api/message/a.>?type=queue"),
        ("POST", "/api/message?destination=temp-queue://x"),
        ("GET", "/api/message/q?type=queue&readTimeout=soon"),
    ],
)
async def test_what_cannot_be_done_is_an_error_with_a_hint(method: str, path: str) -> None:
    async with web_broker() as broker, broker.client() as client:
        answer = await client.request(method, path)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]


async def test_a_browser_takes_no_message_without_its_page_but_with_a_session() -> None:
    browser = {"User-Agent": "Mozilla/5.0 (X11)", "Accept-Language": "en-US"}
    path = "/api/message/q?type=queue"
    async with (
        web_broker(simple(user("root", "admins"))) as broker,
        broker.client("root") as program,
        broker.client(headers=browser) as client,
    ):
        await program.post(path, data={"body": "x"})
        assert (await client.get(path, auth=("root", "secret"))).status_code == 403
        await client.post("/admin/login", data={"name": "root", "password": "secret"})
        assert (await client.get(path)).text == "x"


async def test_head_takes_no_message_and_other_sites_neither() -> None:
    async with web_broker() as broker, broker.client() as client:
        await client.post("/api/message/q?type=queue", data={"body": "x"})
        assert (await client.head("/api/message/q?type=queue")).status_code == 405
        crossed = await client.get(
            "/api/message/q?type=queue", headers={"Origin": "http://evil.test"}
        )
        assert crossed.status_code == 403
        assert await size(broker, "q") == 1
