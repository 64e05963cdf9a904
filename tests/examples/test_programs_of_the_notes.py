"""The programs of the tutorial and of the notes, with a separate broker and its web console."""

from __future__ import annotations

import re
import shlex
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import pytest

from tests.kit.brokers.commands import broker_process, free_port, listening_at, stopped
from tests.kit.processes.children import ROOT, environment
from tests.kit.processes.forked_python import ForkedPython
from tests.kit.processes.user_programs import Running

TUTORIAL = ROOT / "examples" / "tutorial"
ROW = re.compile(
    r'<th scope="row"><a [^>]*>([^<]+)</a>[^\n]*</th>\s*((?:<td class="n">[^<]*</td>)+)'
)


@dataclass
class Site:
    """A broker with the tutorial's configuration, at its own ports, and its console."""

    url: str
    console: httpx.Client

    def counters(self, page: str) -> dict[str, list[int]]:
        """Return pending, consumers, enqueued, dequeued of each queue, as the console shows them."""
        text = self.console.get(page).text
        return {
            name: [int(number) for number in re.findall(r">(\d+)<", cells)[:4]]
            for name, cells in ROW.findall(text)
        }

    def send(self, kind: str, destination: str, body: str) -> None:
        """Send with the console's form."""
        form = self.console.get("send").text
        (token, *_) = re.findall(r'name="token" value="([^"]+)"', form)
        fields = {"token": token, "type": kind, "destination": destination, "body": body}
        self.console.post("send", data=fields).raise_for_status()

    @contextmanager
    def running(self, module: str, **more: str) -> Iterator[Running]:
        """Run `python -m MODULE` until Ctrl-C."""
        variables = {"PYJMS_ACTIVEMQ__BROKER_URL": self.url, **more}
        with ForkedPython(
            ["-m", module], cwd=ROOT, env=environment(PYTHONUNBUFFERED="1", **variables)
        ) as process:
            child = Running(process)
            try:
                yield child
                child.end(signal.SIGINT)
            finally:
                process.kill()

    def run(self, module: str, *texts: str) -> list[str]:
        """Run a part of the tutorial until it has printed the texts; return all that it received."""
        with self.running(module) as child:
            child.expect("Application started", *texts)
        return [line for line in child.written.splitlines() if line.startswith("接受")]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Its ports are free ones; user and password are those of the tutorial."""
    settings = (TUTORIAL / "broker.yaml").read_text(encoding="utf-8")
    web = free_port()
    for port, own in (("61616", "0"), ("61613", "0"), ("8161", str(web))):
        assert port in settings
        settings = settings.replace(port, own)
    folder = tmp_path_factory.mktemp("broker")
    (folder / "broker.yaml").write_text(settings, encoding="utf-8")
    address = f"http://localhost:{web}"
    headers = {"origin": address}
    with (
        broker_process("--config", "broker.yaml", cwd=folder) as broker,
        httpx.Client(
            base_url=f"{address}/admin/", headers=headers, follow_redirects=True
        ) as console,
    ):
        url = listening_at(broker, "openwire")
        console.post("login", data={"name": "admin", "password": "admin"}).raise_for_status()
        yield Site(url, console)
        stopped(broker)


def modules_of_the_readme() -> list[str]:
    text = (TUTORIAL / "README.md").read_text(encoding="utf-8")
    *_, block = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [shlex.split(line, comments=True)[-1] for line in block.splitlines()]


@pytest.mark.timeout(150)
def test_the_steps_of_the_tutorial(site: Site) -> None:
    sending, listening, subscribing, *again = modules_of_the_readme()
    assert again == [sending, subscribing]
    for _ in range(3):
        site.run(sending)
    assert site.counters("queues")["active.queue"] == [3, 0, 3, 0]
    with site.running(listening) as child:
        child.expect_count("接受queue:queue-test\n", 3)
        child.expect("Application started")
        site.send("queue", "active.queue", "from the console")
        site.send("topic", "active.topic.name.model", "from the console")
        child.expect("接受queue:from the console", "接受topic:from the console")
    assert "接受topic:topic-test" not in child.written
    assert site.counters("queues")["active.queue"] == [0, 0, 4, 4]
    assert site.run(subscribing) == []
    site.run(sending)
    assert site.run(subscribing, "接受topic:topic-test") == ["接受topic:topic-test"]


@pytest.mark.timeout(150)
@pytest.mark.fact("spring-jms 11.6", "jms-api 2.13")
def test_the_application_of_the_notes(site: Site) -> None:
    """Six texts, 42 calls, six dead letters; the session with a listener receives nothing."""
    quick = {"PYJMS_APP__WAIT": "0", "PYJMS_ACTIVEMQ__REDELIVERY__INITIAL_DELAY": "10ms"}
    call = "virtual topic listener, thread "
    with site.running("examples.activemq_notes", **quick) as child:
        child.expect("SimpleProducer")
        child.expect_count(call, 42)
        site.send("queue", "test_queue", "to the simple listener")
        site.send("topic", "test_topic", "to all")
        child.expect("to the simple listener", "to all")
    lines = child.written.splitlines()
    failed = [line.partition(call)[2].partition(": ")[2] for line in lines if call in line]
    assert Counter(failed) == {f"消息: {number}": 7 for number in range(6)}
    assert len([line for line in lines if line.endswith(": to all")]) == 1
    assert (
        "session listener: Cannot synchronously receive a message when a MessageListener is set"
        in child.written
    )
    queues = site.counters("queues")
    assert queues["Consumer.A.VirtualTopic.test_topic"] == [0, 0, 6, 6]
    assert queues["ActiveMQ.DLQ"][0] == 6
