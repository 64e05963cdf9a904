"""Dead letters: reasons in a line, groups, retry of a group, and a handler run with one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.jms.destination import Queue
from pyjms.jms.failure_reason import reason_of
from pyjms.jms.message import Message, TextMessage
from pyjms_broker.management.model import View
from tests.kit.brokers.managed import ManagedBroker
from tests.kit.processes.command_line import objects, pyjms
from tests.kit.waiting import until
from tests.kit.web.console import console_of

POLICY = "RedeliveryPolicy {destination = null, maximumRedeliveries = 6, preDispatchCheck = true}"
LIMIT = f"Delivery[7] exceeds redelivery policy limit:{POLICY}"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def broker(managed: ManagedBroker, *arguments: str) -> Any:
    return pyjms("broker", *arguments, "--url", managed.url)


def view_of(managed: ManagedBroker, queue: str) -> View[Any]:
    management = managed.service.management
    return management.view(management.context.names.destination(Queue(queue)))


def fail(managed: ManagedBroker, queue: str, error: Exception, *bodies: str) -> None:
    """Let messages become dead letters, as a listener raises for each of them."""

    async def run() -> None:
        options = "jms.redeliveryPolicy.maximumRedeliveries=1"
        delay = "jms.redeliveryPolicy.initialRedeliveryDelay=0"
        factory = ConnectionFactory(f"{managed.openwire}?{options}&{delay}")
        async with await factory.create_connection() as connection:
            session = await connection.create_session()
            producer = await session.create_producer(Queue(queue))
            for body in bodies:
                await producer.send(TextMessage(body))
            consumer = await (await connection.create_session()).create_consumer(Queue(queue))

            async def listen(_: Message) -> None:
                raise error

            await consumer.set_message_listener(listen)
            await connection.start()
            view = view_of(managed, queue)
            await until(lambda: view.get("DequeueCount") == len(bodies))

    managed.call(run)


def reasons(managed: ManagedBroker) -> list[tuple[int, str]]:
    found = objects(broker(managed, "dead-letters", "--json"))
    return [(each["size"], each["reason"]) for each in found]


def test_dead_letters_are_grouped_by_reason_and_a_group_is_retried(managed: ManagedBroker) -> None:
    fail(managed, "orders", ValueError("order 7 is unknown"), "a", "b")
    fail(managed, "bills", OSError("no route"), "c")
    assert reasons(managed) == [
        (2, "2 deliveries failed: ValueError in orders"),
        (1, "2 deliveries failed: OSError in bills"),
    ]
    table = broker(managed, "dead-letters").stdout
    assert "2 deliveries failed: ValueError in orders" in table
    assert "order 7" not in table
    reason = "2 deliveries failed: ValueError in orders"
    done = broker(managed, "retry", "--reason", reason, "--rate", "1000", "--yes")
    assert done.stdout == "2 messages sent back to their original destinations\n", done.output
    assert reasons(managed) == [(1, "2 deliveries failed: OSError in bills")]
    assert managed.queue("orders")["QueueSize"] == 2


def test_the_operation_retries_a_group_with_a_rate(managed: ManagedBroker) -> None:
    fail(managed, "orders", ValueError("unknown"), "a", "b")
    fail(managed, "bills", OSError("no route"), "c")

    async def retry() -> object:
        view = view_of(managed, "ActiveMQ.DLQ")
        return await view.invoke("retryGroup", "2 deliveries failed: ValueError in orders", 1000.0)

    assert managed.call(retry) == 2
    assert reasons(managed) == [(1, "2 deliveries failed: OSError in bills")]


def test_the_console_shows_the_reason_in_a_line_and_retries_its_group(
    managed: ManagedBroker,
) -> None:
    fail(managed, "orders", ValueError("unknown"), "a", "b")

    async def show() -> None:
        reason = "2 deliveries failed: ValueError in orders"
        async with console_of(managed.service) as console:
            page = await console.text("dead-letters")
            assert page.count(reason) >= 3  # the group and both messages
            assert "RedeliveryPolicy" not in page
            message = objects(broker_groups)[0]["example"]
            one = await console.text("message", queue="ActiveMQ.DLQ", id=message)
            assert "RedeliveryPolicy" in one
            fields = {"kind": "queue", "name": "ActiveMQ.DLQ", "reason": reason}
            assert "Retry 2 messages" in await console.text(
                "confirm", action="retry-group", **fields
            )
            done = await console.act("retry-group", **fields)
            assert "2 messages of ActiveMQ.DLQ were sent to the original" in done.text

    broker_groups = broker(managed, "dead-letters", "--json")
    managed.call(show)
    assert managed.queue("orders")["QueueSize"] == 2


@pytest.mark.parametrize(
    ("cause", "properties", "reason"),
    [
        (
            f"java.lang.Throwable: {LIMIT}, cause:com.shop.OrderException: no stock",
            {},
            "7 deliveries failed: OrderException in orders",
        ),
        (
            f"java.lang.Throwable: {LIMIT}, cause:null",
            {},
            "7 deliveries failed in orders",
        ),
        (
            f"java.lang.Throwable: Dispatch[9] to ID:a:1:1:1 exceeds redelivery policy limit:{POLICY}",
            {},
            "9 deliveries failed, at several consumers in orders",
        ),
        ("java.lang.Throwable: Message Expired. Expiration:1700000000000", {}, "expired in orders"),
        (
            "shop.errors.Unknown: x",
            {"pyjms_failure_type": "shop.errors.Unknown"},
            "refused at once: Unknown in orders",
        ),
        (
            "shop.errors.Unknown: x",
            {
                "pyjms_failure_type": "shop.errors.Unknown",
                "pyjms_original_destination": "queue://orders",
            },
            "given up: Unknown in orders",
        ),
        ("", {}, "no reason given in orders"),
    ],
)
@pytest.mark.fact("activemq-broker L10")
def test_causes_of_clients_in_a_line(cause: str, properties: dict[str, str], reason: str) -> None:
    given = {**properties, **({"dlqDeliveryFailureCause": cause} if cause else {})}
    assert reason_of(given, "queue://orders") == reason


HANDLERS = """
from pyjms import jms_listener

@jms_listener("orders")
async def on_order(text: str) -> str:
    if text == "bad":
        raise ValueError("order bad is unknown")
    return text.upper()
"""


@pytest.mark.parametrize("kind", ["async def", "def"])
@pytest.mark.parametrize(("body", "code"), [("good", 0), ("bad", 1)])
def test_a_handler_is_run_with_one_message_which_stays(
    managed: ManagedBroker, tmp_path: Path, body: str, code: int, kind: str
) -> None:
    fail(managed, "orders", ValueError("x"), body)
    (group,) = objects(broker(managed, "dead-letters", "--json"))
    file = tmp_path / f"replayed_{body}_{kind[:3]}.py"
    file.write_text(HANDLERS.replace("async def", kind), encoding="utf-8")
    done = pyjms("replay", group["example"], f"{file}:on_order", "--url", managed.openwire)
    assert done.exit_code == code, done.output
    if code:
        assert "ValueError: order bad is unknown" in done.output
    else:
        assert "on_order returned 'GOOD'" in done.stdout
    assert managed.queue("ActiveMQ.DLQ")["QueueSize"] == 1


def test_replay_names_the_handlers_and_the_queue(managed: ManagedBroker, tmp_path: Path) -> None:
    file = tmp_path / "handlers_of_replay.py"
    file.write_text(HANDLERS, encoding="utf-8")
    other = pyjms("replay", "ID:x", f"{file}:other", "--url", managed.openwire)
    assert "The application has no handler other (it has on_order)" in other.stderr
    missing = pyjms("replay", "ID:x", f"{file}:on_order", "--url", managed.openwire)
    assert f"queue://ActiveMQ.DLQ has no message ID:x on {managed.openwire}" in missing.stderr
    assert "`pyjms browse ActiveMQ.DLQ --headers` prints the ids" in missing.stderr


def test_replay_asks_the_broker_of_the_settings(managed: ManagedBroker, tmp_path: Path) -> None:
    file = tmp_path / "handlers_of_settings.py"
    file.write_text(HANDLERS, encoding="utf-8")
    config = tmp_path / "application.yaml"
    config.write_text(f"activemq: {{broker_url: '{managed.openwire}'}}\n", encoding="utf-8")
    missing = pyjms("replay", "ID:x", f"{file}:on_order", "--config", str(config))
    assert f"ID:x on {managed.openwire}" in missing.stderr


def test_replay_asks_the_other_broker_of_a_listener(managed: ManagedBroker, tmp_path: Path) -> None:
    fail(managed, "orders", ValueError("x"), "good")
    (group,) = objects(broker(managed, "dead-letters", "--json"))
    file = tmp_path / "handlers_of_another_broker.py"
    marks = HANDLERS.replace('("orders")', '("orders", container_factory="audit")')
    file.write_text(marks, encoding="utf-8")
    config = tmp_path / "application.yaml"
    config.write_text(
        "activemq: {broker_url: 'tcp://127.0.0.1:1'}\n"
        f"brokers: {{audit: {{broker_url: '{managed.openwire}'}}}}\n",
        encoding="utf-8",
    )
    done = pyjms("replay", group["example"], f"{file}:on_order", "--config", str(config))
    assert done.exit_code == 0, done.output
    assert "on_order returned 'GOOD'" in done.stdout


def test_a_broker_without_a_dead_letter_queue_has_no_dead_letters(managed: ManagedBroker) -> None:
    for command in (("dead-letters",), ("retry", "--yes")):
        done = broker(managed, *command)
        assert (done.exit_code, done.stdout) == (0, "")
        assert done.stderr == "there are no dead letters\n"


def test_browse_tells_where_a_dead_letter_was_and_why_it_is_one(managed: ManagedBroker) -> None:
    fail(managed, "orders", ValueError("order 7 is unknown"), "a")
    command = ("browse", "ActiveMQ.DLQ", "--url", managed.openwire)
    lines = pyjms(*command, "--headers").stdout.splitlines()
    assert "OriginalDestination: queue://orders" in lines
    assert "reason: 2 deliveries failed: ValueError in orders" in lines
    (found,) = objects(pyjms(*command, "--json"))
    assert found["OriginalDestination"] == "queue://orders"
    assert found["reason"] == "2 deliveries failed: ValueError in orders"


def test_browse_says_that_a_queue_is_empty(managed: ManagedBroker) -> None:
    done = pyjms("browse", "empty", "--url", managed.openwire)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "there are no messages\n")
