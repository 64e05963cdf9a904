"""`pyjms broker export` and `import` with a running broker."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyjms.jms.destination import Queue
from pyjms.transport.registry import create_transport
from pyjms_broker.service import BrokerService
from tests.kit.brokers.managed import ManagedBroker, managed_broker
from tests.kit.brokers.security import simple, user
from tests.kit.clients.raw import RawClient
from tests.kit.processes.command_line import pyjms
from tests.kit.processes.forked_python import ForkedPython, run_python

LATER = 4_000_000_000_000


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    texts = [str(each) for each in arguments]
    return run_python("-m", "pyjms_broker", *texts, cwd=Path.cwd())


@pytest.fixture
def broker_url(tmp_path: Path) -> Iterator[str]:
    arguments = ("start", "--data", str(tmp_path / "data"), "--openwire", "127.0.0.1:0")
    with ForkedPython(
        ["-m", "pyjms_broker", *arguments],
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
        process.kill()


def message(number: int, queue: str = "a.b", **fields: object) -> dict[str, object]:
    return {
        "message": {
            "kind": "bytes",
            "destination": f"queue://{queue}",
            "message_id": f"ID:h:1:2:{number}",
            "body": "AAH/",
            **fields,
        }
    }


def messages_of(path: Path) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line["message"] for line in lines if "message" in line]


async def test_import_and_export_with_a_running_broker(
    broker_url: str, tmp_path: Path, raw_client: type[RawClient]
) -> None:
    fields: dict[str, Any] = {
        "priority": 7,
        "expiration": LATER,
        "type": "t",
        "correlation_id": "c",
        "group_id": "g",
        "group_sequence": 3,
        "reply_to": "topic://answers",
        "properties": {"i": 1, "l": {"type": "long", "value": 1}, "s": "x"},
    }
    file = tmp_path / "in"
    lines = [
        {"format": "pyjms-messages", "version": 1},
        {"subscription": {"client_id": "c", "name": "n", "topic": "topic://news"}},
        message(1, **fields),
        message(2, "a.c", persistent=False),
        message(3, expiration=1),
        message(4, body="?"),
        message(5, "x"),
        {"message": {**message(6)["message"], "destination": "topic://news"}},  # type: ignore[dict-item]
        {"end": {}},
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    sent = run("import", file, "--url", broker_url)
    assert sent.returncode == 1, sent.stderr
    assert sent.stderr == f"{file}:6: body: it is not base64\n"
    assert sent.stdout == (
        "4 messages imported, 1 durable subscription created; left out: 1 expired, 1 invalid lines\n"
    )

    out = tmp_path / "out"
    patterns = ("--queue", "a.*", "--queue", "a.b")
    browsed = run("export", "--url", broker_url, "--output", out, *patterns)
    assert browsed.returncode == 0, browsed.stderr
    assert browsed.stdout == f"{out}: 2 messages, 0 durable subscriptions\n"
    found = {str(each["destination"]): each for each in messages_of(out)}
    assert found.keys() == {"queue://a.b", "queue://a.c"}
    first = found["queue://a.b"]
    # what is left of the time to live goes over, and becomes a time again a moment later
    assert abs(first.pop("expiration") - fields.pop("expiration")) < 1000
    for name, value in fields.items():
        assert first[name] == value, name
    assert first["body"] == "AAH/"
    assert first["kind"] == "bytes"
    assert all(each.get("persistent", True) for each in found.values())

    everything = run("export", "--url", broker_url, "--output", tmp_path / "all")
    assert everything.returncode == 0, everything.stderr
    assert len(messages_of(tmp_path / "all")) == 3

    # They were browsed, not taken; and the folder of the running broker can be looked at.
    client = raw_client(create_transport(broker_url))
    await client.open()
    await client.consumer(Queue("x"))
    assert (await client.message()).content == b"\x00\x01\xff"
    await client.cut()
    verified = run("journal", "verify", tmp_path / "data")
    assert verified.returncode == 0, verified.stdout
    audited = run("journal", "audit", tmp_path / "data")
    assert "c:n (1)" in audited.stdout
    refused = run("journal", "rebuild", tmp_path / "data")
    assert refused.returncode == 2
    assert "is locked by a running broker" in refused.stderr


def test_an_unreachable_broker_is_reported_in_one_line(tmp_path: Path) -> None:
    done = run("export", "--url", "tcp://127.0.0.1:1", "--output", tmp_path / "f")
    assert done.returncode == 1
    assert "Could not connect" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "f").exists()


@pytest.fixture
def guarded() -> Iterator[ManagedBroker]:
    """A broker in memory that only `admin` may use."""
    plugin = simple(user("admin", "admins", "top-secret"))
    service = BrokerService(
        "guarded",
        persistent=False,
        scheduler_support=True,
        plugins=[plugin],
    )
    service.add_connector("tcp://127.0.0.1:0")
    with managed_broker(service) as broker:
        yield broker


LOGIN = {"PYJMS_USER": "admin", "PYJMS_PASSWORD": "top-secret"}


def test_an_exported_file_is_private_and_has_no_credentials(
    guarded: ManagedBroker, tmp_path: Path
) -> None:
    url = guarded.openwire
    sent = pyjms("send", "orders", "body", "--url", url, **LOGIN)
    assert sent.exit_code == 0, sent.output
    by_user, by_url = tmp_path / "user", tmp_path / "url"
    assert pyjms("broker", "export", "--url", url, "-o", str(by_user), **LOGIN).exit_code == 0
    secret = f"{url}?jms.userName=admin&jms.password=top-secret"
    assert pyjms("broker", "export", "-o", str(by_url), PYJMS_URL=secret).exit_code == 0
    for file in (by_user, by_url):
        assert json.loads(file.read_text().splitlines()[0])["source"] == url
        assert "top-secret" not in file.read_text()
        assert file.stat().st_mode & 0o777 == 0o600
    word = tmp_path / "word"
    word.write_text("top-secret\n")
    login = ("--url", url, "--user", "admin", "--password-file", str(word))
    imported = pyjms("broker", "import", str(by_user), *login)
    assert "1 message imported" in imported.stdout


def test_a_login_for_a_directory_is_refused(tmp_path: Path) -> None:
    done = pyjms("broker", "export", str(tmp_path), "-o", str(tmp_path / "f"), "--user", "admin")
    assert done.exit_code == 2
    assert "--user and --password-file are for a running broker" in done.stderr


def test_jobs_of_a_broker_with_users(guarded: ManagedBroker) -> None:
    to = {"PYJMS_URL": guarded.openwire, **LOGIN}
    assert pyjms("send", "later", "x", "--delay", "1h", **to).exit_code == 0
    listed = pyjms("broker", "jobs", "list", **to)
    assert listed.stdout.splitlines()[-1] == "1 job"
    assert pyjms("broker", "jobs", "remove", "--all", "--yes", **to).exit_code == 0
    assert pyjms("broker", "jobs", "list", **to).stdout.splitlines()[-1] == "0 jobs"
