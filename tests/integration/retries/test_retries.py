"""Retry policies and what handlers raise, on the real broker: delays, attempts, dead letters."""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import Any

import pytest

from pyjms import (
    Batch,
    ConfigurationException,
    JmsApplication,
    PyjmsSettings,
    Reject,
    Retry,
    RetryPolicy,
    Skip,
    jms_listener,
)
from pyjms.aio import ConnectionFactory, DefaultMessageListenerContainer, JmsTemplate, Session
from pyjms.testing.app import JmsTestApp
from pyjms.testing.clock import VirtualClock
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.queues import messages_in, texts_in


def settings(**sections: Any) -> PyjmsSettings:
    return PyjmsSettings.model_validate(sections)


class Unfit(Exception):
    """An error that no other attempt mends."""


GIVEN = RetryPolicy(maximum=2, no_retry_for=(Unfit,), dead_letter="orders.failed")


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize(
    ("error", "attempts", "dead"),
    [
        (None, 1, None),
        (Skip("not for us"), 1, None),
        (RuntimeError("down"), 3, "orders.failed"),
        (Retry("busy", delay=0.0), 3, "orders.failed"),
        (Reject("never"), 1, "orders.failed"),
        (Unfit("broken"), 1, "orders.failed"),
    ],
)
async def test_what_a_handler_raises_decides(
    kind: str, error: Exception | None, attempts: int, dead: str | None, jms_app: JmsTestApp
) -> None:
    calls: list[str] = []

    def fail(text: str) -> None:
        calls.append(text)
        if error is not None and text == "a":
            raise error

    async def fail_on_the_loop(text: str) -> None:
        fail(text)

    handler: Any = fail if kind == "def" else fail_on_the_loop
    await jms_app.start(jms_listener("orders", id="orders", retry=GIVEN)(handler))
    for text in ("a", "b"):
        await jms_app.template.convert_and_send("orders", text)
    await jms_app.drained("orders")
    assert calls == ["a"] * attempts + ["b"]
    assert await texts_in(jms_app.template, "ActiveMQ.DLQ") == []
    assert await texts_in(jms_app.template, "orders.failed") == ([] if dead is None else ["a"])


class _Unknown(type(Exception)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: object) -> bool:
        raise LookupError("nobody knows")


class Unknown(Exception, metaclass=_Unknown):
    """An exception type of which nobody knows what belongs to it."""


@pytest.mark.parametrize("dead_letter", [None, "orders.failed"])
async def test_a_policy_that_fails_itself_loses_no_message(
    dead_letter: str | None, jms_app: JmsTestApp
) -> None:
    @jms_listener(
        "orders", retry=RetryPolicy(maximum=1, retry_on=(Unknown,), dead_letter=dead_letter)
    )
    async def handle(text: str) -> None:
        raise RuntimeError("down")

    await jms_app.start(handle)
    await jms_app.template.convert_and_send("orders", "a")
    await jms_app.drained("orders")
    assert len(jms_app.recorder.calls(handle)) == 2
    assert await texts_in(jms_app.template, dead_letter or "ActiveMQ.DLQ") == ["a"]


def test_exception_types_may_be_a_list_or_one_type() -> None:
    policy = RetryPolicy(retry_on=[OSError, KeyError], no_retry_for=Unfit)  # type: ignore[arg-type]
    assert (policy.retry_on, policy.no_retry_for) == ((OSError, KeyError), (Unfit,))
    with pytest.raises(TypeError, match="'retry_on' takes types of exceptions"):
        RetryPolicy(retry_on=[5])  # type: ignore[arg-type]


async def test_a_dead_letter_has_the_reason_and_where_it_comes_from(jms_app: JmsTestApp) -> None:
    @jms_listener("orders", retry=GIVEN)
    def handle(text: str) -> None:
        raise RuntimeError(f"cannot store {text}")

    await jms_app.start(handle)

    def mark(message: Any) -> Any:
        message.properties["customer"] = 7
        message.correlation_id = "c-1"
        return message

    await jms_app.template.convert_and_send("orders", "a", post_processor=mark, priority=8)
    await jms_app.drained("orders")
    (dead,) = await messages_in(jms_app.template, "orders.failed")
    assert dead.properties["pyjms_failure_type"] == "RuntimeError"
    assert dead.properties["pyjms_failure_text"] == "cannot store a"
    assert dead.properties["dlqDeliveryFailureCause"] == "RuntimeError: cannot store a"
    assert dead.properties["pyjms_original_destination"] == "queue://orders"
    assert str(dead.properties["pyjms_original_message_id"]).startswith("ID:")
    assert (dead.properties["customer"], dead.correlation_id, dead.priority) == (7, "c-1", 8)


async def test_what_a_failed_handler_has_sent_is_not_committed_with_its_dead_letter(
    jms_app: JmsTestApp,
) -> None:
    @jms_listener("orders", retry=RetryPolicy(maximum=0, dead_letter="orders.failed"))
    async def handle(text: str, session: Session) -> None:
        producer = await session.create_producer(session.create_queue("half"))
        await producer.send(session.create_text_message("half done"))
        raise RuntimeError(text)

    await jms_app.start(handle)
    await jms_app.template.convert_and_send("orders", "a")
    await jms_app.drained("orders")
    assert await texts_in(jms_app.template, "orders.failed") == ["a"]
    assert await texts_in(jms_app.template, "half") == []


async def test_without_a_separate_destination_the_broker_makes_dead_letters(
    jms_app: JmsTestApp,
) -> None:
    calls: list[str] = []

    @jms_listener("orders", retry=RetryPolicy(maximum=1, retry_on=(OSError,)))
    async def handle(text: str) -> None:
        calls.append(text)
        raise OSError(text) if text == "again" else KeyError(text)

    await jms_app.start(handle)
    for text in ("again", "once"):
        await jms_app.template.convert_and_send("orders", text)
    await jms_app.drained("orders")
    assert calls == ["again", "again", "once"]
    dead = await jms_app.dead_letters()
    assert [m.properties["pyjms_failure_type"] for m in dead] == [
        "builtins.OSError",
        "KeyError",
    ] or [m.properties["pyjms_failure_type"] for m in dead] == ["OSError", "KeyError"]


async def test_unreadable_messages_go_to_the_destination_of_the_policy(
    jms_app: JmsTestApp,
) -> None:
    @jms_listener("orders", retry=GIVEN)
    async def handle(number: int) -> None:
        raise AssertionError(number)

    await jms_app.start(handle)
    await jms_app.template.convert_and_send("orders", "rubbish")
    await jms_app.drained("orders")
    assert await texts_in(jms_app.template, "orders.failed") == ["rubbish"]


async def attempts_at(
    jms_clock: VirtualClock,
    jms_broker: EmbeddedTestBroker,
    template: JmsTemplate,
    seconds: float,
    **given: Any,
) -> list[tuple[str, float]]:
    """Return the attempts at the messages a and b, with their times; a fails always."""
    times: list[tuple[str, float]] = []
    raised = given.pop("raised", None)

    @jms_listener("orders", id="orders", retry=given.pop("retry", None))
    async def handle(text: str) -> None:
        times.append((text, round(jms_clock.now() - started, 3)))
        if text == "a":
            raise raised or RuntimeError(text)

    url = jms_broker.url + given.pop("query", "")
    async with JmsApplication(handle, settings=settings(**given).with_broker_url(url)):
        started = jms_clock.now()
        for text in ("a", "b"):
            await template.convert_and_send("orders", text)
        await jms_clock.settle()
        for _ in range(round(seconds / 0.5)):
            await jms_clock.advance(0.5)
            await jms_clock.settle()
    return times


SLOW = RetryPolicy(maximum=3, initial_delay=1.0, multiplier=2.0, max_delay=3.0)


async def test_delays_grow_and_what_follows_waits(
    jms_clock: VirtualClock, jms_broker: EmbeddedTestBroker, jms_template: JmsTemplate
) -> None:
    times = await attempts_at(jms_clock, jms_broker, jms_template, 8.0, retry=SLOW)
    assert times == [("a", 0.0), ("a", 1.0), ("a", 3.0), ("a", 6.0), ("b", 6.0)]


async def test_what_follows_passes_with_non_blocking_redelivery(
    jms_clock: VirtualClock, jms_broker: EmbeddedTestBroker, jms_template: JmsTemplate
) -> None:
    times = await attempts_at(
        *(jms_clock, jms_broker, jms_template, 8.0),
        retry=SLOW,
        activemq={"non_blocking_redelivery": True},
    )
    assert times == [("a", 0.0), ("b", 0.0), ("a", 1.0), ("a", 3.0), ("a", 6.0)]


@pytest.mark.parametrize("retry", [None, SLOW])
async def test_a_retry_has_its_own_delay(
    retry: RetryPolicy | None,
    jms_clock: VirtualClock,
    jms_broker: EmbeddedTestBroker,
    jms_template: JmsTemplate,
) -> None:
    times = await attempts_at(
        *(jms_clock, jms_broker, jms_template, 4.0), retry=retry, raised=Retry(delay=1.5)
    )
    assert [round(y - x, 3) for (_, x), (_, y) in pairwise(times) if x != y][:2] == [1.5, 1.5]


async def test_yaml_changes_the_decorators_policy(
    jms_clock: VirtualClock, jms_broker: EmbeddedTestBroker, jms_template: JmsTemplate
) -> None:
    own = {"maximum": 1, "initial_delay": "2s", "multiplier": 1, "dead_letter": "elsewhere"}
    times = await attempts_at(
        *(jms_clock, jms_broker, jms_template, 4.0),
        retry=SLOW,
        listeners={"orders": {"retry": own}},
    )
    assert times == [("a", 0.0), ("a", 2.0), ("b", 2.0)]
    assert await texts_in(jms_template, "elsewhere") == ["a"]


async def test_yaml_names_exceptions(jms_app: JmsTestApp) -> None:
    calls: list[str] = []

    @jms_listener("orders", id="orders")
    async def handle(text: str) -> None:
        calls.append(text)
        raise ValueError(text)

    own = {"no_retry_for": ["ValueError", "json.JSONDecodeError"], "dead_letter": "${app.dead}"}
    await jms_app.start(
        handle, settings=settings(listeners={"orders": {"retry": own}}, app={"dead": "failed"})
    )
    await jms_app.template.convert_and_send("orders", "a")
    await jms_app.drained("orders")
    assert calls == ["a"]
    assert await texts_in(jms_app.template, "failed") == ["a"]


async def test_messages_of_a_batch_are_given_up_while_others_continue(jms_app: JmsTestApp) -> None:
    seen: list[list[str]] = []

    @jms_listener("orders", id="orders", batch_size=2, retry=RetryPolicy(
        maximum=1, dead_letter="orders.failed"
    ), batch_timeout=0.0)  # fmt: skip
    async def handle(batch: Batch[str]) -> None:
        seen.append([*batch])
        if "a" in batch:
            raise RuntimeError("a")

    await jms_app.start(handle)
    await jms_app.template.convert_and_send("orders", "a")
    await jms_app.drained("orders")
    await jms_app.template.convert_and_send("orders", "b")
    await jms_app.drained("orders")
    assert seen == [["a"], ["a"], ["b"]]
    assert await texts_in(jms_app.template, "orders.failed") == ["a"]


async def test_a_batch_rejects_to_the_destination_of_the_policy(jms_app: JmsTestApp) -> None:
    @jms_listener("orders", batch_size=2, retry=GIVEN)
    async def handle(batch: Batch[str]) -> None:
        batch.reject_at(0, "no")

    await jms_app.start(handle)
    await jms_app.template.convert_and_send("orders", "a")
    await jms_app.drained("orders")
    assert await texts_in(jms_app.template, "orders.failed") == ["a"]


@pytest.mark.parametrize("own", [Skip(), Retry(delay=0.0)])
async def test_a_container_made_by_hand_knows_them_too(
    own: Exception, jms_broker: EmbeddedTestBroker
) -> None:
    calls: list[str] = []

    async def listener(message: Any) -> None:
        calls.append(message.text)
        if len(calls) == 1:
            raise own

    factory = ConnectionFactory(jms_broker.url)
    container = DefaultMessageListenerContainer(
        factory, destination_name="orders", message_listener=listener, session_transacted=True
    )
    await container.start()
    await JmsTemplate(factory).convert_and_send("orders", "a")
    await jms_broker.drained("orders")
    await container.shutdown()
    assert calls == ["a"] if isinstance(own, Skip) else ["a", "a"]


async def test_the_messages_of_client_sessions_are_retried(jms_app: JmsTestApp) -> None:
    calls: list[str] = []

    @jms_listener("orders", id="orders", retry=GIVEN)
    async def handle(text: str) -> None:
        calls.append(text)
        raise RuntimeError(text)

    client = {"session": {"transacted": False, "acknowledge_mode": "client"}}
    await jms_app.start(handle, settings=settings(listeners={"orders": client}))
    await jms_app.template.convert_and_send("orders", "a")
    await jms_app.drained("orders")
    assert calls == ["a", "a", "a"]
    assert await texts_in(jms_app.template, "orders.failed") == ["a"]


async def test_a_message_given_up_has_one_line(
    jms_app: JmsTestApp, caplog: pytest.LogCaptureFixture
) -> None:
    @jms_listener("orders", id="orders", retry=GIVEN)
    async def handle(text: str) -> None:
        raise Unfit(text)

    await jms_app.start(handle)
    with caplog.at_level(logging.INFO):
        await jms_app.template.convert_and_send("orders", "a")
        await jms_app.drained("orders")
    (line,) = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert "of queue://orders to orders.failed after attempt 1: " in line
    place = handle.__code__.co_firstlineno + 2
    assert line.endswith(f"Unfit: a (test_retries.py:{place})")


async def test_skipping_is_a_debug_line(
    jms_app: JmsTestApp, caplog: pytest.LogCaptureFixture
) -> None:
    @jms_listener("orders", id="orders")
    async def handle(text: str) -> None:
        raise Skip("not mine")

    await jms_app.start(handle)
    with caplog.at_level(logging.DEBUG):
        await jms_app.template.convert_and_send("orders", "a")
        await jms_app.drained("orders")
    assert any("Listener orders skips message ID:" in r.getMessage() for r in caplog.records)
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


DEFAULT = {"maximum": 1, "no_retry_for": ["ValueError"], "dead_letter": "failed"}


async def test_yaml_has_a_policy_for_all_listeners(jms_app: JmsTestApp) -> None:
    calls: list[str] = []

    def fail(name: str) -> Any:
        async def handle(text: str) -> None:
            calls.append(name)
            raise ValueError(name) if text == "bad" else RuntimeError(name)

        return handle

    handlers = [
        jms_listener("a", id="a")(fail("a")),
        jms_listener("own", id="own", retry=RetryPolicy(maximum=2))(fail("own")),
        jms_listener("changed", id="changed")(fail("changed")),
        jms_listener("redelivered", id="redelivered")(fail("redelivered")),
        jms_listener("auto", id="auto")(fail("auto")),
        jms_listener("failed", id="failed")(fail("failed")),
    ]
    await jms_app.start(
        *handlers,
        settings=settings(
            jms={"listener": {"retry": DEFAULT}},
            listeners={
                "changed": {"retry": {"maximum": 0}},
                "redelivered": {"redelivery": {"maximum": 3}},
                "auto": {"session": {"transacted": False}},
                "failed": {"auto_startup": False},
            },
        ),
    )
    for name in ("a", "own", "changed", "redelivered", "auto"):
        await jms_app.template.convert_and_send(name, "x")
    await jms_app.template.convert_and_send("a", "bad")
    for name in ("a", "own", "changed", "redelivered", "auto"):
        await jms_app.drained(name)
    assert {name: calls.count(name) for name in calls} == {
        "a": 2 + 1, "own": 3, "changed": 1, "redelivered": 4, "auto": 1,
    }  # fmt: skip
    assert sorted(map(str, await texts_in(jms_app.template, "failed"))) == ["bad", "x", "x"]
    assert len(await texts_in(jms_app.template, "ActiveMQ.DLQ")) == 2
    await jms_app.application.registry["failed"].start()
    await jms_app.drained("failed")
    assert calls.count("failed") == 2 + 2 + 1
    assert len(await texts_in(jms_app.template, "ActiveMQ.DLQ")) == 2 + 3


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"retry_on": ["nowhere.Error"]}, "jms.listener.retry: .*cannot be imported"),
        ({"dead_letter": "topc://x"}, "jms.listener.retry: .*Invalid destination name"),
        ({"initial_delay": "2s", "max_delay": "1s"}, "jms.listener.retry: .*max_delay"),
    ],
)
def test_a_policy_for_all_listeners_is_wrong_once(given: dict[str, Any], text: str) -> None:
    @jms_listener("orders")
    async def handle(text: str) -> None: ...

    @jms_listener("bills")
    async def other(text: str) -> None: ...

    application = JmsApplication(
        handle, other, settings=settings(jms={"listener": {"retry": given}})
    )
    with pytest.raises(ConfigurationException, match=text) as refusal:
        application.check()
    assert len(refusal.value.problems) == 1


@pytest.mark.parametrize(
    ("retry", "given", "text"),
    [
        (GIVEN, {"session": {"transacted": False}}, "count as consumed even if the handler fails"),
        (GIVEN, {"redelivery": {"maximum": 1}}, "write listeners.<id>.retry instead"),
        (RetryPolicy(dead_letter="orders"), {}, "is the listener's own destination"),
        (RetryPolicy(dead_letter="topc://x"), {}, "Invalid destination name"),
        (None, {"retry": {"retry_on": ["nowhere.Error"]}}, "cannot be imported"),
        (None, {"retry": {"no_retry_for": ["dict"]}}, "'dict' is not an exception"),
        (SLOW, {"retry": {"max_delay": "500ms"}}, "max_delay"),
    ],
)
def test_what_cannot_work_is_found_before_the_start(
    retry: RetryPolicy | None, given: dict[str, Any], text: str
) -> None:
    @jms_listener("orders", id="orders", retry=retry)
    async def handle(text: str) -> None: ...

    own = settings(listeners={"orders": given})
    with pytest.raises(ConfigurationException, match=text):
        JmsApplication(handle, settings=own).check()


def test_redelivery_and_retry_contradict_each_other() -> None:
    both = {"redelivery": {"maximum": 1}, "retry": {"maximum": 2}}
    with pytest.raises(ValueError, match="contradict"):
        settings(listeners={"orders": both})


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"maximum": -2}, ValueError),
        ({"multiplier": 0.5}, ValueError),
        ({"jitter": 2}, ValueError),
        ({"initial_delay": -1.0}, ValueError),
        ({"initial_delay": 3.0, "max_delay": 1.0}, ValueError),
        ({"retry_on": ("OSError",)}, TypeError),
    ],
)
def test_a_policy_checks_its_values(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        RetryPolicy(**arguments)


@pytest.mark.parametrize("delay", [-1.0, float("inf"), float("nan")])
def test_a_delay_is_a_finite_number(delay: float) -> None:
    with pytest.raises(ValueError, match="delay"):
        Retry(delay=delay)
