"""Jolokia: the answers of the real one with ActiveMQ 5.17.2, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from pyjms.jms.destination import Queue
from pyjms.transport.registry import create_transport
from tests.kit.brokers.security import simple, user
from tests.kit.clients.raw import RawClient
from tests.kit.processes.children import started
from tests.kit.servers.java_programs import JavaProgram
from tests.kit.web.jolokia import (
    BROKER,
    ORDERS,
    SCENARIO,
    TEXT,
    ask,
    execute,
    read,
    recordable,
    structure,
)
from tests.kit.web.sites import web_broker

ADDITIONS = {"FirstMessageAge", "EnqueueRate", "DequeueRate"}
"""Attributes that ActiveMQ's queues do not have."""
RECORDED = Path(__file__).parents[2] / "data" / "jolokia.jsonl"
PROGRAM = Path(__file__).with_name("jolokia_program")

WORDING = "the text of the description is our own"
MESSAGES = "ActiveMQ's sendTextMessage makes messages that are not persistent, of priority 0"
MEASURED = "what a process uses differs"
COMPARED_BY_STRUCTURE = {
    "browse": MESSAGES,
    "browse with a selector": MESSAGES,
    "browse as a table": MESSAGES,
    "read the memory of the process": MEASURED,
    "read a part of it by GET": MEASURED,
    "read the threads": MEASURED,
    "read the machine": MEASURED,
    "read the runtime": MEASURED,
    "read what one of them has": MEASURED,
    "list their domain": WORDING,
    "list a bean": WORDING,
    "list an operation": WORDING,
    "list overloaded operations": WORDING,
    "list by GET": WORDING,
    "remove what matches": "there the copies do not match, though they have that priority",
}
OTHERWISE = {
    "read all attributes of the broker": "values differ, and advisory topics exist there",
    "get no message": "an unknown id is null here, and an error there unless it is well-formed",
    "write a wrong type": "IllegalArgumentException instead of its subclass NumberFormatException",
    "list to a depth": "advisory topics exist there",
    "several": "the version is our own",
}
"""Requests with a separate test below."""


def recorded() -> dict[str, dict[str, Any]]:
    lines = RECORDED.read_text(encoding="utf-8").splitlines()
    return {each["name"]: each for each in map(json.loads, lines)}


@pytest.fixture(scope="module")
def ours() -> dict[str, dict[str, Any]]:
    async def answers() -> list[dict[str, Any]]:
        async with web_broker(broker_name="jolokia") as broker:
            sender = RawClient(create_transport(broker.service.vm_uri))
            await sender.open("sender")
            await sender.producer(Queue("mail"))
            url = f"{broker.url}/api/jolokia"
            found = await anyio.to_thread.run_sync(lambda: list(ask(url)))
            await sender.close()
            return found

    return {each["name"]: recordable(each) for each in anyio.run(answers)}


@pytest.mark.fact("activemq-edges JX3", "activemq-edges JX21")
@pytest.mark.parametrize("name", [name for name, _ in SCENARIO if name not in OTHERWISE])
def test_the_answer_is_the_real_ones(name: str, ours: dict[str, Any]) -> None:
    real, own = recorded()[name], ours[name]
    assert own["status"] == real["status"]
    expected, answer = real["answer"], own["answer"]
    if isinstance(expected, dict) and isinstance(answer, dict):  # the error's wording differs
        expected, answer = {**expected, "error": None}, {**answer, "error": None}
        value = answer.get("value")
        if isinstance(value, dict):
            answer["value"] = {key: value[key] for key in value if key not in ADDITIONS}
    if name in COMPARED_BY_STRUCTURE:
        expected, answer = structure(expected), structure(answer)
    assert answer == expected


def test_the_answers_that_differ(ours: dict[str, Any]) -> None:
    real = recorded()
    theirs = real["read all attributes of the broker"]["answer"]["value"]
    own = ours["read all attributes of the broker"]["answer"]["value"]
    assert not own.keys() - theirs.keys() - ADDITIONS
    assert ours["get no message"]["answer"]["value"] is None
    for answers in (real, ours):
        answer = answers["write a wrong type"]["answer"]
        assert (answer["status"], answer["error_type"].rpartition(".")[0]) == (400, "java.lang")
        listed = answers["list to a depth"]["answer"]["value"]
        assert (
            listed["brokerName=jolokia,destinationName=orders,destinationType=Queue,type=Broker"]
            == "1"
        )
        several = answers["several"]["answer"]
        assert [each["status"] for each in several] == [200, 404, 200]
        assert several[2]["value"]["protocol"] == "7.2"


def test_errors_say_what_to_do(ours: dict[str, Any]) -> None:
    for name in ("read what is missing", "execute what is missing", "read of a missing bean"):
        answer = ours[name]["answer"]
        assert answer["error"].startswith(f"{answer['error_type']} : ")
        assert answer["error"].endswith(")")
        assert "stacktrace" not in answer


@pytest.mark.maven
@pytest.mark.nightly
def test_the_recording_is_what_the_real_one_answers(
    maven_program: JavaProgram, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with started([*maven_program(PROGRAM), "JolokiaBroker"], log) as child:
        assert child.stdout is not None
        url = next(line for line in child.stdout if line.startswith("http")).strip().rstrip("/")
        lines = [json.dumps(recordable(each), sort_keys=True) for each in ask(url)]
    made = tmp_path / "jolokia.jsonl"
    made.write_text("\n".join(lines) + "\n", encoding="utf-8")
    differing = [name for name, each in recorded().items() if each not in map(json.loads, lines)]
    times = {
        "browse",
        "browse with a selector",
        "browse as a table",
        "read all attributes of the broker",
        *(name for name, reason in COMPARED_BY_STRUCTURE.items() if reason == MEASURED),
    }
    assert set(differing) <= times


async def test_only_administrators_change_anything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    users = simple(user("root", "admins"), user("eve", "watchers"), user("alice", "shop"))
    web = {"reader_groups": frozenset({"watchers"})}
    async with web_broker(users, broker_name="jolokia", web=web) as broker:
        for name, reads, changes in (("root", 200, 200), ("eve", 200, 403), ("alice", None, None)):
            async with broker.client(name) as client:

                async def status(request: Any) -> int | None:
                    if isinstance(request, str):
                        answer = await client.get(f"/api/jolokia{request}")
                    else:
                        answer = await client.post("/api/jolokia", json=request)
                    return answer.json()["status"] if answer.status_code == 200 else None

                assert await status(read(BROKER, attribute="BrokerName")) == reads
                assert await status(execute("addQueue", "orders", mbean=BROKER)) == changes
                assert await status(f"/exec/{BROKER}/addQueue/orders") == changes
                assert await status(execute(TEXT, "a secret")) == changes
    assert "user 'root' at tcp://127.0.0.1:" in caplog.text
    acts = [r.getMessage() for r in caplog.records if r.name == "pyjms_broker.audit"]
    assert [act.partition(":")[0] for act in acts if "invoke addQueue" in act]
    assert all(act.startswith("'root' from tcp://127.0.0.1:") for act in acts if "invoke" in act)
    assert "a secret" not in caplog.text


@pytest.mark.parametrize(
    "header",
    [
        {"Origin": "http://evil.test"},
        {"Referer": "http://evil.test/x"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
    ids=["origin", "referer", "fetch"],
)
async def test_pages_of_other_sites_are_refused(header: dict[str, str]) -> None:
    async with web_broker(broker_name="jolokia") as broker, broker.client() as client:
        for path in ("/version", f"/exec/{BROKER}/addQueue/x"):
            answer = await client.get(f"/api/jolokia{path}", headers=header)
            assert answer.status_code == 403
            assert (await client.get(f"/api/jolokia{path}")).json()["status"] == 200


_BROWSER = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)", "Accept-Language": "en-US"}


@pytest.mark.fact("activemq-edges JX3a")
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 403),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Referer": "SITE/admin/"}, 200),
        ({"User-Agent": "curl/8.0"}, 200),
    ],
    ids=["a page without Referer", "typed", "a page of the site", "a program"],
)
async def test_a_browser_makes_no_change_by_get_without_its_page(
    headers: dict[str, str], expected: int
) -> None:
    """An URL of plain http that a foreign page opens has neither Sec-Fetch-Site nor Origin."""
    async with (
        web_broker(simple(user("root", "admins")), broker_name="jolokia") as broker,
        broker.client("root", headers=_BROWSER) as client,
    ):
        sent = {name: value.replace("SITE", broker.url) for name, value in headers.items()}
        answer = await client.get(f"/api/jolokia/exec/{BROKER}/addQueue/x", headers=sent)
        assert answer.status_code == expected
        assert (await client.get("/api/jolokia/version", headers=sent)).status_code == 200


_NEAR = {"Origin": "http://localhost"}


@pytest.mark.fact("activemq-edges JX3a")
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (_NEAR, 200),
        ({"Origin": "localhost"}, 200),
        ({"Origin": "https://127.0.0.1"}, 200),
        ({"Origin": "http://localhost:1"}, 403),
        ({"Origin": "http://localhost.evil.test"}, 403),
        ({**_NEAR, "Cookie": "a=b"}, 403),
        ({**_NEAR, "Sec-Fetch-Mode": "cors"}, 403),
        ({**_NEAR, "X-Forwarded-For": "10.0.0.1"}, 403),
        ({**_NEAR, "Via": "1.1 proxy"}, 403),
    ],
)
async def test_health_checks_send_an_origin_of_this_machine(
    headers: dict[str, str], expected: int
) -> None:
    async with (
        web_broker(simple(user("root", "admins")), broker_name="jolokia") as broker,
        broker.client("root") as client,
        broker.client() as stranger,
    ):
        answer = await client.get("/api/jolokia/version", headers=headers)
        assert answer.status_code == expected
        answer = await client.post("/api/jolokia", json=read(BROKER), headers=headers)
        assert answer.status_code == expected
        assert (await stranger.get("/api/jolokia/version", headers=headers)).status_code == 401


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[" * 100_000,
        b'"x"',
        b"1e999",
        b"[[]]",
        b'{"type": 1}',
        b'{"type": "read", "mbean": 5}',
        b"\xff",
        b'{"type":"list","config":{"maxDepth":"x"}}',
        b'{"type":"exec","mbean":"a:b=c","operation":"d","arguments":[NaN]}',
        b'{"type":"exec","mbean":"a:b=c","operation":"d","arguments":[1e999]}',
    ],
    ids=[
        *("empty", "open", "deep", "text", "number", "nested", "type", "name", "bytes", "option"),
        *("not a number", "infinite"),
    ],
)
async def test_what_cannot_be_read_is_an_error(body: bytes) -> None:
    async with web_broker(broker_name="jolokia") as broker, broker.client() as client:
        answer = (await client.post("/api/jolokia", content=body)).json()
    assert answer["status"] == 400
    assert answer["error_type"].startswith("java")


async def test_options_of_requests() -> None:
    async with (
        web_broker(broker_name="jolokia", destinations=()) as broker,
        broker.client() as client,
    ):

        async def value(request: dict[str, Any]) -> Any:
            return (await client.post("/api/jolokia", json=request)).json()["value"]

        for name in ("a", "b", "orders"):
            await value(execute("addQueue", name, mbean=BROKER))
        ignored = read(attribute=["Name", "Weight"], config={"ignoreErrors": True})
        assert (await value(ignored))["Weight"].startswith("ERROR: ")
        two = read(BROKER, attribute="Queues", config={"maxCollectionSize": 2})
        assert len(await value(two)) == 2
        shallow = read(BROKER, attribute=["Queues"], config={"maxDepth": 1})
        assert await value(shallow) == {"Queues": "[list of 3]"}


async def test_answers_are_bounded() -> None:
    async with web_broker(broker_name="jolokia") as broker, broker.client() as client:
        many = [{"type": "version"}] * 1001
        answer = (await client.post("/api/jolokia", json=many)).json()
        assert (answer["status"], "at most 1000" in answer["error"]) == (400, True)
        assert len((await client.post("/api/jolokia", json=many[:1000])).json()) == 1000


async def test_a_list_has_any_number_of_beans() -> None:
    async with web_broker(broker_name="jolokia") as broker, broker.client() as client:
        region = broker.service.region_broker
        for number in range(2100):
            region.add_destination(region.context, Queue(f"q{number}"))
        asked = {"type": "list", "path": "org.apache.activemq", "config": {"maxDepth": 2}}
        answer = (await client.post("/api/jolokia", json=asked)).json()
    beans = answer["value"]
    assert len(beans) > 2100
    name = "brokerName=jolokia,destinationName=q2099,destinationType=Queue,type=Broker"
    assert beans[name].keys() == {"attr", "op", "class", "desc"}
    assert beans[name]["attr"] == "1"


async def test_a_lone_surrogate_in_a_message() -> None:
    async with web_broker(broker_name="jolokia") as broker, broker.client() as client:
        await client.post("/api/jolokia", json=execute("addQueue", "orders", mbean=BROKER))
        sent = await client.post("/api/jolokia", content=json.dumps(execute(TEXT, "\ud800")))
        assert sent.json()["status"] == 200, ORDERS
        browsed = (await client.post("/api/jolokia", json=execute("browse()"))).json()
    assert browsed["value"][0]["Text"] == "\ud800"
