"""Applications in operation, written by a newcomer: web servers, signals, brokers, processes.

A script that forks is tests/integration/sync/scripts/multiprocessing_fork.py.
"""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.kit.processes.children import accepted_url, started
from tests.kit.processes.python_environments import VERSIONS
from tests.kit.processes.user_programs import TIMEOUT, Make, Running

pytestmark = [pytest.mark.pythons, pytest.mark.parametrize("version", VERSIONS)]

BrokerAt = Callable[..., AbstractContextManager[str]]


@pytest.fixture
def broker_at(tmp_path: Path) -> BrokerAt:
    """`with broker_at(port, *options) as url`: a broker of its own there; 0: at any free port.

    It is killed at the end of the block.
    """

    @contextmanager
    def run(port: int, *options: str) -> Iterator[str]:
        where = f"127.0.0.1:{port}"
        command = [sys.executable, "-m", "pyjms", "broker", "start", *options, "--openwire", where]
        log = tmp_path / "broker.log"
        with started(command, log) as child:
            yield accepted_url(child, log).split("?", maxsplit=1)[0]
            child.kill()

    return run


def call(url: str, body: object = None) -> object:
    """GET a URL, or POST JSON to it; return the JSON of the response."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data=data, headers={"Content-Type": "application/json"})
    with urlopen(request, timeout=TIMEOUT) as response:
        return json.load(response)


def order_and_ask(base: str) -> None:
    """Post orders and ask for prices, in several threads."""

    def one(number: int) -> None:
        assert call(f"{base}/orders", {"id": number, "note": None}) == {"accepted": True}
        price = {"id": number, "price": number * 1.25}
        assert call(f"{base}/prices/{number}") == price

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(one, range(60)))


def address(server: Running, before: str) -> str:
    """Wait until a server says where it is; return that URL."""
    server.expect(before)
    found = re.search(f"{before}(http://\\S+)", server.written)
    assert found, server.written
    return found[1]


def test_the_threads_of_flask(program: Make, broker_at: BrokerAt) -> None:
    app = program("flask")
    app.require("flask")
    app.write_recipe("Flask")
    with broker_at(0, "--ephemeral") as app.url, app.running("pricing"):
        serve = ("flask", "--app", "shop", "run", "--port", "0")
        with app.started(*serve, PYJMS_ACTIVEMQ__BROKER_URL=app.url) as server:
            order_and_ask(address(server, "Running on "))


@pytest.mark.parametrize(
    ("section", "application"), [("Flask", "shop:app"), ("Django", "site_shop:application")]
)
def test_workers_that_gunicorn_forks_from_the_loaded_application(
    section: str, application: str, program: Make, broker_at: BrokerAt
) -> None:
    app = program("gunicorn")
    module, name = application.split(":")
    app.require("gunicorn", section.lower())
    app.write_recipe("Flask")
    app.write_recipe(section)
    with broker_at(0, "--ephemeral") as app.url, app.running("pricing"):
        # connected when it is loaded, so that what the workers inherit is in use
        loaded = f"from {module} import *\ntemplate.convert_and_send('x', 'y')\n"
        (app.folder / "loaded.py").write_text(loaded, encoding="utf-8")
        serve = ["gunicorn", "--preload", "--workers", "3", "--threads", "4", "-b", "127.0.0.1:0"]
        with app.started(
            *serve, f"loaded:{name}", PYJMS_ACTIVEMQ__BROKER_URL=app.url, HOME=str(app.folder)
        ) as server:
            order_and_ask(address(server, "Listening at: "))
            server.end(signal.SIGTERM)
    assert "Traceback" not in server.written


def test_a_view_with_the_template_of_a_test(program: Make) -> None:
    app = program("flask")
    app.require("flask")
    app.write_recipe("Flask")
    app.checks("test_shop.py")


def test_sigterm_under_load(program: Make) -> None:
    app = program("load")
    app.script("send", "300")
    handled: list[int] = []
    for run in range(4):
        with app.running("work") as child:
            left = {*range(300)} - {*handled}
            child.expect(*(f"job {number}\n" for number in left) if run == 3 else ["\njob "])
            child.end(signal.SIGTERM)
        assert "SIGTERM: finishing work in progress" in child.written
        assert "Application stopped" in child.written
        assert "WARNING" not in child.written
        handled += map(int, re.findall(r"^job (\d+)$", child.written, re.MULTILINE))
    assert sorted(handled) == list(range(300))


def test_two_brokers(program: Make, broker_at: BrokerAt) -> None:
    app = program("two_brokers")
    with broker_at(0, "--ephemeral") as audit, app.running("shop", AUDIT_URL=audit) as child:
        assert audit in child.written
        app.script("send")
        child.expect("audited 0", "audited 1", "audited 2")


def test_scheduled_messages(
    program: Make, broker_at: BrokerAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = ["at once", "again", "again", "in a second", "again"]
    app = program("scheduled")
    app.write_recipe("Scheduled messages")
    monkeypatch.setenv("PYJMS_BROKER__SCHEDULER_SUPPORT", "true")
    with broker_at(0, "--data", str(app.folder / "data")) as app.url:
        assert app.script("reminders").split("\n")[:-1] == expected


def test_a_broker_that_is_restarted_under_load(program: Make, broker_at: BrokerAt) -> None:
    app = program("restarted")
    data = ("--data", str(app.folder / "data"))
    with ExitStack() as broker:
        url = broker.enter_context(broker_at(0, *data))
        app.url = f"failover:({url})?maxReconnectDelay=100"
        with app.running("work") as child, app.started("send", app.url) as sender:
            sender.expect("sent 100")
            broker.close()
            broker.enter_context(broker_at(int(url.rsplit(":", 1)[1]), *data))
            sender.expect("sent all")
            child.expect("done all", "Connected again")
    assert "is lost" in child.written
    assert "Traceback" not in child.written


def test_batches_by_hand(program: Make) -> None:
    app = program("batches")
    app.write_recipe("Manual batches")
    assert app.script("batches") == "stored 100\nstored 100\nstored 50\n"


def test_json_logs(program: Make) -> None:
    app = program("json_logs")
    app.write_recipe("JSON logs")
    (app.folder / "send.py").write_text(
        "import sys\nfrom pyjms import *\n"
        "JmsTemplate(ConnectionFactory(sys.argv[1])).convert_and_send('orders', {'id': -1})\n"
    )
    (app.folder / "application.yaml").write_text("activemq: {redelivery: {maximum: 1}}\n")
    with app.running("app") as child:
        app.script("send")
        child.expect("becomes a dead letter")
    written = (app.folder / "app.jsonl").read_text(encoding="utf-8")
    entries = [json.loads(line) for line in written.splitlines()]
    [failure] = [entry for entry in entries if "attempt 1 of 2" in entry["message"]]
    assert failure["listener_id"] == "orders"
    assert failure["destination"] == "orders"
    assert failure["message_id"].startswith("ID:")
    assert failure["message"].endswith("ValueError: negative id (app.py:18)")
    own = [entry for entry in entries if entry["message"] == "order -1"]
    assert [entry["listener_id"] for entry in own] == ["orders", "orders"]


def test_a_second_process_shares_the_queues(program: Make) -> None:
    app = program("shared")
    with app.running("orders", ME="first") as first, app.running("orders", ME="second") as second:
        app.script("send", "news")
        for child, name in ((first, "first"), (second, "second")):
            child.expect(*(f"{name} news {number}\n" for number in range(20)))
        app.script("send", "orders")
        second.expect("second order 19")
        first.wait(-signal.SIGKILL)
    handled = re.findall(
        r"^(first|second) order (\d+)$", first.written + second.written, re.MULTILINE
    )
    assert {int(number) for _, number in handled} == set(range(20))
    assert len(handled) == 21  # the one during which the first process was killed came again
