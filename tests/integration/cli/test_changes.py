"""Commands that change messages of a running broker: purge, move, retry; and restart."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import anyio
import pytest

from pyjms.jms.failure_reason import ORIGINAL_DESTINATION
from pyjms_broker.cli.management.queues import as_selector
from pyjms_broker.cli.start import serve
from pyjms_broker.service import BrokerService
from tests.kit.brokers.managed import ManagedBroker
from tests.kit.processes.command_line import objects, pyjms
from tests.kit.waiting import until


def broker(managed: ManagedBroker, *arguments: str) -> Any:
    return pyjms("broker", *arguments, "--url", managed.url)


def send(managed: ManagedBroker, queue: str, *bodies: str, options: tuple[str, ...] = ()) -> None:
    lines = "\n".join(bodies) + "\n"
    done = pyjms("send", queue, "--lines", *options, "--url", managed.openwire, stdin=lines)
    assert done.exit_code == 0, done.output


def bodies(managed: ManagedBroker, queue: str) -> list[str]:
    return pyjms("browse", queue, "--url", managed.openwire).stdout.split()


@pytest.mark.fact("activemq-edges CL6")
def test_purge_of_queues_by_wildcard(managed: ManagedBroker) -> None:
    for name in ("orders.a", "orders.b", "other"):
        send(managed, name, "x", "y")
    said = broker(managed, "purge", "orders.*", "--yes")
    assert said.exit_code == 0, said.output
    assert said.stdout == (
        "INFO: Purging all messages in queue: orders.a\n"
        "INFO: Purging all messages in queue: orders.b\n"
    )
    assert [managed.queue(n)["QueueSize"] for n in ("orders.a", "orders.b", "other")] == [0, 0, 2]


@pytest.mark.fact("activemq-edges CL6")
def test_purge_by_selector_and_reset(managed: ManagedBroker) -> None:
    send(managed, "q", "1", "2", options=("-p", "colour=red"))
    send(managed, "q", "3", options=("-p", "colour=blue"))
    said = broker(managed, "purge", "q", "--msgsel", "colour='r*',JMSPriority=4", "--reset", "-y")
    assert said.exit_code == 0, said.output
    selector = "(colour LIKE 'r%') AND (JMSPriority=4)"
    assert f"Removed: 2 messages for message selector {selector}\n" in said.stdout
    assert bodies(managed, "q") == ["3"]
    assert managed.queue("q")["EnqueueCount"] == 0


def test_purge_refuses_without_a_terminal_for_the_confirmation(managed: ManagedBroker) -> None:
    send(managed, "q", "1", "2")
    refused = broker(managed, "purge", "q")
    assert refused.exit_code == 2
    assert "needs a confirmation, but standard input is not a terminal (add --yes" in refused.stderr
    assert managed.queue("q")["QueueSize"] == 2


@pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals are absent on Windows")
@pytest.mark.parametrize(("answer", "code", "left"), [("n", 1, 2), ("y", 0, 0)])
def test_purge_asks_with_the_number_of_messages(
    managed: ManagedBroker, answer: str, code: int, left: int
) -> None:
    send(managed, "q", "1", "2")
    terminal, inside = os.openpty()
    with os.fdopen(terminal, "w") as keyboard, os.fdopen(inside) as stdin:
        main = "from pyjms.cli.main import main; main()"
        with subprocess.Popen(
            [sys.executable, "-c", main, "broker", "purge", "q", "--url", managed.url],
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            keyboard.write(f"{answer}\n")
            keyboard.flush()
            _, said = process.communicate(timeout=50)
    assert "q: 2 messages" in said
    assert "Remove all messages of 1 queue with 2 messages?" in said
    assert process.returncode == code
    assert managed.queue("q")["QueueSize"] == left


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        (
            ("purge", "q", "--msgsel", "colour='red'"),
            [
                "  q: 2 messages that match, of 3 messages",
                "Remove the messages that match (colour='red') of 1 queue with 2 messages",
            ],
        ),
        (
            ("move", "q", "to", "--limit", "2"),
            [
                "  q: 3 messages",
                "Move at most 2 messages to queue://to from 1 queue with 3 messages",
            ],
        ),
        (("queue", "delete", "q"), ["  q: 3 messages", "Delete 1 queue with 3 messages"]),
    ],
)
def test_a_dry_run_tells_the_numbers_and_changes_nothing(
    managed: ManagedBroker, command: tuple[str, ...], lines: list[str]
) -> None:
    send(managed, "q", "1", "2", options=("-p", "colour=red"))
    send(managed, "q", "3", options=("-p", "colour=blue"))
    said = broker(managed, *command, "--dry-run", "--yes")
    assert (said.exit_code, said.stderr) == (0, "")
    assert said.stdout == "\n".join(lines) + ": not done (--dry-run)\n"
    assert bodies(managed, "q") == ["1", "2", "3"]


def test_a_queue_that_does_not_exist(managed: ManagedBroker) -> None:
    said = broker(managed, "purge", "nothing", "--yes")
    assert said.exit_code == 1
    assert "There is no queue nothing at http://" in said.stderr
    wrong = broker(managed, "purge", "topic://t", "--yes")
    assert wrong.exit_code == 2
    assert "topic://t is not a queue (write queue://t, or t)" in wrong.stderr


def test_move_and_copy_with_selector_and_limit(managed: ManagedBroker) -> None:
    send(managed, "from", "1", "2", "3", options=("-p", "colour=red"))
    send(managed, "from", "4", options=("-p", "colour=blue"))
    moved = broker(
        *(managed, "move", "from", "to", "--selector", "colour = 'red'", "--limit", "2", "-y")
    )
    assert moved.stdout == "2 messages moved from from to queue://to\n"
    assert (bodies(managed, "from"), bodies(managed, "to")) == (["3", "4"], ["1", "2"])
    copied = broker(managed, "move", "from", "queue://copies", "--copy", "--yes")
    assert copied.stdout == "2 messages copied from from to queue://copies\n"
    assert (bodies(managed, "from"), bodies(managed, "copies")) == (["3", "4"], ["3", "4"])
    assert broker(managed, "move", "from", "ftp://x", "--yes").exit_code == 2
    assert broker(managed, "move", "from", "from", "--yes").exit_code == 1


def dead_letters(managed: ManagedBroker) -> None:
    """Let `old`, of queue `work`, and `odd`, of queue `other`, become dead letters."""
    for number, (queue, body) in enumerate((("work", "old"), ("other", "odd")), start=1):
        send(managed, queue, body, options=("--ttl", "1ms"))
        received = pyjms("receive", queue, "--timeout", "100ms", "--url", managed.openwire)
        assert received.exit_code == 3

        async def dead_lettered(expected: int = number) -> None:
            management = managed.service.management
            wanted = "org.apache.activemq:*,destinationType=Queue,destinationName=ActiveMQ.DLQ"
            await until(lambda: [v.get("QueueSize") for v in management.find(wanted)] == [expected])

        managed.call(dead_lettered)


def test_retry_sends_dead_letters_back(managed: ManagedBroker) -> None:
    dead_letters(managed)
    listed = objects(broker(managed, "retry", "--dry-run", "--json"))
    assert [each["OriginalDestination"] for each in listed] == ["queue://work", "queue://other"]
    one = broker(managed, "retry", "--selector", "JMSPriority = 4", "--limit", "1", "--yes")
    assert one.stdout == "1 message sent back to their original destinations\n", one.output
    assert (bodies(managed, "work"), bodies(managed, "other")) == (["old"], [])
    rest = broker(managed, "retry", "ActiveMQ.DLQ", "--yes")
    assert rest.exit_code == 0, rest.output
    assert bodies(managed, "other") == ["odd"]
    assert bodies(managed, "ActiveMQ.DLQ") == []


def test_retry_sends_back_what_a_listener_has_dead_lettered_itself(managed: ManagedBroker) -> None:
    for original in ("queue://work", "PyJMS.Ranges", "topic://"):
        given = ("-p", f"{ORIGINAL_DESTINATION}={original}")
        send(managed, "ActiveMQ.DLQ.own", original, options=given)
    listed = objects(broker(managed, "retry", "--dry-run", "--json"))
    assert [each["OriginalDestination"] for each in listed] == ["queue://work", "-", "-"]
    said = broker(managed, "retry", "--yes")
    assert said.stdout == "1 message sent back to their original destinations\n"
    assert said.exit_code == 1
    assert bodies(managed, "work") == ["queue://work"]
    assert bodies(managed, "ActiveMQ.DLQ.own") == ["PyJMS.Ranges", "topic://"]


def test_what_has_no_original_destination_stays(managed: ManagedBroker) -> None:
    send(managed, "q", "x")
    said = broker(managed, "retry", "q", "--yes")
    assert said.exit_code == 1
    assert "it has no original destination (use move)" in said.stderr
    assert bodies(managed, "q") == ["x"]


@pytest.mark.fact("activemq-edges CL6")
@pytest.mark.parametrize(
    ("texts", "selector"),
    [
        ([], None),
        (["colour='red'"], "(colour='red')"),
        (["colour='r?d',n > 3"], "(colour LIKE 'r_d') AND (n > 3)"),
        (["a='x,y'", "b IN ('1','2')"], "(a='x,y') AND (b IN ('1','2'))"),
        (["a<>'x*'"], "(a<>'x*')"),
    ],
    ids=["none", "plain", "wildcard", "commas", "other operator"],
)
def test_message_selectors_of_activemq(texts: list[str], selector: str | None) -> None:
    assert as_selector(texts) == selector


async def test_a_requested_restart_restarts(capsys: pytest.CaptureFixture[str]) -> None:
    service = BrokerService("again", persistent=False)
    said: list[str] = []

    def starts() -> int:
        said.append(capsys.readouterr().out)
        return "".join(said).count("broker again keeps its messages")

    async with anyio.create_task_group() as group:
        group.start_soon(serve, service)
        await until(lambda: service.started)
        name = "org.apache.activemq:type=Broker,brokerName=again"
        await service.management.invoke(name, "restart")
        # Start-ups are counted: the moment between the two may be too short to be seen.
        await until(lambda: starts() == 2 and service.started)
        await service.management.invoke(name, "stop")
    assert not service.started
    assert starts() == 2


async def test_a_restart_that_is_not_allowed_is_refused() -> None:
    from pyjms.errors import IllegalStateException

    async with BrokerService("once", persistent=False, restart_allowed=False) as service:
        with pytest.raises(IllegalStateException, match="set restart_allowed"):
            await service.management.invoke(
                "org.apache.activemq:type=Broker,brokerName=once", "restart"
            )
        assert service.started
