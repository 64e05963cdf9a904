"""The recipes of docs/extending.md for applications and the command line, run as they stand."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest

from pyjms.aio import ConnectionFactory, JmsTemplate
from pyjms_broker import BrokerService
from tests.kit.processes.forked_python import run_python
from tests.kit.recipes import install, recipe_files


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """`load("A handler interceptor")`: that recipe's module, imported from an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    loaded = []

    def load(recipe: str) -> ModuleType:
        ((file, text),) = recipe_files(recipe).items()
        (tmp_path / file).write_text(text)
        loaded.append(file.removesuffix(".py"))
        return importlib.import_module(loaded[-1])

    yield load
    for name in loaded:
        sys.modules.pop(name, None)


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not condition():  # noqa: ASYNC110 - the recipe has nothing to wait for
            await anyio.sleep(0.01)


async def test_the_interceptors_of_the_recipe(load: Callable[..., Any]) -> None:
    shop = load("A handler interceptor")

    def numbered(message: Any) -> Any:
        message.properties["order"] = 1
        return message

    async with shop.app as app:
        for amount in (10, 20):
            await app.template.convert_and_send(
                "orders.new", {"amount": amount}, post_processor=numbered
            )
        await until(lambda: len(shop.durations.get("orders", ())) == 2)
        assert shop.handled == {"1"}
        await app.template.convert_and_send("orders.new", {"amount": -1})
        await until(lambda: len(shop.durations["orders"]) >= 3)


async def test_the_send_interceptor_of_the_recipe(load: Callable[..., Any]) -> None:
    tenants = load("A send interceptor")
    async with tenants.app as app:
        token = tenants.tenant.set("acme")
        await app.template.convert_and_send("orders.new", "one")
        tenants.tenant.reset(token)
        await until(lambda: tenants.orders)
    assert tenants.orders == [("acme", "one")]


async def test_the_error_handler_of_the_recipe(load: Callable[..., Any]) -> None:
    alarms = load("An error handler")
    async with alarms.app as app:
        await app.template.convert_and_send("invoices", {"id": 7})
        await until(lambda: len(alarms.failures) >= 1)
    expected = "invoices, attempt 1: ValueError('invoice 7 has no customer')"
    assert alarms.failures[0] == expected


def pyjms(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    main = "from pyjms.cli.main import main; main()"
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return run_python("-c", main, *arguments, cwd=folder, env=environment)


async def test_the_command_of_the_recipe_as_an_installed_package(tmp_path: Path) -> None:
    install(recipe_files("A CLI command"), tmp_path)
    async with BrokerService("depth", persistent=False) as broker:
        connector = broker.add_connector("tcp://127.0.0.1:0")
        await connector.start()
        template = JmsTemplate(ConnectionFactory(broker.vm_uri))
        for number in range(3):
            await template.convert_and_send("orders.new", str(number))
        done = await anyio.to_thread.run_sync(
            pyjms, tmp_path, "depth", "orders.new", "--url", connector.connect_uri
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "orders.new: 3\n", "")


def test_a_broken_command_names_its_distribution_and_breaks_no_other(tmp_path: Path) -> None:
    files = recipe_files("A CLI command")
    install(files | {"acme_depth.py": "import nothing_of_that_name\n"}, tmp_path)
    assert pyjms(tmp_path, "config", "show").returncode == 0
    assert "cannot be loaded" in pyjms(tmp_path, "--help").stdout
    done = pyjms(tmp_path, "depth", "orders.new")
    assert done.returncode == 1
    assert done.stderr.startswith(
        "pyjms: Command 'depth' of acme-depth 1.0 cannot be loaded: ModuleNotFoundError: "
        "No module named 'nothing_of_that_name'"
    )


def test_a_command_below_pyjms_broker(tmp_path: Path) -> None:
    files = recipe_files("A CLI command")
    project = files["pyproject.toml"].replace('"pyjms.cli"', '"pyjms.cli.broker"')
    install(files | {"pyproject.toml": project}, tmp_path)
    done = pyjms(tmp_path, "broker", "depth", "--help")
    assert done.returncode == 0
    assert "Count the messages" in done.stdout
