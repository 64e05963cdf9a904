"""`pyjms broker browse`, with ActiveMQ's options; compared with `activemq browse` itself."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from pyjms import ConnectionFactory
from tests.kit.processes.command_line import pyjms
from tests.kit.servers.java_programs import JAR_FOLDER, JARS, QUIET


@pytest.fixture
def queue(our_broker: str, name: str) -> str:
    """A queue with a text, with headers and properties, bytes, a map, and an empty message."""
    with ConnectionFactory(our_broker).create_connection() as connection:
        session = connection.create_session()
        producer = session.create_producer(session.create_queue(name))
        text = session.create_text_message("héllo")
        text.correlation_id, text.type = "c-1", "order"
        text.reply_to = session.create_topic("answers")
        text.properties["colour"] = "red"
        text.properties["open"] = True
        mapped = session.create_map_message()
        mapped["number"] = 5
        data = session.create_bytes_message()
        data.write_bytes(b"abc")
        for message in (text, data, mapped, session.create_message()):
            producer.send(message)
    return name


def blocks(text: str) -> list[set[str]]:
    return [set(block.splitlines()) for block in text.strip().split("\n\n")]


@pytest.mark.fact("activemq-edges CL5")
def test_fields_are_lines_and_messages_end_with_an_empty_line(our_broker: str, queue: str) -> None:
    result = pyjms("broker", "browse", queue, "--amqurl", our_broker)
    assert result.exit_code == 0, result.output
    text, data, mapped, empty = blocks(result.stdout)
    assert {
        f"JMS_HEADER_FIELD:JMSDestination = {queue}",
        "JMS_HEADER_FIELD:JMSReplyTo = answers",
        "JMS_HEADER_FIELD:JMSDeliveryMode = persistent",
        "JMS_HEADER_FIELD:JMSRedelivered = false",
        "JMS_CUSTOM_FIELD:colour = red",
        "JMS_CUSTOM_FIELD:open = true",
        "JMS_BODY_FIELD:JMSText = héllo",
    } <= text
    assert "JMS_BODY_FIELD:JMSBytes:1 = abc" in data
    assert "JMS_BODY_FIELD:number = 5" in mapped
    assert all(line.startswith("JMS_HEADER_FIELD:") for line in empty)


@pytest.mark.fact("activemq-edges CL5")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("-Vbody", "--msgsel", "colour='r*'"), "JMS_BODY_FIELD:JMSText = héllo\n\n"),
        (("-Vcustom", "--msgsel", "colour='r?d',JMSType='order'", "--view", "open"), "JMS_CUSTOM_FIELD:open = true\n\n"),
        (("--view", "JMSType,colour", "--msgsel", "open = TRUE"), "JMS_HEADER_FIELD:JMSType = order\nJMS_CUSTOM_FIELD:colour = red\n\n"),
        (("--msgsel", "colour='g*'"), ""),
    ],
)  # fmt: skip
def test_parts_fields_and_selectors(
    our_broker: str, queue: str, options: tuple[str, ...], expected: str
) -> None:
    result = pyjms("broker", "browse", queue, "--url", our_broker, *options)
    assert result.stdout == expected
    assert result.exit_code == 0


def test_topics_are_refused(our_broker: str) -> None:
    result = pyjms("broker", "browse", "topic://news", "--url", our_broker)
    assert result.exit_code == 2
    assert "topic://news cannot be browsed" in result.stderr


@pytest.mark.activemq
@pytest.mark.fact("activemq-edges CL5")
@pytest.mark.parametrize("options", [(), ("-Vheader", "--view", "JMSPriority")])
def test_the_output_is_activemqs(our_broker: str, queue: str, options: tuple[str, ...]) -> None:
    """The real command at our broker prints the same fields."""
    jars = [JAR_FOLDER / f"{name}.jar" for name in (*JARS, "activemq-console")]
    missing = [jar.stem for jar in jars if not jar.exists()]
    if shutil.which("java") is None or missing:
        pytest.skip("no java or console: apt-get install activemq")
    real = subprocess.run(
        [
            *("java", *QUIET, "-Dfile.encoding=UTF-8", "-cp", ":".join(map(str, jars))),
            *("org.apache.activemq.console.command.ShellCommand", "browse"),
            *("--amqurl", our_broker, *options, queue),
        ],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    ours = pyjms("broker", "browse", queue, "--amqurl", our_broker, *options)
    assert without_bytes(ours.stdout) == without_bytes(real.stdout)


def without_bytes(text: str) -> list[set[str]]:
    """Leave out bodies of bytes: the real command prints a NUL for each byte."""
    bytes_ = "JMS_BODY_FIELD:JMSBytes:1 = "
    return [{line for line in block if not line.startswith(bytes_)} for block in blocks(text)]
