"""`pyjms send`, `receive` and `browse` at our broker; ActiveMQ: tests/integration/activemq."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.jms.destination import Queue
from pyjms.jms.message import MapMessage, StreamMessage
from tests.kit.processes.command_line import objects, pyjms

MAIN = [sys.executable, "-c", "from pyjms.cli.main import main; main()"]
IGNORING = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
IN_BACKGROUND = [*MAIN[:-1], IGNORING + MAIN[-1]]
"""As shells start commands in the background."""


@pytest.fixture
def url(our_broker: str) -> str:
    return our_broker


def test_a_message_with_headers_and_properties(url: str, name: str) -> None:
    sent = pyjms(
        *("send", name, "héllo", "--url", url, "-p", "colour=red", "-p", "amount:long=5"),
        *("-p", "open:boolean=true", "--priority", "7", "--ttl", "1h", "--non-persistent"),
        *("--correlation-id", "c-1", "--reply-to", "topic://answers", "--type", "order"),
        *("--group", "g"),
    )
    assert sent.exit_code == 0, sent.output
    (found,) = objects(pyjms("receive", name, "--url", url, "--json"))
    assert sent.stdout == f"message {found['JMSMessageID']} sent to queue://{name}\n"
    properties = {"colour": "red", "amount": 5, "open": True}
    assert properties.items() <= found["properties"].items()
    assert (found["type"], found["body"]) == ("text", "héllo")
    assert found["JMSPriority"] == 7
    assert found["JMSDeliveryMode"] == "NON-PERSISTENT"
    assert found["JMSExpiration"] - found["JMSTimestamp"] == 3_600_000
    assert found["JMSCorrelationID"] == "c-1"
    assert found["JMSReplyTo"] == "topic://answers"
    assert found["JMSType"] == "order"
    assert found["properties"]["JMSXGroupID"] == "g"


def test_lines_of_the_standard_input_are_messages(url: str, name: str) -> None:
    sent = pyjms("send", name, "--lines", "--url", url, stdin="one\ntwo\r\nthree")
    assert sent.stdout == f"3 messages sent to queue://{name}\n"
    browsed = pyjms("browse", name, "--url", url, "--limit", "2")
    assert browsed.stdout == "one\ntwo\n"
    received = pyjms("receive", name, "--url", url, "--all", "--timeout", "200ms")
    assert received.stdout == "one\ntwo\nthree\n"
    assert received.exit_code == 0


@pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals are absent on Windows")
def test_send_asks_for_the_body_at_a_terminal(url: str, name: str) -> None:
    terminal, inside = os.openpty()
    with (
        os.fdopen(terminal, "w") as keyboard,
        os.fdopen(inside) as stdin,
        subprocess.Popen(
            [*MAIN, "send", name, "--url", url], stdin=stdin, stderr=subprocess.PIPE, text=True
        ) as process,
    ):
        keyboard.write("hello\n\x04")
        keyboard.flush()
        _, said = process.communicate(timeout=50)
    assert said == "Write the body; Ctrl-D at the beginning of a line ends it.\n"
    assert pyjms("receive", name, "--url", url).stdout == "hello\n\n"


def test_a_file_is_sent_as_bytes_and_written_as_it_was(url: str, name: str, tmp_path: Path) -> None:
    content = bytes(range(256))
    (tmp_path / "picture").write_bytes(content)
    file = str(tmp_path / "picture")
    refused = pyjms("send", name, "--url", url, "--file", file)
    assert refused.exit_code == 2
    assert "is not UTF-8" in refused.stderr
    assert "--bytes" in refused.stderr
    sent = pyjms("send", name, "--url", url, "--file", file, "--bytes", "-n", "2")
    assert sent.exit_code == 0, sent.output
    received = pyjms("receive", name, "--url", url)
    assert received.stdout_bytes == content
    (found,) = objects(pyjms("receive", name, "--url", url, "--json"))
    assert (found["type"], found["body_base64"][:8]) == ("bytes", "AAECAwQF")


def test_the_standard_input_is_one_message_without_body_and_file(url: str, name: str) -> None:
    pyjms("send", name, "--url", url, stdin="two\nlines\n")
    assert pyjms("receive", name, "--url", url).stdout == "two\nlines\n\n"


def test_a_selector_chooses(url: str, name: str) -> None:
    for colour in ("red", "blue"):
        pyjms("send", name, colour, "--url", url, "-p", f"colour={colour}")
    blue = ("--selector", "colour = 'blue'", "--url", url)
    assert pyjms("browse", name, *blue).stdout == "blue\n"
    assert pyjms("receive", name, *blue).stdout == "blue\n"
    assert pyjms("browse", name, "--url", url).stdout == "red\n"


def test_fewer_messages_than_asked_for_are_exit_code_3(url: str, name: str) -> None:
    pyjms("send", name, "only", "--url", url)
    received = pyjms("receive", name, "-n", "2", "--timeout", "200ms", "--url", url)
    assert received.exit_code == 3
    assert received.stdout == "only\n"
    assert received.stderr == "1 message of 2 received within the timeout\n"


def test_a_limited_receive_leaves_the_others_to_other_consumers(url: str, name: str) -> None:
    pyjms("send", name, "--lines", "--url", url, stdin="a\nb\nc\n")
    assert pyjms("receive", name, "--url", url).stdout == "a\n"
    found = objects(pyjms("browse", name, "--url", url, "--json"))
    assert [(each["body"], each["JMSRedelivered"]) for each in found] == [
        ("b", False),
        ("c", False),
    ]


@pytest.mark.parametrize(
    ("mode", "left"),
    [("client", 0), ("auto", 0), ("dups-ok", 0), ("transacted", 0), ("none", 2)],
)
def test_modes_of_acknowledgement(url: str, name: str, mode: str, left: int) -> None:
    pyjms("send", name, "x", "-n", "2", "--url", url)
    received = pyjms("receive", name, "-n", "2", "--ack", mode, "--url", url)
    assert received.stdout == "x\nx\n"
    assert len(objects(pyjms("browse", name, "--url", url, "--json"))) == left


def test_headers_are_printed_above_the_body(url: str, name: str) -> None:
    pyjms("send", name, "the body", "--url", url, "-p", "colour=red", "-p", "size:int=5")
    said = pyjms("browse", name, "--url", url, "-H").stdout
    head, _, body = said.partition("\n\n")
    assert body == "the body\n"
    assert f"JMSDestination: queue://{name}\n" in head
    assert "colour = 'red'" in head  # as a selector has it: a text is not a number
    assert "size = 5" in head


def test_a_line_is_between_messages_with_headers(url: str, name: str) -> None:
    pyjms("send", name, "same", "--url", url, "--count", "3")
    said = pyjms("browse", name, "--url", url, "-H").stdout
    messages = said.split(f"{'-' * 40}\n")
    assert [each.partition("\n\n")[2] for each in messages] == ["same\n"] * 3
    assert pyjms("receive", name, "--url", url, "-n", "3").stdout == "same\n" * 3


def test_a_delay_is_that_of_the_brokers_scheduler(url: str, name: str) -> None:
    pyjms("send", name, "late", "--url", url, "--delay", "700ms")
    (found,) = objects(pyjms("receive", name, "--url", url, "--json"))
    assert found["body"] == "late"
    assert found["properties"].keys() == {"scheduledJobId"}


def test_a_durable_subscription_gets_what_was_sent_meanwhile(url: str, name: str) -> None:
    topic = f"topic://{name}"
    subscription = ("--durable", "sub", "--client-id", name, "--url", url)
    first = pyjms("receive", topic, *subscription, "--timeout", "10ms")
    assert first.exit_code == 3
    pyjms("send", topic, "news", "--url", url)
    assert pyjms("receive", topic, *subscription).stdout == "news\n"


def test_bodies_that_are_not_text_are_printed_as_json(url: str, name: str) -> None:
    async def send() -> None:
        async with await ConnectionFactory(url).create_connection() as connection:
            session = await connection.create_session()
            producer = await session.create_producer(Queue(name))
            await producer.send(MapMessage({"a": 1, "b": b"\x00"}))
            stream = StreamMessage()
            stream.write_int(1)
            stream.write_string("x")
            await producer.send(stream)

    anyio.run(send)
    received = pyjms("receive", name, "-n", "2", "--url", url)
    assert received.stdout == '{"a": 1, "b": {"base64": "AA=="}}\n[1, "x"]\n'


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["send", "q", "x", "-p", "novalue"], "-p novalue: a property is written name=value"),
        (["send", "q", "x", "-p", "n:int=zz"], "-p n:int=zz: 'zz' is not of type int"),
        (["send", "q", "x", "-p", "n:date=1"], "there is no type 'date' (types are string,"),
        (["send", "q", "x", "-p", "n:boolean=yes"], "'yes' is not of type boolean"),
        (["send", "q", "x", "--file", "y"], "BODY contradicts --file"),
        (["send", "q", "--file", "nowhere"], "--file: nowhere cannot be read"),
        (["send", "ftp://q", "x"], "ftp:// is not a kind of destination"),
        (["receive", "q", "--ack", "maybe"], "--ack: there is no mode 'maybe' (modes are client,"),
        (["receive", "q", "--all", "--follow"], "--all contradicts --follow"),
        (["receive", "q", "--durable", "s"], "--durable: queue://q is not a topic"),
        (["receive", "topic://q", "--durable", "s"], "--durable without --client-id"),
        (["browse", "topic://t"], "topic://t cannot be browsed (topics keep no messages"),
        (["browse", "q", "--user", "jo"], "There is no password for user jo (set PYJMS_PASSWORD"),
        (["browse", "q", "--password-file", "p"], "A password without a user (add --user)"),
        (["browse", "q", "--user", "jo", "--password-file", "p"], "--password-file: p cannot"),
        (["browse", "q", "--url", "tcp://x:1?colour=red"], "colour"),
    ],
)
def test_wrong_options_are_one_line_and_exit_code_2(
    url: str, arguments: list[str], sentence: str
) -> None:
    result = pyjms(*arguments, PYJMS_URL=url)
    assert result.exit_code == 2, result.output
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_broker_that_does_not_run_is_one_line_and_exit_code_1() -> None:
    result = pyjms("send", "q", "x", "--url", "tcp://127.0.0.1:1")
    assert result.exit_code == 1
    assert result.stderr.startswith("pyjms send: Could not connect to broker URL")
    assert len(result.stderr.splitlines()) == 1


def test_an_invalid_selector_is_exit_code_1(url: str, name: str) -> None:
    result = pyjms("receive", name, "--selector", "(", "--url", url)
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals are absent on Windows")
@pytest.mark.parametrize("command", [MAIN, IN_BACKGROUND], ids=["foreground", "background"])
def test_ctrl_c_ends_a_follow_with_exit_code_0_and_keeps_what_was_not_printed(
    url: str, name: str, command: list[str]
) -> None:
    with subprocess.Popen(
        [*command, "receive", name, "--follow", "--url", url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        pyjms("send", name, "first", "--url", url)
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "first\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.stderr.read() == "1 message received\n"
    pyjms("send", name, "second", "--url", url)
    assert pyjms("browse", name, "--url", url).stdout == "second\n"


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals are absent on Windows")
def test_ctrl_c_ends_a_waiting_receive_with_exit_code_130(url: str, name: str) -> None:
    pyjms("send", name, "one", "--url", url)
    with subprocess.Popen(
        [*MAIN, "receive", name, "-n", "2", "--timeout", "60s", "--url", url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "one\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert "Traceback" not in process.stderr.read()


def test_the_password_is_read_from_the_environment_or_a_file(tmp_path: Path) -> None:
    from pyjms.cli.options import read_credentials

    file = tmp_path / "password"
    file.write_text("from file\nrest")
    assert read_credentials("jo", file) == ("jo", "from file")
    assert read_credentials(None, None) == (None, None)
    assert "from file" not in repr(read_credentials("jo", file))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYJMS_PASSWORD", "from environment")
        assert read_credentials("jo", None) == ("jo", "from environment")
