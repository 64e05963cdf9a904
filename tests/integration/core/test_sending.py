"""What a single send and a request can be told: headers, delay, replies, concurrent requests."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.connection.caching import CachingConnectionFactory, SingleConnectionFactory
from pyjms.enums import DeliveryMode
from pyjms.errors import ConnectionFailedException, JMSException
from pyjms.jms.destination import Queue, TemporaryQueue, Topic
from pyjms.jms.message import Message, TextMessage
from pyjms.runtime import clock as _clock
from pyjms.template.template import JmsTemplate
from pyjms.testing.clock import VirtualClock
from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.embedded_urls import broker, url
from tests.kit.waiting import until

__all__ = ["broker", "url"]


@pytest.fixture
def template(url: str) -> JmsTemplate:
    return JmsTemplate(ConnectionFactory(url), receive_timeout=5.0)


async def received(template: JmsTemplate, name: str = "q") -> Message:
    message = await template.receive(name)
    assert message is not None
    return message


@pytest.mark.parametrize("method", ["send", "convert_and_send"])
async def test_each_option_of_a_send(template: JmsTemplate, method: str) -> None:
    payload: Any = "x" if method == "convert_and_send" else lambda s: s.create_text_message("x")
    send = getattr(template, method)
    await send(
        "q", payload, properties={"a": 1, "b": "two", "jms_type": "kind"}, correlation_id="c",
        reply_to="replies", priority=9, time_to_live=60, group="g",
        delivery_mode=DeliveryMode.NON_PERSISTENT,
    )  # fmt: skip
    message = await received(template)
    assert isinstance(message, TextMessage)
    assert message.text == "x"
    assert (message.properties["a"], message.properties["b"]) == (1, "two")
    assert (message.correlation_id, message.type) == ("c", "kind")
    assert message.reply_to == Queue("replies")
    assert (message.priority, message.delivery_mode) == (9, DeliveryMode.NON_PERSISTENT)
    assert message.expiration - message.timestamp == 60_000
    assert message.properties["JMSXGroupID"] == "g"


async def test_an_option_applies_to_its_send_only_and_overrides_the_template(
    template: JmsTemplate,
) -> None:
    template.priority, template.explicit_qos_enabled = 2, True
    await template.convert_and_send("q", "x", priority=7, correlation_id=None, reply_to=None)
    await template.convert_and_send("q", "x", time_to_live=5)
    first, second = await received(template), await received(template)
    assert (first.priority, first.expiration, first.correlation_id) == (7, 0, None)
    assert (second.priority, second.expiration - second.timestamp) == (2, 5000)
    template.pub_sub_domain = True
    await template.convert_and_send(Queue("q"), "x", reply_to="news")
    assert (await received(template, Queue("q"))).reply_to == Topic("news")  # type: ignore[arg-type]


async def test_spring_names_of_headers_set_headers(template: JmsTemplate) -> None:
    headers = {"jms_correlationId": "c", "jms_replyTo": Queue("r"), "jms_type": "t", "own": 1}
    await template.convert_and_send("q", "x", properties=headers)
    message = await received(template)
    assert (message.correlation_id, message.reply_to, message.type) == ("c", Queue("r"), "t")
    assert dict(message.properties) == {"own": 1}


async def test_the_post_processor_sees_the_options(template: JmsTemplate) -> None:
    seen = []

    def look(message: Message) -> Message:
        seen.append((message.correlation_id, message.properties["a"]))
        message.correlation_id = "changed"
        return message

    await template.convert_and_send(
        "q", "x", post_processor=look, correlation_id="c", properties={"a": 1}
    )
    assert seen == [("c", 1)]
    assert (await received(template)).correlation_id == "changed"


async def test_wrong_options_are_errors(template: JmsTemplate) -> None:
    wrong: Any = template
    with pytest.raises(TypeError, match="no option 'prioritty'; did you mean 'priority'"):
        await wrong.convert_and_send("q", "x", prioritty=9)
    with pytest.raises(TypeError, match="no option 'reply'"):
        await wrong.request("q", "x", reply="r")
    with pytest.raises(ValueError, match="0 or more"):
        await template.convert_and_send("q", "x", delay=-1)
    with pytest.raises(JMSException):
        await template.convert_and_send("q", "x", properties={"a": object()})
    assert await template.receive("q", timeout=0) is None


@pytest.mark.parametrize("timeout", [0, 0.02])
async def test_a_receive_with_its_own_timeout(template: JmsTemplate, timeout: float) -> None:
    template.receive_timeout = None
    assert await template.receive("q", timeout=timeout) is None
    assert await template.receive_and_convert("q", str, timeout=timeout) is None
    assert await template.receive_selected("q", "a = 1", timeout=timeout) is None
    assert await template.receive_selected_and_convert("q", "a = 1", timeout=timeout) is None
    template.receive_timeout = 0
    await template.convert_and_send("q", "x")
    assert await template.receive_and_convert("q", timeout=None) == "x"


@pytest.mark.parametrize("by", ["option", "template"])
async def test_a_delay(by: str) -> None:
    service = BrokerService("delays", persistent=False, scheduler_support=True)
    async with VirtualClock(autojump=True), EmbeddedTestBroker(service) as broker:
        delay = 60.0 if by == "template" else None
        template = JmsTemplate(
            ConnectionFactory(broker.url), receive_timeout=120.0, delivery_delay=delay
        )
        began = _clock.now()
        if by == "template":
            await template.convert_and_send("q", "later")
        else:
            await template.convert_and_send("q", "later", delay=60)
        await template.convert_and_send("q", "now", delay=0)
        assert await template.receive_and_convert("q") == "now"
        assert _clock.now() - began < 60
        assert await template.receive_and_convert("q") == "later"
        assert _clock.now() - began >= 60


# --- requests


@asynccontextmanager
async def serving(url: str, *, by: str = "correlation id") -> AsyncIterator[list[Message]]:
    """Answer the requests of the queue `ask` in reverse pairs, so that replies change order."""
    requests: list[Message] = []
    template = JmsTemplate(ConnectionFactory(url), receive_timeout=None)

    async def serve() -> None:
        while True:
            request = await template.receive("ask")
            assert isinstance(request, TextMessage)
            requests.append(request)
            reply = TextMessage(f"re: {request.text}")
            if by == "correlation id":
                reply.correlation_id = request.correlation_id or request.message_id
            elif by == "message id":
                reply.correlation_id = request.message_id
            if request.text != "silence":
                await template.convert_and_send(request.reply_to, reply)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        yield requests
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("correlation", [None, "own"])
@pytest.mark.parametrize("by", ["correlation id", "message id"])
async def test_concurrent_requests_share_one_queue_and_get_their_own_replies(
    url: str, correlation: str | None, by: str
) -> None:
    async with CachingConnectionFactory(ConnectionFactory(url)) as factory:
        template = JmsTemplate(factory, receive_timeout=60.0)
        answers: dict[int, Any] = {}

        async def ask(number: int) -> None:
            correlation_id = f"{correlation}-{number}" if correlation else None
            answers[number] = await template.request(
                "ask", str(number), type=str, correlation_id=correlation_id
            )

        async with serving(url, by=by) as requests:
            async with anyio.create_task_group() as tasks:
                for number in range(30):
                    tasks.start_soon(ask, number)
            await ask(30)
        assert answers == {number: f"re: {number}" for number in range(31)}
        assert len({request.reply_to for request in requests}) == 1


@pytest.mark.parametrize("make", [ConnectionFactory, CachingConnectionFactory])
async def test_a_queue_for_each_request_stays_selectable(url: str, make: Any) -> None:
    plain = ConnectionFactory(url)
    factory = plain if make is ConnectionFactory else CachingConnectionFactory(plain)
    template = JmsTemplate(factory, receive_timeout=5.0, shared_reply_queue=False)
    async with serving(url, by="nothing") as requests:
        for number in range(3):
            assert await template.request("ask", str(number)) == f"re: {number}"
    assert len({request.reply_to for request in requests}) == 3
    if isinstance(factory, CachingConnectionFactory):
        await factory.destroy()


async def test_a_request_without_reply_ends_alone(url: str) -> None:
    async with SingleConnectionFactory(ConnectionFactory(url)) as factory, serving(url) as requests:
        template = JmsTemplate(factory, receive_timeout=5.0)
        answers: list[Any] = []

        async def ask(text: str, timeout: float | None) -> None:
            answers.append(await template.request("ask", text, timeout=timeout))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, "silence", 0.3)
            tasks.start_soon(ask, "a", None)
            with anyio.CancelScope() as cancelled:
                async with anyio.create_task_group() as others:
                    others.start_soon(ask, "silence", None)
                    await until(lambda: len(requests) >= 3)
                    cancelled.cancel()
            tasks.start_soon(ask, "b", 5.0)
        assert sorted(answers, key=str) == [None, "re: a", "re: b"]
        assert await template.request("ask", "c") == "re: c"


async def test_replies_without_correlation_id(url: str, caplog: pytest.LogCaptureFixture) -> None:
    async with CachingConnectionFactory(ConnectionFactory(url)) as factory:
        template = JmsTemplate(factory, receive_timeout=5.0)
        async with serving(url, by="nothing"):
            for number in range(3):  # one after the other there is no doubt
                assert await template.request("ask", str(number)) == f"re: {number}"
            assert await template.request("ask", "silence", timeout=0) is None
            with caplog.at_level(logging.WARNING, "pyjms.template.replies"):
                async with anyio.create_task_group() as group:
                    group.start_soon(template.request, "ask", "x")
                    await until(lambda: caplog.records)
                    group.cancel_scope.cancel()
    [record] = [r for r in caplog.records if r.name == "pyjms.template.replies"]
    assert "has no correlation id" in record.message
    assert "shared_reply_queue" in record.message


async def test_requests_with_the_same_correlation_id_do_not_share(url: str) -> None:
    async with CachingConnectionFactory(ConnectionFactory(url)) as factory:
        template = JmsTemplate(factory, receive_timeout=5.0)
        answers: list[Any] = []

        async def ask(text: str) -> None:
            answers.append((text, await template.request("ask", text, correlation_id="same")))

        async with serving(url), anyio.create_task_group() as tasks:
            for text in "abc":
                tasks.start_soon(ask, text)
        assert sorted(answers) == [(text, f"re: {text}") for text in "abc"]


async def test_a_lost_connection_fails_waiting_requests_and_the_next_one_works() -> None:
    service = BrokerService("lost", persistent=False)
    service.add_connector("tcp://127.0.0.1:0", name="openwire")
    await service.start()
    url = service.connect_uri
    async with CachingConnectionFactory(ConnectionFactory(url)) as factory:
        template = JmsTemplate(factory, receive_timeout=5.0)
        failed: list[Exception] = []

        async def ask() -> None:
            with pytest.raises(JMSException) as raised:
                await template.request("ask", "silence")
            failed.append(raised.value)

        async with serving(service.vm_uri + "?create=false") as requests:
            assert await template.request("ask", "before") == "re: before"
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(ask)
                await until(lambda: len(requests) >= 4)
                await service.connectors[0].stop_connections()
            assert len(failed) == 3
            assert any(isinstance(error, ConnectionFailedException) for error in failed)
            assert await template.request("ask", "after") == "re: after"
        queues = {request.reply_to for request in requests}
        assert len(queues) == 2
        assert all(isinstance(queue, TemporaryQueue) for queue in queues)
    await service.stop()


async def test_the_shared_queue_ends_with_the_connection(
    broker: EmbeddedTestBroker, url: str
) -> None:
    factory = CachingConnectionFactory(ConnectionFactory(url))
    template = JmsTemplate(factory, receive_timeout=5.0)
    async with serving(url) as requests:
        assert await template.request("ask", "a") == "re: a"
        await factory.destroy()
        assert await template.request("ask", "b") == "re: b"
        await factory.destroy()
    first, second = (request.reply_to for request in requests)
    assert first != second
    left = set(broker.service.region_broker.destinations())
    assert not left & {first, second}
