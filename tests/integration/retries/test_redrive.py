"""Redriving dead letters, from code and on the command line."""

from __future__ import annotations

from typing import Any

import pytest

import pyjms
from pyjms import InvalidSelectorException, RetryPolicy, jms_listener
from pyjms.aio import JmsTemplate, redrive
from pyjms.testing.app import JmsTestApp
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.queues import messages_in, texts_in
from tests.kit.processes.command_line import pyjms as command


class Listener:
    """Fails until it is mended; its dead letters go to the broker's queue, or its own."""

    def __init__(self) -> None:
        self.is_broken = True
        self.handled: list[str] = []

    @jms_listener("orders", id="orders", retry=RetryPolicy(maximum=0))
    async def on_order(self, text: str) -> None:
        self._handle(text)

    @jms_listener("bills", id="bills", retry=RetryPolicy(maximum=0, dead_letter="failed"))
    async def on_bill(self, text: str) -> None:
        self._handle(text)

    def _handle(self, text: str) -> None:
        if self.is_broken:
            raise RuntimeError(text)
        self.handled.append(text)


@pytest.fixture
async def listener(jms_app: JmsTestApp) -> Listener:
    made = Listener()
    await jms_app.start(made)
    for name in ("orders", "bills"):
        for number in range(3):
            await jms_app.template.convert_and_send(name, f"{name} {number}")
        await jms_app.drained(name)
    return made


@pytest.mark.parametrize(("queue", "name"), [("ActiveMQ.DLQ", "orders"), ("failed", "bills")])
async def test_dead_letters_return_to_where_they_were_sent(
    queue: str, name: str, listener: Listener, jms_app: JmsTestApp
) -> None:
    listener.is_broken = False
    done = await redrive(jms_app.template, queue, timeout=0.3)
    assert (done.count, done.by_destination, done.left) == (3, {f"queue://{name}": 3}, [])
    await jms_app.drained(name, timeout=30.0)
    assert listener.handled == [f"{name} {number}" for number in range(3)]
    assert await texts_in(jms_app.template, queue) == []


@pytest.mark.parametrize(("queue", "name"), [("ActiveMQ.DLQ", "orders"), ("failed", "bills")])
async def test_what_fails_again_is_not_sent_again(
    queue: str, name: str, listener: Listener, jms_app: JmsTestApp
) -> None:
    done = await redrive(jms_app.template, queue, timeout=0.5)
    assert done.count == 3
    await jms_app.drained(name)
    assert len(await texts_in(jms_app.template, queue)) == 3
    assert (await redrive(jms_app.template, queue, timeout=0.5)).count == 3


async def test_a_selector_a_limit_and_another_destination(
    listener: Listener, jms_app: JmsTestApp
) -> None:
    template = jms_app.template
    done = await redrive(template, destination="queue://repair", limit=2, timeout=0.3)
    assert done.by_destination == {"queue://repair": 2}
    none = await redrive(template, selector="pyjms_failure_type = 'OSError'", timeout=0.3)
    assert none.count == 0
    some = await redrive(
        template, destination="repair", selector="pyjms_failure_text LIKE 'orders%'", timeout=0.3
    )
    assert some.count == 1
    repaired = await messages_in(template, "repair")
    assert await texts_in(template, "repair") == [f"orders {number}" for number in range(3)]
    assert "pyjms_failure_type" not in repaired[0].properties


async def test_what_has_no_destination_is_left(
    jms_broker: EmbeddedTestBroker, jms_template: JmsTemplate
) -> None:
    await jms_template.convert_and_send("ActiveMQ.DLQ", "by hand")
    await jms_template.convert_and_send("ActiveMQ.DLQ", "of artemis", post_processor=_of_artemis)
    done = await redrive(jms_template, timeout=0.3)
    assert done.by_destination == {"queue://orders": 1}
    assert len(done.left) == 1
    (left,) = await jms_broker.dead_letters()
    assert left.message_id is not None
    assert str(left.message_id) == done.left[0]


def _of_artemis(message: Any) -> Any:
    message.properties["_AMQ_ORIG_QUEUE"] = "orders"
    return message


async def test_arguments_are_checked(jms_template: JmsTemplate) -> None:
    with pytest.raises(InvalidSelectorException):
        await redrive(jms_template, selector="colour =")
    with pytest.raises(ValueError, match="limit"):
        await redrive(jms_template, limit=0)


def test_the_blocking_api_redrives() -> None:
    url = "vm://redrives?broker.persistent=false"
    factory = pyjms.CachingConnectionFactory(pyjms.ConnectionFactory(url))
    template = pyjms.JmsTemplate(factory, receive_timeout=5.0)
    template.convert_and_send("ActiveMQ.DLQ", "a")
    assert pyjms.redrive(template, destination="back", timeout=0.2).count == 1
    assert template.receive_and_convert("back") == "a"
    factory.destroy()


def test_the_command_redrives(our_broker: str, name: str) -> None:
    for text in ("a", "b"):
        sent = command("send", f"{name}.dead", text, "--url", our_broker)
        assert sent.exit_code == 0, sent.output
    quick = ("--url", our_broker, "--timeout", "300ms")
    left = command("redrive", f"{name}.dead", *quick, "--yes")
    assert left.exit_code == 1
    assert "no message sent" in left.stdout
    assert f"2 messages left in {name}.dead" in left.stderr
    done = command("redrive", f"{name}.dead", "--to", name, *quick, "--yes")
    assert done.stdout == f"2 messages sent to queue://{name}\n"
    assert command("receive", name, *quick, "--all").stdout == "a\nb\n"


def test_the_command_tells_the_numbers_and_asks(our_broker: str, name: str) -> None:
    for text in ("a", "b"):
        command("send", f"{name}.dead", text, "--url", our_broker)
    run = ("redrive", f"{name}.dead", "--url", our_broker)
    unknown = command(*run, "--dry-run")
    assert unknown.stdout.splitlines() == [
        "  2 stay: their original destination is not known",
        f"Send 0 messages of {name}.dead back: not done (--dry-run)",
    ]
    planned = command(*run, "--to", name, "--limit", "1", "--dry-run")
    assert planned.stdout.splitlines() == [
        f"  1 to queue://{name}",
        f"Send 1 message of {name}.dead back: not done (--dry-run)",
    ]
    refused = command(*run, "--to", name)
    assert refused.exit_code == 2
    assert "needs a confirmation, but standard input is not a terminal" in refused.stderr
    assert command("browse", f"{name}.dead", "--url", our_broker).stdout == "a\nb\n"
