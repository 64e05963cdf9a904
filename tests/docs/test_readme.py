"""The README's Python runs as it stands."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from dependency_injector import providers

from pyjms import ConnectionFactory, JmsApplication, Queue
from pyjms.spark import find_pipelines
from pyjms.testing.app import JmsTestApp
from pyjms.testing.clock import VirtualClock
from tests.kit.clients.messages import text_of

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


YAML = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)


def block(containing: str) -> str:
    (found,) = [b for b in BLOCKS if containing in b]
    return str(found)


@pytest.fixture
def orders() -> Iterator[types.ModuleType]:
    module = types.ModuleType("orders")
    sys.modules["orders"] = module
    exec(compile(block("class Order("), "orders.py", "exec"), vars(module))  # the README's own code
    yield module
    del sys.modules["orders"]


def test_the_listener_of_the_readme_goes_with_its_yaml(
    orders: types.ModuleType, tmp_path: Path
) -> None:
    (text,) = YAML
    (tmp_path / "application.yaml").write_text(text)
    application = JmsApplication(orders, config=tmp_path / "application.yaml")
    application.check()
    (endpoint,) = application.endpoints()
    assert (endpoint.destination, endpoint.concurrency) == ("orders.new", "4-16")
    assert application.settings.activemq.broker_url == "tcp://activemq.example.com:61616"


@pytest.mark.parametrize("name", ["test_order", "test_bad_order"])
async def test_the_tests_of_the_readme_pass(
    jms_app: JmsTestApp, orders: types.ModuleType, name: str
) -> None:
    scope: dict[str, Any] = {"orders": orders}
    exec(compile(block("async def test_order"), "test_orders.py", "exec"), scope)
    await scope[name](jms_app)


def test_the_template_of_the_readme_works() -> None:
    exec(compile(block("template.receive_and_convert"), "sending.py", "exec"), {})


@pytest.fixture
def shop() -> Iterator[types.ModuleType]:
    module = types.ModuleType("shop")
    sys.modules["shop"] = module
    exec(compile(block("class Services("), "shop.py", "exec"), vars(module))
    yield module
    del sys.modules["shop"]


async def test_the_service_of_the_readme_is_injected(
    jms_app: JmsTestApp, shop: types.ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    await jms_app.start(shop, container=shop.Services)
    await jms_app.template.convert_and_send("invoices", {"id": 1})
    await jms_app.drained("invoices", raise_errors=True)
    assert capsys.readouterr().out == "saved {'id': 1}\n"


async def test_the_service_of_the_readme_can_be_overridden(
    jms_app: JmsTestApp, shop: types.ModuleType
) -> None:
    fake = Mock()
    services = shop.Services()
    services.database.override(providers.Object(fake))
    await jms_app.start(shop, container=services)
    await jms_app.template.convert_and_send("invoices", {"id": 1})
    await jms_app.drained("invoices", raise_errors=True)
    fake.save.assert_called_once_with({"id": 1})


def test_dead_letters_are_moved_back_as_in_the_readme() -> None:
    with ConnectionFactory("vm://demo?broker.persistent=false").create_connection() as connection:
        connection.start()
        session = connection.create_session()
        session.create_producer(Queue("ActiveMQ.DLQ")).send(session.create_text_message("dead"))
        exec(compile(block("ActiveMQ.DLQ"), "move_back.py", "exec"), {})
        consumer = session.create_consumer(Queue("orders.new"))
        assert text_of(consumer.receive(timeout=5.0)) == "dead"


async def test_the_virtual_clock_of_the_readme_works(
    jms_app: JmsTestApp, jms_clock: VirtualClock
) -> None:
    scope: dict[str, Any] = {"__name__": "reports"}
    exec(compile(block("jms_clock"), "test_reports.py", "exec"), scope)
    await scope["test_second_attempt"](jms_app, jms_clock)


async def test_the_embedded_broker_of_the_readme_starts(capsys: pytest.CaptureFixture[str]) -> None:
    scope: dict[str, Any] = {}
    exec(compile(block("BrokerService"), "serve.py", "exec"), scope)
    await scope["serve"]()
    assert capsys.readouterr().out == "vm://demo\n"


def test_the_pipeline_of_the_readme_is_one() -> None:
    pytest.importorskip("pyspark")
    module = types.ModuleType("payments")
    exec(compile(block("@jms_pipeline"), "payments.py", "exec"), vars(module))
    (pipeline,) = find_pipelines(module)
    assert (pipeline.name, pipeline.source, pipeline.sink) == (
        "large",
        "payments",
        "payments.large",
    )


def test_every_python_block_is_run_here() -> None:
    assert len(BLOCKS) == 8
