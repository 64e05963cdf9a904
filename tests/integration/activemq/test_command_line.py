"""The command line at a real ActiveMQ 5.17.2, and at our broker: the same output."""

from __future__ import annotations

import pytest

from tests.kit.processes.command_line import objects, pyjms

pytestmark = pytest.mark.activemq


def test_send_browse_and_receive(broker_url: str, name: str) -> None:
    sent = pyjms(
        *("send", name, "--lines", "-p", "amount:int=5", "--priority", "7", "--url", broker_url),
        stdin="one\ntwo\n",
    )
    assert sent.stdout == f"2 messages sent to queue://{name}\n"
    assert pyjms("browse", name, "--url", broker_url).stdout == "one\ntwo\n"
    (found,) = objects(
        pyjms("receive", name, "--selector", "amount = 5", "--json", "--url", broker_url)
    )
    assert (found["body"], found["JMSPriority"], found["properties"]) == ("one", 7, {"amount": 5})
    received = pyjms("receive", name, "--all", "--timeout", "300ms", "--url", broker_url)
    assert (received.stdout, received.exit_code) == ("two\n", 0)
    assert pyjms("receive", name, "--timeout", "100ms", "--url", broker_url).exit_code == 3


def test_a_delayed_message_and_transacted_receive(broker_url: str, name: str) -> None:
    pyjms("send", name, "late", "--delay", "100ms", "--url", broker_url)
    received = pyjms("receive", name, "--ack", "transacted", "--url", broker_url)
    assert received.stdout == "late\n"
    assert pyjms("browse", name, "--url", broker_url).stdout == ""
