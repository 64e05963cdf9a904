"""The tests of the page about tests, on brokers outside of their process: a URL, a container."""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path

import pytest

from pyjms.errors import JMSException
from pyjms.testing.remote import broker_in_container
from tests.docs.test_pages import write_files
from tests.kit.processes.children import environment, our_broker
from tests.kit.processes.forked_python import run_python
from tests.kit.servers.java_brokers import real_broker
from tests.kit.servers.java_programs import java_program

__all__ = ["java_program", "our_broker", "real_broker"]

CONTAINERS = """\
#!{python}
import json, os, signal, subprocess, sys, time

folder = os.path.dirname(__file__)
command, *arguments = sys.argv[1:]
with open(os.path.join(folder, "log"), "a") as log:
    print(json.dumps(sys.argv[1:]), file=log)
if command == "run":
    if arguments[-1] == "no-such-image":
        sys.exit("pull access denied")
    command = [sys.executable, "-m", "pyjms_broker", "--ephemeral", "--openwire", "127.0.0.1:0"]
    written = os.path.join(folder, "broker.out")
    with open(written, "w") as out:
        broker = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    while "tcp://" not in (text := open(written).read()) or "\\n" not in text:
        time.sleep(0.05)
    address = text.split("tcp://")[1].split()[0].split("?")[0]
    print(f"{{broker.pid}}-{{address}}")
elif command == "port":
    print(arguments[0].partition("-")[2])
elif command == "inspect":
    print("true")
elif command == "rm":
    os.kill(int(arguments[-1].partition("-")[0]), signal.SIGTERM)
"""
"""A replacement for docker: a container is a process of our broker."""


def run_tests(folder: Path, *arguments: str, **variables: str) -> str:
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments)
    done = run_python(*command, cwd=folder, env=environment(**variables), timeout=100)
    return done.stdout + done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_files("testing.md", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "fixture", ["our_broker", pytest.param("real_broker", marks=pytest.mark.activemq)]
)
def test_on_the_broker_of_a_url(fixture: str, folder: Path, request: pytest.FixtureRequest) -> None:
    """Also on both loops, one after the other: the first one's dead letters are not the second's."""
    url = request.getfixturevalue(fixture).partition("?")[0]
    restart = "test_failures.py::test_a_broker_that_restarts"
    output = run_tests(folder, "test_shipping.py", restart, "--pyjms-broker", url)
    assert re.search(r"^[12] failed, [35] passed", output, re.MULTILINE), output
    assert "jms_chaos cannot restart the broker" in output


@pytest.fixture
def containers(tmp_path: Path) -> Path:
    """A folder with `docker`; the calls are in its file `log`."""
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(CONTAINERS.format(python=sys.executable), encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program.parent


def test_in_a_container(folder: Path, containers: Path) -> None:
    settings = folder / "pyproject.toml"
    chosen = '\npyjms_broker = "container:apache/activemq-classic:6.1.7?jms.sendTimeout=5000"\n'
    settings.write_text(settings.read_text(encoding="utf-8") + chosen, encoding="utf-8")
    path = f"{containers}{os.pathsep}{os.environ['PATH']}"
    output = run_tests(folder, "test_shipping.py", PATH=path)
    assert re.search(r"^\d passed", output, re.MULTILINE), output
    log = (containers / "log").read_text(encoding="utf-8").splitlines()
    assert (
        log[0]
        == '["run", "--detach", "--publish", "127.0.0.1::61616", "apache/activemq-classic:6.1.7"]'
    )
    assert log[-1].startswith('["rm", "--force", "--volumes"')


@pytest.mark.parametrize(
    ("broker", "path", "text"),
    [
        ("container:", "bin", "names no image"),
        ("container:activemq", "", "needs docker or podman"),
        ("container:no-such-image", "bin", "pull access denied"),
    ],
)
def test_a_container_that_cannot_start(
    broker: str, path: str, text: str, containers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(containers) if path else str(containers / "empty"))
    with pytest.raises(JMSException, match=text), broker_in_container(broker):
        raise AssertionError
