"""The commands of the tutorial's README, verbatim, on a separate broker."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kit.brokers.commands import broker_process, free_port, listening_at, stopped
from tests.kit.processes.children import ROOT, environment
from tests.kit.processes.forked_python import ForkedPython, run_python
from tests.kit.processes.user_programs import TIMEOUT, Running

QUEUE_TEXTS = [f"received: {text} to the queue" for text in ("one", "two", "three")]
TOPIC_TEXTS = [f"received: {text} to the topic" for text in ("one", "two", "three")]


class Readme:
    """The README's commands, with free ports instead of the usual ones."""

    def __init__(self) -> None:
        self.web_port = free_port()
        readme = (ROOT / "examples" / "tutorial" / "README.md").read_text(encoding="utf-8")
        _, broker, parts = re.findall(r"^```sh\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
        self.settings, self.broker = broker.replace("8161", str(self.web_port)).splitlines()
        self._variable, *self.commands = (line.split("#")[0].strip() for line in parts.splitlines())
        self.variables: dict[str, str] = {}

    def write_settings(self, folder: Path) -> None:
        subprocess.run(self.settings, shell=True, cwd=folder, check=True)

    def use_broker(self, url: str) -> None:
        export, _, assignment = self._variable.partition(" ")
        name, _, value = assignment.partition("=")
        assert (export, value) == ("export", "tcp://localhost:61616")
        management = f"http://localhost:{self.web_port}/api/jolokia"
        self.variables = {name: url, "PYJMS_MANAGEMENT_URL": management}

    def arguments(self, command: str) -> list[str]:
        program, *arguments = shlex.split(command)
        if program == "pyjms":
            return ["-m", "pyjms", *arguments]
        assert program == "python"
        return arguments

    @contextmanager
    def running(self, command: str) -> Iterator[Running]:
        """Run a command until Ctrl-C."""
        with ForkedPython(
            self.arguments(command),
            cwd=ROOT,
            env=environment(PYTHONUNBUFFERED="1", **self.variables),
        ) as process:
            child = Running(process)
            try:
                child.expect("Application started")
                yield child
                child.end(signal.SIGINT)
            finally:
                process.kill()

    def output(self, command: str) -> str:
        variables = environment(COLUMNS="200", **self.variables)
        done = run_python(*self.arguments(command), cwd=ROOT, env=variables, timeout=TIMEOUT)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def received(child: Running) -> list[str]:
    return [line for line in child.written.splitlines() if line.startswith("received:")]


@pytest.mark.timeout(150)
def test_the_parts_on_a_separate_broker(tmp_path: Path) -> None:
    readme = Readme()
    readme.write_settings(tmp_path)
    pyjms, group, start, *arguments = readme.broker.split()
    assert (pyjms, group, start) == ("pyjms", "broker", "start")
    with broker_process(*arguments, "--openwire", "127.0.0.1:0", cwd=tmp_path) as broker:
        readme.use_broker(listening_at(broker))
        send, dstat, listen, subscribe, send_again, subscribe_again = readme.commands
        with readme.running(send):
            pass
        (line,) = [row for row in readme.output(dstat).splitlines() if "active.queue" in row]
        assert line.split()[:2] == ["active.queue", "3"]
        assert line.split()[4] == "3"  # enqueued
        with readme.running(listen) as child:
            child.expect(*QUEUE_TEXTS)
        assert received(child) == QUEUE_TEXTS
        with readme.running(subscribe) as child:
            pass
        assert received(child) == []
        with readme.running(send_again):
            pass
        with readme.running(subscribe_again) as child:
            child.expect(*TOPIC_TEXTS)
        assert received(child) == TOPIC_TEXTS
        stopped(broker)
