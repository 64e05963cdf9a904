"""`pyjms broker producer` and `consumer`, with ActiveMQ's options."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kit.processes.command_line import objects, pyjms


@pytest.mark.fact("activemq-edges CL8")
def test_what_producers_send_consumers_receive(our_broker: str, name: str) -> None:
    where = ("--brokerUrl", our_broker, "--destination", f"queue://{name}")
    produced = pyjms(
        *("broker", "producer", *where, "--messageCount", "30", "--parallelThreads", "2"),
        *("--transactionBatchSize", "7"),
    )
    assert produced.exit_code == 0, produced.output
    assert f"Producing messages to queue://{name}\nUsing persistent messages\n" in produced.stdout
    for number in (1, 2):
        assert f"producer-{number} Produced: 30 messages\n" in produced.stdout
        elapsed = rf"producer-{number} Elapsed time in second : [\d.]+ s, \d+ messages/s\n"
        assert re.search(elapsed, produced.stdout)
    consumed = pyjms(
        *("broker", "consumer", *where, "--messageCount", "30", "--parallelThreads", "2"),
        *("--transacted", "true", "--batchSize", "4", "--verbose"),
    )
    assert consumed.exit_code == 0, consumed.output
    assert consumed.stdout.count("Consumed: 30 messages") == 2
    assert consumed.stdout.count(" Received ID:") == 60
    assert objects(pyjms("browse", name, "--url", our_broker, "--json")) == []


@pytest.mark.fact("activemq-edges CL8")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], {"type": "text", "body": "test message: 0", "JMSDeliveryMode": "PERSISTENT"}),
        (["--persistent", "false"], {"JMSDeliveryMode": "NON-PERSISTENT"}),
        (["--messageSize", "3"], {"type": "bytes", "body_base64": "AAAA"}),
        (["--textMessageSize", "4"], {"body": "aaaa"}),
        (["--message", "hello"], {"body": "hello"}),
        (["--payloadUrl", "payload"], {"body": "from a file"}),
        (
            ["--msgGroupID", "g", "--sleep", "1"],
            {"properties": {"JMSXGroupID": "g", "JMSXGroupSeq": 0}},
        ),
    ],
    ids=["defaults", "non-persistent", "size", "text size", "message", "payload", "group"],
)
def test_messages_of_a_producer(
    our_broker: str,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    expected: dict[str, object],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("payload").write_text("from a file", encoding="utf-8")
    where = ("--brokerUrl", our_broker, "--destination", name, "--messageCount", "1")
    done = pyjms("broker", "producer", *where, "--msgTTL", "60000", *options)
    assert done.exit_code == 0, done.output
    (found,) = objects(pyjms("browse", name, "--url", our_broker, "--json"))
    assert {key: found[key] for key in expected} == expected
    assert found["JMSExpiration"] - found["JMSTimestamp"] == 60_000


@pytest.mark.fact("activemq-edges CL8")
@pytest.mark.parametrize("mode", ["AUTO", "CLIENT", "DUPS_OK", "CLIENT_ACKNOWLEDGE"])
def test_modes_of_a_consumer(our_broker: str, name: str, mode: str) -> None:
    pyjms("send", name, "x", "-n", "5", "--url", our_broker)
    done = pyjms(
        *("broker", "consumer", "--brokerUrl", our_broker, "--destination", name),
        *("--messageCount", "5", "--ackMode", mode, "--batchSize", "3", "--sleep", "1"),
    )
    assert done.exit_code == 0, done.output
    assert objects(pyjms("browse", name, "--url", our_broker, "--json")) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["producer", "--persistent", "perhaps"], "'perhaps' is neither true nor false"),
        (["producer", "--payloadUrl", "nowhere"], "--payloadUrl: nowhere: "),
        (["consumer", "--ackMode", "NEVER"], "--ackMode: there is no mode 'NEVER'"),
        (["consumer", "--durable", "true"], "--durable true needs a topic and --clientId"),
    ],
    ids=["boolean", "payload", "mode", "durable"],
)
def test_wrong_options_are_exit_code_2(
    our_broker: str, arguments: list[str], sentence: str
) -> None:
    done = pyjms("broker", *arguments, PYJMS_URL=our_broker)
    assert done.exit_code == 2
    assert sentence in " ".join(done.stderr.split())
