"""The broker's recipes in docs/extending-broker.md, run as installed third-party packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.recipes import ROOT, install, recipe_files, run_recipe

SEND = """
import anyio
from pyjms_broker import BrokerService
from pyjms_broker.settings import load_broker_settings
from pyjms.aio import ConnectionFactory, JmsTemplate
from pyjms.errors import ConfigurationException, JMSException

async def send(settings, *messages):
    async with BrokerService.from_settings(settings) as service:
        template = JmsTemplate(ConnectionFactory(service.vm_uri))
        for queue, text in messages:
            await template.convert_and_send(queue, text)

"""
LOAD = """
from pyjms_broker.settings import load_broker_settings
from pyjms.errors import ConfigurationException
try:
    load_broker_settings("broker.yaml")
except ConfigurationException as error:
    print(str(error))
else:
    raise SystemExit("it was accepted")
"""


def python(folder: Path, code: str, *, fresh: bool = False) -> str:
    return run_recipe(folder, "-c", code, fresh=fresh)


def written(folder: Path, text: str) -> None:
    (folder / "broker.yaml").write_text(text)


def test_the_plugin_of_the_recipe(tmp_path: Path) -> None:
    install(recipe_files("A broker plug-in"), tmp_path)
    python(
        tmp_path,
        SEND
        + "settings = load_broker_settings('broker.yaml')\n"
        + "anyio.run(send, settings, ('q', 'x' * 900))\n"
        + "try:\n    anyio.run(send, settings, ('q', 'x' * 1001))\n"
        + "except JMSException as error:\n    assert 'more than 1000' in str(error), error\n"
        + "else:\n    raise SystemExit('it was accepted')\n"
        + "from acme_limits import SizeLimitPlugin\n"
        + "service = BrokerService(plugins=[SizeLimitPlugin(maximum=1)])\n"
        + "assert service.plugins[0].maximum == 1\n",
        fresh=True,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plugins:\n  - type: size_limit\n    maximum_: 1", "broker.yaml:3: plugins[0].maximum_: there is no such setting; did you mean plugins[0].maximum?"),
        ("plugins:\n  - type: size_limit\n    maximum: 0", "broker.yaml:3: plugins[0].maximum: Input should be greater than or equal to 1"),
        ("plugins:\n  - type: size_limits\n    maximum: 1", "broker.yaml:2: plugins[0].type: Broker plug-in 'size_limits' is not installed"),
        ("plugins:\n  - type: other", "installed: size_limit"),
        ("plugins:\n  - size_limit", "broker.yaml:2: plugins[0].maximum: the key is missing"),
        ("plugins:\n  size_limit:\n    maximum: 0", "broker.yaml:3: plugins[0].maximum: Input should be greater than or equal to 1"),
        ("plugins:\n  size_limit:", "broker.yaml:2: plugins[0].maximum: the key is missing"),
        ("connectors:\n  - uri: xmpp://localhost:1", "broker.yaml:2: connectors[0].uri: there is no connector for xmpp://"),
    ],
)  # fmt: skip
def test_errors_in_the_settings_of_a_plugin(tmp_path: Path, text: str, expected: str) -> None:
    install(recipe_files("A broker plug-in"), tmp_path)
    written(tmp_path, text)
    assert expected in python(tmp_path, LOAD)


@pytest.mark.parametrize(
    "plugins",
    [
        "[{type: size_limit, maximum: 1}, second, {type: size_limit, maximum: 3}]",
        "{size_limit: {maximum: 1}, second: null}",
        "{size_limit: {maximum: 9}, second: {}}",
    ],
)
def test_plugins_are_a_list_or_a_mapping(tmp_path: Path, plugins: str) -> None:
    files = recipe_files("A broker plug-in")
    project = files["pyproject.toml"].replace(
        'size_limit = "acme_limits:SizeLimitPlugin"',
        'size_limit = "acme_limits:SizeLimitPlugin"\nsecond = "acme_limits:SecondPlugin"',
    )
    second = "\n\nclass SecondPlugin(SizeLimitPlugin):\n    maximum: int = 2\n"
    module = files["acme_limits.py"] + second
    install(files | {"pyproject.toml": project, "acme_limits.py": module}, tmp_path)
    written(tmp_path, f"plugins: {plugins}\n")
    code = (
        "environ = {'PYJMS_BROKER__PLUGINS__SIZE_LIMIT__MAXIMUM': '1'} if %r else {}\n"
        "settings = load_broker_settings('broker.yaml', environ=environ)\n"
        "assert [each.maximum for each in settings.plugins] in ([1, 2], [1, 2, 3])\n"
    )
    python(tmp_path, SEND + code % ("9" in plugins))


def test_several_plugins_are_installed_in_their_order(tmp_path: Path) -> None:
    files = recipe_files("A broker plug-in")
    project = files["pyproject.toml"].replace(
        'size_limit = "acme_limits:SizeLimitPlugin"',
        'size_limit = "acme_limits:SizeLimitPlugin"\nsecond = "acme_limits:SecondPlugin"',
    )
    second = "\n\nclass SecondPlugin(SizeLimitPlugin):\n    pass\n"
    module = files["acme_limits.py"] + second
    install(files | {"pyproject.toml": project, "acme_limits.py": module}, tmp_path)
    written(
        tmp_path,
        "persistent: false\nplugins:\n  - {type: size_limit, maximum: 1}\n"
        "  - {type: second, maximum: 2}\n  - {type: size_limit, maximum: 3}\n",
    )
    code = (
        "settings = load_broker_settings('broker.yaml')\n"
        "async def chain():\n"
        "    async with BrokerService.from_settings(settings) as service:\n"
        "        outer = service.broker.next\n"
        "        assert [outer.maximum, outer.next.maximum, outer.next.next.maximum] == [3, 2, 1]\n"
        "anyio.run(chain)\n"
    )
    python(tmp_path, SEND + code)


@pytest.mark.parametrize(
    ("recipe", "module", "group", "text"),
    [
        ("A broker plug-in", "acme_limits.py", "broker.plugins", "plugins:\n  - type: size_limit"),
        ("A store", "acme_store.py", "broker.stores", "persistence:\n  type: quota"),
    ],
)
def test_a_broken_distribution_is_named_and_breaks_nothing_else(
    tmp_path: Path, recipe: str, module: str, group: str, text: str
) -> None:
    files = recipe_files(recipe)
    install(files | {module: "import nothing_of_that_name\n"}, tmp_path)
    written(tmp_path, text)
    output = python(tmp_path, LOAD)
    assert "broker.yaml:2: " in output
    assert "acme-" in output
    assert " 1.0 cannot be loaded: ModuleNotFoundError: No module named 'nothing" in output
    assert f"(entry point group {group})" in output
    written(tmp_path, "persistent: false")
    python(tmp_path, "from pyjms_broker.settings import *; load_broker_settings('broker.yaml')")
    (tmp_path / module).write_text("".join(f"{name} = 1\n" for name in ("SizeLimitPlugin", "QuotaStoreSettings")))  # fmt: skip
    written(tmp_path, text)
    assert "is not a pydantic model with a method" in python(tmp_path, LOAD)


def test_the_store_of_the_recipe(tmp_path: Path) -> None:
    install(recipe_files("A store"), tmp_path)
    code = (
        "settings = load_broker_settings('broker.yaml')\n"
        "assert settings.persistence.maximum_queues == 2\n"
        "anyio.run(send, settings, ('a', '1'), ('b', '2'))\n"
        "try:\n    anyio.run(send, settings, ('a', '1'), ('b', '2'), ('c', '3'))\n"
        "except JMSException as error:\n    assert 'there are 2 queues' in str(error), error\n"
        "else:\n    raise SystemExit('it was accepted')\n"
    )
    python(tmp_path, SEND + code, fresh=True)
    written(tmp_path, "persistence:\n  type: quota\n  maximum_queue: 2")
    assert "did you mean persistence.maximum_queues?" in python(tmp_path, LOAD)
    written(tmp_path, "persistence:\n  type: quotas")
    known = "installed: kahadb, multi_kahadb, memory, jdbc, journaled_jdbc, quota"
    assert known in python(tmp_path, LOAD)


def test_the_recovery_policy_of_the_recipe(tmp_path: Path) -> None:
    install(recipe_files("A subscription recovery policy"), tmp_path)
    code = (
        "async def subscribe():\n"
        "    settings = load_broker_settings('broker.yaml')\n"
        "    async with BrokerService.from_settings(settings) as service:\n"
        "        factory = ConnectionFactory(service.vm_uri)\n"
        "        async with await factory.create_connection() as connection:\n"
        "            session = await connection.create_session()\n"
        "            producer = await session.create_producer(None)\n"
        "            for symbol, text in (('A', '1'), ('B', '2'), ('A', '3')):\n"
        "                message = session.create_text_message(text)\n"
        "                message.properties['symbol'] = symbol\n"
        "                await producer.send(message, destination=Topic('prices.x'))\n"
        "            await connection.start()\n"
        "            for name, expected in (('prices.x', '23'), ('indices.x', ['opened at 100'])):\n"
        "                topic = Topic(f'{name}?consumer.retroactive=true')\n"
        "                consumer = await session.create_consumer(topic)\n"
        "                for text in expected:\n"
        "                    assert (await consumer.receive(5)).text == text\n"
        "anyio.run(subscribe)\n"
    )
    python(tmp_path, SEND + "from pyjms.jms.destination import Topic\n" + code, fresh=True)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{type: last_value}", "property_name"),
        ("{type: last_valu, property_name: a}", "last_valu"),
        ("{type: query_based, query: opening_price}", "'opening_price' is not installed"),
        ("{type: query_based, query: no_query}", "is not an object with methods"),
        ("{type: no_policy}", "is not a pydantic model"),
    ],
)
def test_errors_in_recovery_policies(tmp_path: Path, line: str, reason: str) -> None:
    files = recipe_files("A subscription recovery policy")
    project = files["pyproject.toml"]
    broken = 'no_policy = "acme_recovery:OpeningPrices"\nlast_value ='
    files["pyproject.toml"] = (
        project.replace("last_value =", broken) + 'no_query = "acme_recovery:encode_text"\n'
    )
    install(files, tmp_path)
    written(tmp_path, f"policies:\n  - subscription_recovery_policy: {line}\n")
    output = python(tmp_path, LOAD)
    assert reason in output
    assert "broker.yaml:2" in output


def test_the_connector_of_the_recipe_passes_the_contract(tmp_path: Path) -> None:
    install(recipe_files("A connector"), tmp_path)
    output = run_recipe(
        tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_acme_lines.py"
    )
    assert " passed" in output
    assert "skipped" not in output


def test_the_connector_of_the_recipe_in_a_configuration(tmp_path: Path) -> None:
    install(recipe_files("A connector"), tmp_path)
    code = (
        "from pyjms.transport.uri import TransportURI\n"
        "async def lines():\n"
        "    settings = load_broker_settings('broker.yaml')\n"
        "    async with BrokerService.from_settings(settings) as service:\n"
        "        uri = TransportURI.parse(service.connect_uri)\n"
        "        async with await anyio.connect_tcp(uri.host, uri.port) as client:\n"
        "            await client.send(b'orders.new hello\\n')\n"
        "            assert await client.receive() == b'ok\\n'\n"
        "            await client.send(b'\\n')\n"
        "            assert (await client.receive()).startswith(b'error: ')\n"
        "        template = JmsTemplate(ConnectionFactory(service.vm_uri))\n"
        "        assert await template.receive_and_convert('orders.new') == 'hello'\n"
        "anyio.run(lines)\n"
    )
    python(tmp_path, SEND + code, fresh=True)


def test_the_broker_command_of_the_recipe(tmp_path: Path) -> None:
    install(recipe_files("A broker CLI command"), tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", "from pyjms.cli.main import main; main()", "broker", "defaults", "--only", "restart"],
        check=False, cwd=tmp_path, env={"PYTHONPATH": f"{tmp_path}:{ROOT}"}, capture_output=True, text=True, timeout=50,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "restart_allowed: True\n"), done.stderr


def test_the_web_part_of_the_recipe(tmp_path: Path) -> None:
    install(recipe_files("A part of the web site"), tmp_path)
    output = python(
        tmp_path,
        "import anyio, httpx\n"
        "from pyjms_broker import BrokerService\n"
        "from pyjms_broker.settings import load_broker_settings\n"
        "async def main():\n"
        "    settings = load_broker_settings('broker.yaml')\n"
        "    async with BrokerService.from_settings(settings) as service:\n"
        "        async with httpx.AsyncClient(base_url=service.website.url, verify=False) as client:\n"
        "            print((await client.get('/longest')).status_code)\n"
        "            answer = await client.get('/longest', auth=('alice', 'secret'))\n"
        "            print(answer.json())\n"
        "            print((await client.get('/health/ready')).json())\n"
        "anyio.run(main)\n",
    )
    assert output.splitlines() == [
        "401",
        "{'user': 'alice', 'longest': [[0, 'orders'], [0, 'invoices']]}",
        "{'status': 'ready'}",
    ]
