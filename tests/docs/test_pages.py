"""Code and settings of the pages that have complete files: they run as they stand there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyjms import PyjmsSettings, jms_listener, load_settings
from pyjms.testing.app import JmsTestApp
from tests.kit.processes.children import ROOT, environment
from tests.kit.processes.forked_python import run_python

DOCS = ROOT / "docs"
NO_CACHE = ("-p", "no:cacheprovider")
FILE = re.compile(r"^```\w+\n# (\S+\.\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def write_files(page: str, folder: Path) -> list[str]:
    """Write the files of a page; of several versions of one, the last. Return their names."""
    found = FILE.findall((DOCS / page).read_text(encoding="utf-8"))
    for name, text in found:
        (folder / name).write_text(text, encoding="utf-8")
    return [name for name, _ in found]


def run_tests(folder: Path, *files: str) -> str:
    arguments = ("-m", "pytest", "-q", "-o", "anyio_mode=auto", *NO_CACHE, *files)
    done = run_python(*arguments, cwd=folder, env=environment(), timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("page", ["../README.md", "tutorial.md", "testing.md"])
def test_the_tests_of_a_page_pass(page: str, tmp_path: Path) -> None:
    names = write_files(page, tmp_path)
    tests = sorted({name for name in names if name.startswith("test_")})
    assert "passed" in run_tests(tmp_path, *tests)


def test_the_settings_of_amazon_mq_are_valid(tmp_path: Path) -> None:
    assert write_files("deployment.md", tmp_path) == ["application.yaml"]
    settings = load_settings(tmp_path / "application.yaml", environ={"MQ_PASSWORD": "secret"})
    assert settings.activemq.effective_broker_url().startswith("failover:(ssl://b-1234-1.mq")


async def test_the_embedded_broker_of_the_deployment_page_starts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = (DOCS / "deployment.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    scope: dict[str, Any] = {}
    exec(compile(code, "serve.py", "exec"), scope)
    await scope["serve"]()
    assert capsys.readouterr().out == "vm://demo\n"


async def test_the_control_of_running_listeners(jms_app: JmsTestApp) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "running.md").read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, "running.py", "exec"), names)

    def handlers(listener_id: str) -> Callable[..., Any]:
        @jms_listener(listener_id, id=listener_id)
        def handler(text: str) -> None: ...

        return handler

    await jms_app.start(handlers("orders"), handlers("imports"))
    await names["quiet_hours"](jms_app.application)
    assert jms_app.application.registry.get_listener_container_ids() == ("orders",)
    assert jms_app.application.registry["orders"].concurrency == "2-8"


ATTEMPTS = {"redelivered": 3, "lost": 1}


@pytest.mark.parametrize("session", ["transacted", "auto", "client", "dups_ok"])
async def test_the_table_of_sessions_says_what_a_failure_does(
    session: str, jms_app: JmsTestApp
) -> None:
    text = (DOCS / "concepts.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| [`a-z_]*(?:: )?{session}\b.*\|$", text, re.MULTILINE)
    outcome = row.split("|")[3].strip()
    transacted = session == "transacted"
    mode = "auto" if transacted else session
    settings = PyjmsSettings(
        activemq={"redelivery": {"maximum": 2, "initial_delay": "10ms"}},
        jms={"listener": {"session": {"transacted": transacted, "acknowledge_mode": mode}}},
    )

    @jms_listener("refused", id="refused")
    def refuse(text: str) -> None:
        raise ValueError(text)

    await jms_app.start(refuse, settings=settings)
    await jms_app.template.convert_and_send("refused", "a")
    await jms_app.recorder.until_called(refuse, ATTEMPTS[outcome])
    await jms_app.drained("refused")
    assert len(jms_app.recorder.calls(refuse)) == ATTEMPTS[outcome]
    assert len(await jms_app.dead_letters()) == (outcome == "redelivered")


def test_the_deployment_of_kubernetes_is_yaml_whose_command_exists() -> None:
    text = (DOCS / "deployment.md").read_text(encoding="utf-8")
    (manifest,) = re.findall(r"```yaml\n(apiVersion: .*?)```", text, re.DOTALL)
    (container,) = yaml.safe_load(manifest)["spec"]["template"]["spec"]["containers"]
    done = run_python("-m", *container["args"], "--help", env=environment())
    assert done.returncode == 0, done.stderr
    assert "--health-port" in container["args"]
    assert container["ports"][0]["containerPort"] == int(container["args"][-1])
