"""Batch listeners on the real broker: size, time-out, transactions, rejected messages, stops."""

from __future__ import annotations

from typing import Annotated, Any

import anyio
import pytest
from dependency_injector import providers
from dependency_injector.wiring import Provide
from pydantic import BaseModel, Field

from pyjms import (
    ApplicationContainer,
    Batch,
    ConfigurationException,
    GenericMessage,
    HandlerInvocation,
    Header,
    Headers,
    JmsApplication,
    Message,
    PyjmsSettings,
    RetryPolicy,
    SimpleJmsListenerContainerFactory,
    TextMessage,
    jms_listener,
    send_to,
)
from pyjms.aio import ConnectionFactory, JmsTemplate, Session
from pyjms.listener.default_container import DefaultMessageListenerContainer
from pyjms.listener.simple_container import SimpleMessageListenerContainer
from pyjms.testing.app import JmsTestApp
from pyjms.testing.clock import VirtualClock
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.waiting import until


class Order(BaseModel):
    number: int


def settings(**sections: Any) -> PyjmsSettings:
    return PyjmsSettings.model_validate(sections)


async def send(jms_app: JmsTestApp, *payloads: object, name: str = "orders") -> None:
    for payload in payloads:
        await jms_app.template.convert_and_send(name, payload)


def orders(count: int) -> list[Order]:
    return [Order(number=number) for number in range(count)]


BOTH = pytest.mark.parametrize("kind", ["def", "async def"])


def in_kind(kind: str, function: Any) -> Any:
    """Return a handler like `function`, which is a `def`, of the kind wanted."""
    if kind == "def":
        return function

    async def handle(batch: Batch[Order]) -> None:
        function(batch)

    return handle


@BOTH
async def test_batches_end_at_their_size(kind: str, jms_app: JmsTestApp) -> None:
    seen: list[list[int]] = []

    def note(batch: Batch[Order]) -> None:
        seen.append([order.number for order in batch])

    handler = jms_listener("orders", id="orders", batch_size=4, auto_startup=False)(
        in_kind(kind, note)
    )
    application = await jms_app.start(handler)
    await send(jms_app, *orders(10))
    await application.registry["orders"].start()
    await jms_app.drained("orders")
    assert [len(batch) for batch in seen if len(batch) == 4], seen
    assert max(map(len, seen)) == 4
    assert [number for batch in seen for number in batch] == list(range(10))


async def test_a_batch_ends_when_its_time_has_passed(
    jms_clock: VirtualClock, jms_broker: EmbeddedTestBroker, jms_template: JmsTemplate
) -> None:
    seen: list[tuple[float, list[str]]] = []

    @jms_listener("orders", id="orders", batch_size=100, batch_timeout=0.5)
    async def handle(texts: list[str]) -> None:
        seen.append((round(jms_clock.now() - started, 3), texts))

    url = jms_broker.url
    async with JmsApplication(handle, settings=PyjmsSettings().with_broker_url(url)):
        started = jms_clock.now()
        await jms_template.convert_and_send("orders", "a")
        await jms_clock.settle()
        await jms_clock.advance(0.3)
        await jms_template.convert_and_send("orders", "b")
        await jms_clock.settle()
        assert seen == []
        await jms_clock.advance(0.2)
        await jms_clock.settle()
        assert seen == [(0.5, ["a", "b"])]


async def test_without_a_time_out_a_lone_message_does_not_wait(
    jms_clock: VirtualClock, jms_broker: EmbeddedTestBroker, jms_template: JmsTemplate
) -> None:
    seen: list[list[str]] = []

    @jms_listener("orders", batch_size=100)
    async def handle(texts: list[str]) -> None:
        seen.append(texts)

    url = jms_broker.url
    async with JmsApplication(handle, settings=PyjmsSettings().with_broker_url(url)):
        await jms_template.convert_and_send("orders", "a")
        await jms_clock.settle()
        assert seen == [["a"]]


async def test_rejected_and_unreadable_messages_become_dead_letters_alone(
    jms_app: JmsTestApp,
) -> None:
    handled: list[int] = []

    @jms_listener("orders", id="orders", batch_size=10, batch_timeout=5.0)
    def handle(found: list[Order], batch: Batch[Any]) -> None:
        assert len(found) == len(batch) == len(batch.messages) == 4
        assert len(batch.received) == 5
        batch.reject(found[1], "no such customer")
        batch.reject(batch.messages[2], ValueError("a bad number"))
        handled.extend(order.number for order in found)

    await jms_app.start(handle, settings=settings(listeners={"orders": {"batch_size": 5}}))
    await send(jms_app, Order(number=0), "rubbish", *orders(4)[1:])
    await jms_app.drained("orders")
    assert handled == [0, 1, 2, 3]
    dead = {m.text: m for m in await jms_app.dead_letters() if isinstance(m, TextMessage)}
    assert [*dead] == ["rubbish", '{"number":1}', '{"number":2}']
    rejected = dead['{"number":1}'].properties
    assert rejected["pyjms_failure_text"] == "no such customer"
    assert rejected["pyjms_original_destination"] == "queue://orders"
    assert rejected["dlqDeliveryFailureCause"] == (
        "pyjms.errors.PoisonMessageException: no such customer"
    )
    assert dead['{"number":2}'].properties["pyjms_failure_type"] == "ValueError"
    assert "to Order" in str(dead["rubbish"].properties["pyjms_failure_text"])
    assert len(jms_app.recorder.all_calls) == 1


Large = Annotated[int, Field(gt=5)]


@pytest.mark.parametrize("kind", ["list", "Batch", "generic", "header"])
async def test_constraints_of_the_elements_make_single_messages_unreadable(
    jms_app: JmsTestApp, kind: str
) -> None:
    got: list[object] = []

    def of_list(values: list[Large]) -> None:
        got.extend(values)

    def of_batch(values: Batch[Large]) -> None:
        got.extend(values)

    def of_messages(values: list[GenericMessage[Large]]) -> None:
        got.extend(value.payload for value in values)

    def of_header(values: list[int], size: list[Annotated[Large, Header("size")]]) -> None:
        got.extend(values)

    handlers: dict[str, Any] = {
        "list": of_list,
        "Batch": of_batch,
        "generic": of_messages,
        "header": of_header,
    }
    await jms_app.start(jms_listener("orders", batch_size=3)(handlers[kind]))
    for number in (7, 3, 8):
        await jms_app.template.convert_and_send("orders", number, properties={"size": number})
    await jms_app.drained("orders")
    assert sorted(map(str, got)) == ["7", "8"]
    assert len(await jms_app.dead_letters()) == 1


def test_constraints_of_the_batch_itself_are_refused() -> None:
    @jms_listener("orders", batch_size=2)
    def handle(values: Annotated[list[int], Field(min_length=2)]) -> None: ...

    with pytest.raises(ConfigurationException) as caught:
        JmsApplication(handle, settings=PyjmsSettings()).check()
    assert "write those of a message at the element" in str(caught.value)


async def test_unreadable_messages_alone_do_not_call_the_handler(jms_app: JmsTestApp) -> None:
    @jms_listener("orders", batch_size=3)
    async def handle(found: list[Order]) -> None:
        raise AssertionError(found)

    await jms_app.start(handle)
    await send(jms_app, "rubbish")
    await jms_app.drained("orders", raise_errors=True)
    assert len(await jms_app.dead_letters()) == 1


async def test_an_unreadable_message_may_fail_its_batch(jms_app: JmsTestApp) -> None:
    @jms_listener("orders", batch_size=3, unreadable_messages="redeliver")
    async def handle(found: list[Order]) -> None:
        raise AssertionError(found)

    await jms_app.start(handle)
    await send(jms_app, "rubbish")
    await jms_app.drained("orders")
    assert [type(e).__name__ for e in jms_app.recorder.errors()] == [
        "MessageConversionException"
    ] * 7


@BOTH
async def test_raising_rolls_the_batch_back_with_what_it_rejected_and_sent(
    kind: str, jms_app: JmsTestApp
) -> None:
    attempts: list[list[int]] = []

    def fail_once(batch: Batch[Order]) -> None:
        attempts.append([order.number for order in batch])
        batch.reject_at(0, "first")
        if len(attempts) == 1:
            raise RuntimeError("once")

    handler = jms_listener("orders", batch_size=3, batch_timeout=5.0)(in_kind(kind, fail_once))
    await jms_app.start(handler)
    await send(jms_app, *orders(3))
    await jms_app.drained("orders")
    assert attempts == [[0, 1, 2], [0, 1, 2]]
    dead = await jms_app.dead_letters()
    assert [m.text for m in dead if isinstance(m, TextMessage)] == ['{"number":0}']


@pytest.mark.parametrize(
    ("fallback", "sizes"), [("single", ["3", "1", "1", "1"]), ("none", ["3", "3"])]
)
async def test_a_batch_that_fails_too_often_becomes_dead_letters(
    jms_app: JmsTestApp, fallback: str, sizes: list[str]
) -> None:
    @jms_listener("orders", id="orders", batch_size=3, batch_timeout=5.0)
    async def handle(found: list[Order]) -> None:
        raise RuntimeError(str(len(found)))

    one = {"orders": {"redelivery": {"maximum": 1}, "batch_fallback": fallback}}
    await jms_app.start(handle, settings=settings(listeners=one))
    await send(jms_app, *orders(3))
    await jms_app.drained("orders")
    assert [str(error) for error in jms_app.recorder.errors()] == sizes
    dead = await jms_app.dead_letters()
    assert [m.properties["pyjms_failure_text"] for m in dead] == [sizes[-1]] * 3


@BOTH
@pytest.mark.parametrize(
    ("retry", "tries"),
    [
        (RetryPolicy(maximum=2), ["012", "012", "0", "1", "2"]),
        (RetryPolicy(maximum=2, no_retry_for=(ValueError,)), ["012", "0", "1", "2"]),
        (RetryPolicy(maximum=2, dead_letter="orders.failed"), ["012", "012", "0", "1", "2"]),
    ],
)
async def test_only_the_bad_messages_of_a_batch_become_dead_letters(
    kind: str, jms_app: JmsTestApp, retry: RetryPolicy, tries: list[str]
) -> None:
    attempts: list[str] = []

    def refuse_one(batch: Batch[Order]) -> None:
        numbers = [order.number for order in batch]
        attempts.append("".join(map(str, numbers)))
        if 1 in numbers:
            raise ValueError("1 cannot be stored")

    handler = jms_listener("orders", batch_size=3, batch_timeout=5.0, retry=retry)(
        in_kind(kind, refuse_one)
    )
    await jms_app.start(handler)
    await send(jms_app, *orders(3))
    await jms_app.drained("orders")
    assert attempts == tries
    name = retry.dead_letter or "ActiveMQ.DLQ"
    dead = await jms_app.messages(name)
    assert [m.text for m in dead if isinstance(m, TextMessage)] == ['{"number":1}']


async def test_lists_of_messages_and_headers_and_single_services(jms_app: JmsTestApp) -> None:
    calls: list[tuple[Any, ...]] = []

    class Services(ApplicationContainer):
        store = providers.Object("the store")

    @jms_listener("orders", batch_size=2, batch_timeout=5.0)
    async def handle(
        messages: list[TextMessage],
        regions: Annotated[list[str], Header("region", default="none")],
        all_headers: Annotated[list[dict[str, Any]], Headers()],
        session: Session,
        store: Annotated[str, Provide["store"]],
        limit: int = 7,
    ) -> None:
        texts = [message.text for message in messages]
        calls.append((texts, regions, [h.get("region") for h in all_headers], store, limit))
        assert session.transacted

    await jms_app.start(handle, container=Services)

    def with_region(message: Message) -> Message:
        message.properties["region"] = "EU"
        return message

    await jms_app.template.convert_and_send("orders", "a", post_processor=with_region)
    await jms_app.template.convert_and_send("orders", "b")
    await jms_app.drained("orders", raise_errors=True)
    assert calls == [(["a", "b"], ["EU", "none"], ["EU", None], "the store", 7)]


async def test_payloads_without_a_type_and_batches_of_messages(jms_app: JmsTestApp) -> None:
    seen: list[object] = []

    @jms_listener("a", batch_size=2, batch_timeout=5.0)
    async def untyped(payloads) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        seen.append(payloads)

    @jms_listener("b", batch_size=2, batch_timeout=5.0)
    async def raw(batch: Batch) -> None:  # type: ignore[type-arg]
        seen.append([message.text for message in batch])
        batch.reject(batch[1], "the second")

    await jms_app.start(untyped, raw)
    for name in ("a", "b"):
        await send(jms_app, "x", "y", name=name)
        await jms_app.drained(name, raise_errors=True)
    assert seen == [["x", "y"], ["x", "y"]]
    assert len(await jms_app.dead_letters()) == 1


async def test_interceptors_see_all_messages(jms_app: JmsTestApp) -> None:
    seen: list[int] = []

    async def note(invocation: HandlerInvocation, proceed: Any) -> object:
        assert invocation.message is invocation.messages[-1]
        seen.append(len(invocation.messages))
        return await proceed()

    @jms_listener("orders", batch_size=2, batch_timeout=5.0)
    async def handle(found: list[Order]) -> None: ...

    await jms_app.start(handle, interceptors=[note])
    await send(jms_app, *orders(2))
    await jms_app.drained("orders", raise_errors=True)
    assert seen == [2]


async def test_consumers_share_a_queue_in_batches(jms_app: JmsTestApp) -> None:
    at_work, most = 0, 0
    seen: list[int] = []

    @jms_listener("orders", id="orders", batch_size=5, concurrency="3-3", auto_startup=False)
    async def handle(found: list[Order]) -> None:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await until(lambda: most > 1)
        seen.extend(order.number for order in found)
        at_work -= 1

    application = await jms_app.start(handle)
    await application.registry["orders"].start()
    await application.registry["orders"].wait_until_listening()
    await send(jms_app, *orders(60))
    await jms_app.drained("orders", raise_errors=True)
    assert sorted(seen) == list(range(60))
    assert most > 1


async def test_the_messages_of_client_sessions_are_acknowledged_together(
    jms_app: JmsTestApp,
) -> None:
    attempts: list[int] = []

    @jms_listener("orders", id="orders", batch_size=3, batch_timeout=5.0)
    async def handle(found: list[Order], batch: Batch[Order]) -> None:
        attempts.append(len(found))
        if len(attempts) == 1:
            raise RuntimeError("once")
        batch.reject_at(2, "the last")

    client = {"session": {"transacted": False, "acknowledge_mode": "client"}}
    await jms_app.start(handle, settings=settings(listeners={"orders": client}))
    await send(jms_app, *orders(3))
    await jms_app.drained("orders")
    assert attempts == [3, 3]
    assert len(await jms_app.dead_letters()) == 1


async def test_a_stop_handles_what_has_been_received(jms_app: JmsTestApp) -> None:
    seen: list[list[int]] = []

    @jms_listener("orders", id="orders", batch_size=100, batch_timeout=3600.0)
    async def handle(found: list[Order]) -> None:
        seen.append([order.number for order in found])

    application = await jms_app.start(handle)
    container: Any = application.registry["orders"]
    await send(jms_app, *orders(3))
    await until(lambda: container.consumer_pool.invokers()[0].waiting)
    await _until_dispatched(container, 3)
    await jms_app.stop()
    assert seen == [[0, 1, 2]]
    await jms_app.broker.drained("orders", 5.0)


async def test_a_shutdown_out_of_patience_rolls_the_batch_back(
    jms_app: JmsTestApp, jms_template: JmsTemplate
) -> None:
    called = anyio.Event()

    @jms_listener("orders", id="orders", batch_size=2, batch_timeout=5.0)
    async def handle(found: list[Order]) -> None:
        called.set()
        await anyio.sleep_forever()

    await jms_app.start(handle)
    await send(jms_app, *orders(2))
    await called.wait()
    await jms_app.stop(0.0)
    again = [await jms_template.receive("orders") for _ in range(2)]
    assert [m.redelivered for m in again if m is not None] == [True, True]


async def _until_dispatched(container: Any, count: int) -> None:
    """Wait until the container's only consumer has taken `count` messages."""
    consumer = container.consumer_pool.invokers()[0].consumer
    await until(lambda: len(consumer.ledger.delivered) == count)


@pytest.mark.parametrize(
    ("arguments", "given", "text"),
    [
        ({"batch_size": 0}, {}, "must be"),
        ({"batch_timeout": 1.0}, {}, "no effect without 'batch_size'"),
        ({"batch_size": 10, "batch_timeout": -1.0}, {}, "batch_timeout"),
        ({"batch_size": 10, "prefetch": 5}, {}, "prefetch 5 is less than batch_size 10"),
        ({"batch_size": 10}, {"jms": {"listener": {"prefetch": 5}}}, "prefetch 5 is less"),
        (
            {"batch_size": 10},
            {"listeners": {"orders": {"session": {"transacted": False}}}},
            "would count as consumed before the handler gets them",
        ),
        (
            {"batch_size": 10},
            {
                "jms": {
                    "listener": {"session": {"acknowledge_mode": "dups_ok", "transacted": False}}
                }
            },
            "would count as consumed before the handler gets them",
        ),
        ({"batch_size": 10, "container_factory": "simple"}, {}, "with each message"),
    ],
)
def test_options_that_cannot_work_are_found_before_the_start(
    arguments: dict[str, Any], given: dict[str, Any], text: str
) -> None:
    class Factories(ApplicationContainer):
        simple = providers.Singleton(
            SimpleJmsListenerContainerFactory, ApplicationContainer.listener_connection_factory
        )

    @jms_listener("orders", id="orders", **arguments)
    async def handle(found: list[Order]) -> None: ...

    application = JmsApplication(handle, settings=settings(**given), container=Factories)
    with pytest.raises(ConfigurationException, match=text):
        application.check()


def _one(order: Order) -> None: ...
def _header(found: list[Order], region: Annotated[str, Header()]) -> None: ...
def _message(message: Message) -> None: ...
def _result(found: list[Order]) -> int:
    return len(found)


@send_to("replies")
def _reply(found: list[Order]) -> None: ...


@pytest.mark.parametrize(
    ("handler", "text"),
    [
        (_one, r"'order' must be a list.*write list\[Order\]"),
        (_header, r"'region' must be a list.*the header of each message.*list\[str\]"),
        (_message, r"'message' must be a list.*list\[Message\]"),
        (_result, "the result of a batch handler"),
        (_reply, "@send_to"),
    ],
)
@pytest.mark.parametrize("place", ["decorator", "yaml"])
def test_handlers_that_cannot_take_batches_are_refused(handler: Any, text: str, place: str) -> None:
    given: dict[str, Any] = {"batch_size": 3} if place == "decorator" else {}
    handler.__dict__.pop("__jms_listeners__", None)
    marked = jms_listener("orders", id="orders", **given)(handler)
    own = settings(listeners={"orders": {} if given else {"batch_size": 3}})
    with pytest.raises(ConfigurationException, match=text):
        JmsApplication(marked, settings=own).check()


def test_an_item_is_rejected_once() -> None:
    first, second = TextMessage("a"), TextMessage("b")
    batch: Batch[Any] = Batch([first, second])
    batch.reject(first)
    with pytest.raises(ValueError, match="rejected already"):
        batch.reject(first)
    with pytest.raises(ValueError, match="rejected already"):
        batch.reject_at(0)
    with pytest.raises(ValueError, match="not one of this batch"):
        batch.reject("a")
    assert [*batch.rejections] == [0]
    assert "1 rejected" in repr(batch)


def test_of_equal_items_the_first_that_is_left_is_rejected() -> None:
    batch: Batch[str] = Batch([TextMessage("a"), TextMessage("b"), TextMessage("c")])
    batch.fill(["x", "x", "y"], {})
    batch.reject("x", "one")
    batch.reject("x", "two")
    assert {at: str(reason) for at, reason in batch.rejections.items()} == {0: "one", 1: "two"}


async def test_a_container_calls_a_message_listener_with_batches(
    jms_broker: EmbeddedTestBroker, jms_template: JmsTemplate
) -> None:
    seen: list[list[str]] = []
    done = anyio.Event()

    def listener(batch: Batch[Any], session: Any) -> None:
        seen.append([message.text for message in batch])
        batch.reject(batch[0], "first")

    container = DefaultMessageListenerContainer(
        ConnectionFactory(jms_broker.url),
        destination_name="orders",
        message_listener=listener,
        session_transacted=True,
        batch_size=2,
        batch_timeout=5.0,
    )
    await container.start()
    for text in ("a", "b"):
        await jms_template.convert_and_send("orders", text)
    await jms_broker.drained("orders")
    await container.stop(done.set)
    await done.wait()
    await container.shutdown()
    assert seen == [["a", "b"]]
    assert len(await jms_broker.dead_letters()) == 1


@pytest.mark.parametrize("kind", ["default", "simple"])
async def test_a_container_refuses_batches_that_it_cannot_acknowledge(kind: str) -> None:
    make = DefaultMessageListenerContainer if kind == "default" else SimpleMessageListenerContainer
    container: Any = make(
        ConnectionFactory("tcp://nowhere:1"),
        destination_name="orders",
        message_listener=print,
        batch_size=2,
    )
    with pytest.raises(ValueError, match="batch_size"):
        await container.initialize()
