"""The snippets of docs/observability.md and docs/asyncapi.md, run as they stand."""

from __future__ import annotations

import importlib
import logging
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import anyio
import httpx
import pytest
import yaml

from pyjms import load_settings
from tests.kit.processes.forked_python import run_python

DOCS = Path(__file__).resolve().parents[3] / "docs"
TEXT = "\n".join((DOCS / name).read_text("utf-8") for name in ("observability.md", "asyncapi.md"))
SNIPPETS = dict(re.findall(r"^```\w+\n# (\S+\.\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    loaded: list[str] = []

    def load(name: str) -> ModuleType:
        (tmp_path / f"{name}.py").write_text(SNIPPETS[f"{name}.py"])
        loaded.append(name)
        return importlib.import_module(name)

    yield load
    for name in loaded:
        sys.modules.pop(name, None)


def test_the_settings_are_valid(tmp_path: Path) -> None:
    path = tmp_path / "application.yaml"
    path.write_text(SNIPPETS["application.yaml"])
    settings = load_settings(path, environ={})
    assert settings.observability.model_dump() == dict.fromkeys(
        yaml.safe_load(path.read_text())["observability"], True
    )
    assert settings.health.port == 8081


def test_a_traced_application(tmp_path: Path) -> None:
    """In a separate process, because a tracer provider can be set only once."""
    (tmp_path / "traced.py").write_text(SNIPPETS["traced.py"])
    (tmp_path / "run.py").write_text(
        "import anyio, traced\n"
        "async def main():\n"
        "    async with traced.app as app:\n"
        "        print(await app.template.convert_send_and_receive('orders.new', 'a', timeout=20))\n"
        "anyio.run(main)\n"
        "print(sorted(each.name for each in traced.exporter.get_finished_spans()))\n"
        "print(len({each.context.trace_id for each in traced.exporter.get_finished_spans()}))\n"
    )
    root = Path(__file__).resolve().parents[3]
    done = run_python("run.py", cwd=tmp_path, env={"PYTHONPATH": f"{tmp_path}:{root}"})
    assert done.returncode == 0, done.stderr
    names = ["commit orders.new", "process orders.new", "send (temporary)", "send orders.new"]
    assert done.stdout.splitlines() == ["A", str(names), "1"]


def test_a_traced_template(load: Callable[[str], ModuleType]) -> None:
    module = load("traced_template")
    assert module.template.receive_and_convert("orders.new") == "one"


def test_providers_of_one_s_own(load: Callable[[str], ModuleType]) -> None:
    assert load("own_providers").Container.providers["tracer_provider"]


async def test_checks_in_fastapi(load: Callable[[str], ModuleType]) -> None:
    served = load("served")
    async with (
        served.lifespan(served.api),
        httpx.AsyncClient(transport=httpx.ASGITransport(served.api), base_url="http://x") as client,
    ):
        answer = await client.get("/jms/health/ready")
        assert (answer.status_code, answer.json()["status"]) == (200, "ready")


async def test_logs_of_one_s_own(
    load: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    async with load("own_logs").app as app:
        await app.template.convert_and_send("orders.new", "one", correlation_id="c1")
        with anyio.fail_after(20):
            while "priced" not in (written := capsys.readouterr().out):  # noqa: ASYNC110
                await anyio.sleep(0.01)
    logging.getLogger("shop").handlers.clear()
    assert written == "orders c1: priced one\n"


def test_an_application_is_described(load: Callable[[str], ModuleType]) -> None:
    described = load("described")
    assert described.document["operations"]["orders"]["title"] == "Confirm an order."
    assert '"amount"' in described.text
    assert "<code>amount</code>" in described.page
