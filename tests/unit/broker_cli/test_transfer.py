"""`pyjms broker export` and `import` with the folder of a stopped broker."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyjms.errors import MessageFormatException
from pyjms.jms.destination import Queue, TemporaryQueue, Topic
from pyjms.wire.kahadb.frames import encode_message as frame_of
from pyjms.wire.openwire.commands import ActiveMQMessage, ActiveMQTextMessage, MessageId
from pyjms.wire.openwire.primitives import decode_map, encode_map, encode_text
from pyjms_broker.cli.message_file import decode_message, encode_message
from tests.kit.stores.folders import Folder, Store

Run = Callable[..., Any]


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


def messages_of(path: Path) -> list[ActiveMQMessage]:
    return [decode_message(line["message"]) for line in lines_of(path) if "message" in line]


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


HEAD = {"format": "pyjms-messages", "version": 1}
GOOD = {"kind": "text", "destination": "queue://q", "message_id": "ID:h:1:2:3"}


def test_export_to_standard_output_has_readable_text(
    filled: Folder, tmp_path: Path, pyjms_broker: Run
) -> None:
    file = tmp_path / "f.jsonl"
    pyjms_broker("export", filled.path, "-o", file)
    result = pyjms_broker("export", filled.path, "-o", "-")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == file.read_text().splitlines()
    assert "exported: 10 messages, 2 durable subscriptions" in result.stderr
    texts = [m for m in lines_of(file) if m.get("message", {}).get("kind") == "text"]
    assert any(isinstance(m["message"].get("text"), str) for m in texts)


def test_a_file_of_version_1_is_read(tmp_path: Path, pyjms_broker: Run) -> None:
    body = base64.b64encode(encode_text("before")).decode()
    message = {"kind": "text", "destination": "queue://q", "message_id": "ID:a", "body": body}
    file = write(
        tmp_path / "1.jsonl",
        {"format": "pyjms-messages", "version": 1},
        {"message": message},
        {"end": {"messages": 1, "subscriptions": 0}},
    )
    assert pyjms_broker("import", file, "--data", tmp_path / "d").exit_code == 0
    pyjms_broker("export", tmp_path / "d", "-o", tmp_path / "2.jsonl")
    assert [m["message"]["text"] for m in lines_of(tmp_path / "2.jsonl") if "message" in m] == [
        "before"
    ]


@pytest.mark.parametrize("fields", [{"kind": "bytes", "text": "x"}, {"kind": "text", "text": 3}])
def test_a_text_field_is_refused_for_other_messages(fields: dict[str, object]) -> None:
    with pytest.raises(
        MessageFormatException, match="text: it is not a string, or the message is not of kind text"
    ):
        decode_message({"destination": "queue://q", "message_id": "ID:a", **fields})


def test_export_and_import_preserve_a_store(
    filled: Folder, tmp_path: Path, pyjms_broker: Run
) -> None:
    before = {k: v for k, v in filled.contents().items() if k != "lock"}
    first, second, other = tmp_path / "1.jsonl", tmp_path / "2.jsonl", tmp_path / "other"
    result = pyjms_broker("export", filled.path.parent, "--output", first)
    assert result.exit_code == 0, result.output
    assert f"{first}: 10 messages, 2 durable subscriptions" in result.stdout
    assert "1 prepared transaction may still change this" in result.stderr
    assert {k: v for k, v in filled.contents().items() if k != "lock"} == before

    result = pyjms_broker("import", first, "--data", other)
    assert result.exit_code == 0, result.output
    assert result.stdout == "10 messages imported, 2 durable subscriptions created\n"
    assert (other / "kahadb" / "db-1.log").exists()
    assert pyjms_broker("journal", "verify", other).exit_code == 0

    assert pyjms_broker("export", other, "-o", second).exit_code == 0
    assert lines_of(second)[1:] == lines_of(first)[1:]

    again = pyjms_broker("import", first, "--data", other)
    assert again.exit_code == 0
    assert "0 messages imported" in again.stdout
    assert "left out: 10 already stored" in again.stdout


def test_a_message_of_a_damaged_batch_is_not_exported(
    filled: Folder, tmp_path: Path, pyjms_broker: Run
) -> None:
    whole, rest = tmp_path / "whole", tmp_path / "rest"
    pyjms_broker("export", filled.path, "-o", whole, "--queue", "orders.>")
    damaged = messages_of(whole)[0]
    content = damaged.content
    assert content is not None
    (segment,) = [f for f in filled.path.glob("db-*.log") if content in f.read_bytes()]
    data = segment.read_bytes()
    at = data.rindex(content) + len(content) - 1
    segment.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])  # still decodes
    result = pyjms_broker("export", filled.path, "-o", rest, "--queue", "orders.>")
    assert result.exit_code == 1
    (line,) = [line for line in result.stderr.splitlines() if "not exported" in line]
    assert f"{damaged.message_id} of queue://orders.new: The batch of the record at" in line
    assert line.endswith(" is damaged")
    ids = [str(message.message_id) for message in messages_of(whole)]
    assert [str(message.message_id) for message in messages_of(rest)] == ids[1:]


def test_headers_and_properties_are_preserved(
    filled: Folder, tmp_path: Path, pyjms_broker: Run
) -> None:
    async def stored(store: Store) -> list[ActiveMQMessage]:
        found = store.of(Queue("orders.new")).next_messages(None, 100)
        return [each.message for each in found]

    original = filled.open(stored)[-1]
    assert original.correlation_id == "c\u00e9"
    pyjms_broker("export", filled.path, "-o", tmp_path / "f", "--queue", "orders.>")
    pyjms_broker("import", tmp_path / "f", "--data", tmp_path / "other")
    filled.path = tmp_path / "other" / "kahadb"
    arrived = filled.open(stored)[-1]
    fields = [field.name for field in type(original).LAYOUT if field.name != "response_required"]
    for name in fields:
        if name != "marshalled_properties":
            assert getattr(arrived, name) == getattr(original, name), name
    assert arrived.marshalled_properties is not None
    assert original.marshalled_properties is not None
    found, wanted = (
        decode_map(arrived.marshalled_properties),
        decode_map(original.marshalled_properties),
    )
    assert found == wanted
    assert [type(v) for v in found.values()] == [type(v) for v in wanted.values()]


@pytest.mark.parametrize(
    ("arguments", "destinations"),
    [
        (("--queue", "orders.>"), {"queue://orders.new"}),
        (("--topic", "news"), {"topic://news"}),
        (("--queue", "*.DLQ", "--topic", ">"), {"queue://ActiveMQ.DLQ", "topic://news"}),
        (("--queue", "nothing"), set()),
    ],
)
def test_patterns_select_destinations(
    arguments: tuple[str, ...],
    destinations: set[str],
    filled: Folder,
    tmp_path: Path,
    pyjms_broker: Run,
) -> None:
    result = pyjms_broker("export", filled.path, "-o", tmp_path / "f", *arguments)
    assert result.exit_code == 0, result.output
    assert {str(m.destination) for m in messages_of(tmp_path / "f")} == destinations


def test_scheduled_messages_are_noted_as_missing(
    filled: Folder, tmp_path: Path, pyjms_broker: Run
) -> None:
    jobs = filled.path.parent / "localhost" / "scheduler"
    jobs.mkdir(parents=True)
    assert "note" not in pyjms_broker("export", filled.path, "-o", tmp_path / "1").stderr.replace(
        "note: 1 prepared", ""
    )
    (jobs / "db-1.log").write_bytes(b"")
    said = pyjms_broker("export", filled.path, "-o", tmp_path / "2").stderr
    assert f"note: scheduled messages in {jobs} are not in the file" in said


def test_a_large_file_is_imported_in_several_transactions(
    tmp_path: Path, pyjms_broker: Run
) -> None:
    messages = [{"message": {**GOOD, "message_id": f"ID:h:1:2:{n}"}} for n in range(1, 2502)]
    file = write(tmp_path / "f", HEAD, *messages, {"end": {}})
    result = pyjms_broker("import", file, "--data", tmp_path / "d")
    assert result.exit_code == 0, result.output
    assert "2501 messages imported" in result.stdout
    records = pyjms_broker("journal", "inspect", tmp_path / "d", "--records").stdout
    assert records.count(" commit ") == 3
    assert [str(m.message_id) for m in messages_of(file)][-1] == "ID:h:1:2:2501"


def test_messages_of_topics_without_subscriptions_are_left_out(
    tmp_path: Path, pyjms_broker: Run
) -> None:
    message = {**GOOD, "destination": "topic://t"}
    file = write(tmp_path / "f", HEAD, {"message": message}, {"end": {}})
    result = pyjms_broker("import", file, "--data", tmp_path / "d")
    assert result.exit_code == 0
    assert "left out: 1 of topics without durable subscriptions" in result.stdout


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("no object", "the line is not a JSON object"),
        ({"what": 1}, "the line is neither a message, a subscription nor the end"),
        ({"message": []}, "message: it is not a JSON object"),
        ({"message": {**GOOD, "kind": "poem"}}, "kind: 'poem' is unknown"),
        ({"message": {"kind": "text", "message_id": "ID:1"}}, "destination: the field is missing"),
        ({"message": {**GOOD, "destination": "q"}}, "destination: 'q' is not a destination"),
        ({"message": {**GOOD, "destination": "temp-queue://q"}}, "is temporary"),
        ({"message": {**GOOD, "destination": "queue://a.>"}}, "is not a single destination"),
        ({"message": {**GOOD, "message_id": 5}}, "message_id: the field is missing"),
        ({"message": {**GOOD, "producer_id": "x"}}, "producer_id: 'x' is invalid"),
        ({"message": {**GOOD, "priority": "high"}}, "priority: 'high' is invalid"),
        ({"message": {**GOOD, "priority": 500}}, "priority: 500 is invalid"),
        ({"message": {**GOOD, "timestamp": True}}, "timestamp: True is invalid"),
        ({"message": {**GOOD, "timestamp": None}}, "timestamp: None is invalid"),
        ({"message": {**GOOD, "broker_sequence_id": "1"}}, "broker_sequence_id: '1'"),
        ({"message": {**GOOD, "body": "?"}}, "body: it is not base64"),
        ({"message": {**GOOD, "properties": [1]}}, "properties: not a JSON object"),
        ({"message": {**GOOD, "properties": {"p": {"type": "x"}}}}, "properties: p: "),
        (
            {"message": {**GOOD, "properties": {"p": {"type": "byte", "value": 300}}}},
            "out of range for Byte",
        ),
        (
            {"message": {**GOOD, "properties": {"p": {"type": "list", "value": 3}}}},
            "properties: p: 3 is not a list",
        ),
        ({"message": GOOD, "subscriptions": [["a"]]}, "is not a client id and a subscription name"),
        ({"subscription": {"client_id": "c", "name": "n"}}, "topic: None is not a destination"),
        ({"subscription": {"client_id": "c", "topic": "topic://t"}}, "is not a client id"),
        (
            {"subscription": {"client_id": "c", "name": "n", "topic": "queue://q"}},
            "topic: queue://q",
        ),
    ],
)
def test_an_invalid_line_is_reported_and_skipped(
    line: object, reason: str, tmp_path: Path, pyjms_broker: Run
) -> None:
    file = write(tmp_path / "f", HEAD, line, {"message": GOOD}, {"end": {}})
    result = pyjms_broker("import", file, "--data", tmp_path / "d")
    assert result.exit_code == 1, result.output
    assert result.stderr.startswith(f"{file}:2: ")
    assert reason in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout.startswith("1 message imported, ")


def test_an_incomplete_file_is_reported(tmp_path: Path, pyjms_broker: Run) -> None:
    file = write(tmp_path / "f", HEAD, {"message": GOOD})
    result = pyjms_broker("import", file, "--data", tmp_path / "d")
    assert result.exit_code == 1
    assert "the end line is missing" in result.stderr
    assert "1 message imported" in result.stdout


@pytest.mark.parametrize(
    ("first", "sentence"),
    [
        ("text", "is not a message file"),
        ({"format": "pyjms-messages", "version": 3}, "has version 3 of the format, not 2 or older"),
        ({}, "is not a message file"),
    ],
)
def test_a_file_of_another_format_is_refused(
    first: object, sentence: str, tmp_path: Path, pyjms_broker: Run
) -> None:
    result = pyjms_broker("import", write(tmp_path / "f", first), "--data", tmp_path / "d")
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert not (tmp_path / "d").exists()


def test_invalid_export_options_are_refused_in_one_line(
    filled: Folder, tmp_path: Path, pyjms_broker: Run
) -> None:
    there = write(tmp_path / "there", HEAD)
    for arguments, sentence in (
        (("export", "-o", tmp_path / "f"), "Name either DIR, --config or --url"),
        (("export", filled.path, "--url", "tcp://h:1", "-o", tmp_path / "f"), "either DIR, "),
        (("export", filled.path, "-o", there), "exists already"),
        (("export", filled.path, "-o", tmp_path / "no" / "f"), "cannot be written"),
        (("export", tmp_path / "no", "-o", tmp_path / "f"), "does not exist"),
        (("export", filled.path, "-o", tmp_path / "f", "--queue", " "), "empty"),
        (("export", "--url", "tcp://h:1", "--topic", "t", "-o", tmp_path / "f"), "be browsed"),
        (("import", there), "Name either --data or --url"),
        (("import", tmp_path / "no", "--data", tmp_path), "cannot be read"),
        (("import", there, "--data", tmp_path / "no" / "no"), "does not exist"),
        (("import", there, "--url", "nonsense"), "nonsense"),
    ):
        result = pyjms_broker(*arguments)
        assert result.exit_code == 2, (arguments, result.output)
        assert sentence in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    assert not (tmp_path / "f").exists()


def test_a_running_brokers_directory_is_refused(
    filled: Folder, tmp_path: Path, pyjms_broker: Run
) -> None:
    file = write(tmp_path / "in", HEAD, {"message": GOOD}, {"end": {}})

    async def attempt(_store: Store) -> list[Any]:
        return [
            pyjms_broker("export", filled.path, "-o", tmp_path / "out"),
            pyjms_broker("import", file, "--data", filled.path),
        ]

    for result in filled.open(attempt):
        assert result.exit_code == 2
        assert "is locked by a running broker (stop it, or " in result.stderr
    assert not (tmp_path / "out").exists()


def test_an_unreadable_message_is_reported(
    filled: Folder, tmp_path: Path, pyjms_broker: Run
) -> None:
    pyjms_broker("export", filled.path, "-o", tmp_path / "before")
    segment = filled.path / "db-1.log"
    data = segment.read_bytes()
    # Behind the index's back: it still names the message, whose frame's size is no size now.
    at = data.index(b"ID:host-1-2:3:1:1\x22") + len(b"ID:host-1-2:3:1:1\x22") + 2
    segment.write_bytes(data[:at] + b"\x7f\xff\xff\xff" + data[at + 4 :])
    result = pyjms_broker("export", filled.path, "-o", tmp_path / "after")
    assert result.exit_code == 1
    assert "ID:host-1-2:3:1:1 of queue://ActiveMQ.DLQ" in result.stderr
    assert len(messages_of(tmp_path / "after")) == len(messages_of(tmp_path / "before")) - 1


@pytest.mark.parametrize(
    "message",
    [
        ActiveMQTextMessage(destination=Queue("q"), message_id=MessageId("ID:foreign")),
        ActiveMQMessage(
            destination=Topic("t"),
            message_id=MessageId("other:text:1"),
            reply_to=TemporaryQueue("ID:a:1"),
            persistent=False,
            content=b"",
            marshalled_properties=encode_map(
                {"half": "\ud800", "nan": float("inf"), "big": 1 << 40}
            ),
        ),
        ActiveMQTextMessage(
            destination=Queue("q"),
            message_id=MessageId("ID:1"),
            marshalled_properties=b"\x00\x00\x00\x05damaged",
        ),
    ],
)
def test_decoding_an_encoded_message_gives_the_same_frame(message: ActiveMQMessage) -> None:
    text = json.dumps(encode_message(message), allow_nan=False)
    back = decode_message(json.loads(text))
    assert str(back.message_id) == str(message.message_id)
    back.message_id = message.message_id
    assert frame_of(back) == frame_of(message)


BROKER_XML = """<beans xmlns="http://www.springframework.org/schema/beans">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="b">
    <persistenceAdapter><kahaDB directory="{}"/></persistenceAdapter>
  </broker>
</beans>
"""


@pytest.mark.fact("activemq-edges CL7")
def test_the_store_of_a_configuration_is_exported_with_activemqs_options(
    filled: Folder, tmp_path: Path, pyjms_broker: Run
) -> None:
    xml, yaml = tmp_path / "activemq.xml", tmp_path / "broker.yaml"
    xml.write_text(BROKER_XML.format(filled.path))
    yaml.write_text(f"persistence: {{type: kahadb, directory: {filled.path}}}\n")
    pyjms_broker("export", filled.path, "-o", tmp_path / "expected")
    expected = (tmp_path / "expected").read_text().splitlines()[1:]
    for number, config in enumerate((xml, f"xbean:{xml}", f"xbean:file:{xml}", yaml)):
        file = tmp_path / f"{number}.jsonl"
        result = pyjms_broker("export", "--config", config, "--file", file)
        assert result.exit_code == 0, result.output
        assert file.read_text().splitlines()[1:] == expected
    only = tmp_path / "only"
    queue = str(messages_of(tmp_path / "expected")[0].destination).removeprefix("queue://")
    pyjms_broker("export", "--config", xml, "--file", only, "--queue", queue)
    assert {str(each.destination) for each in messages_of(only)} == {f"queue://{queue}"}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--config", "b.yaml", "DIR"), "--config and DIR contradict each other"),
        (("--config", "b.yaml", "--url", "tcp://h"), "--config and --url contradict each other"),
        (("--config", "broker:()/x?persistent=false"), "has no message store in a directory"),
        (("--config", "no-such.xml"), "no-such.xml"),
        ((), "Name either DIR, --config or --url"),
    ],
)
def test_configurations_without_a_store_are_refused(
    arguments: tuple[str, ...], problem: str, tmp_path: Path, pyjms_broker: Run
) -> None:
    result = pyjms_broker("export", *arguments, "--file", tmp_path / "f.jsonl")
    assert result.exit_code == 2
    assert problem in result.stderr
    assert not (tmp_path / "f.jsonl").exists()


def test_an_archive_is_refused(filled: Folder, tmp_path: Path, pyjms_broker: Run) -> None:
    for name in ("out.tgz", "out.tar.gz"):
        result = pyjms_broker("export", filled.path, "--file", tmp_path / name)
        assert result.exit_code == 2
        assert "written as JSON lines (name it out.jsonl)" in " ".join(result.stderr.split())
