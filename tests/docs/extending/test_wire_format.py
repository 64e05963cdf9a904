"""The recipe of a wire format in docs/extending-client.md works as an installed third-party package."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.recipes import install, recipe_files, run_recipe

REFUSED = """
from pyjms.errors import ConfigurationException
from pyjms.transport import create_transport
from pyjms_broker.service import BrokerService

for url in ("tcp://h:1?wireFormat=none", "tcp://h:1?wireFormat=deflate&wireFormat.level=x"):
    for use in (create_transport, lambda url: BrokerService("b").add_connector(url)):
        try:
            use(url)
        except ConfigurationException as error:
            print(error)
"""
PLAIN = """
import anyio
from pyjms.aio import ConnectionFactory
from pyjms.errors import JMSException
from pyjms_broker.service import BrokerService

async def main():
    service = BrokerService("compressed", persistent=False)
    service.add_connector("tcp://127.0.0.1:0?wireFormat=deflate")
    async with service as broker:
        try:
            await ConnectionFactory(broker.connect_uri).create_connection()
        except JMSException as error:
            print("refused:", bool(str(error)))

anyio.run(main)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = recipe_files("A wire format")
    assert set(files) == {"pyproject.toml", "pyjms_deflate.py", "send_compressed.py"}
    install(files, tmp_path)
    return tmp_path


@pytest.mark.fact("activemq-edges N21")
def test_both_ends_use_an_installed_wire_format(folder: Path) -> None:
    assert run_recipe(folder, "send_compressed.py", fresh=True) == "a long text\n"


@pytest.mark.fact("activemq-edges N21")
def test_mistakes_are_named_on_both_ends(folder: Path) -> None:
    lines = run_recipe(folder, "-c", REFUSED, fresh=True).splitlines()
    unknown, options = lines[:2], lines[2:]
    assert len(lines) == 4
    for line in unknown:
        assert "Could not create wire format factory for: none" in line
        assert "default, deflate" in line
    for line in options:
        assert "from 1 to 9" in line


def test_a_client_with_another_wire_format_is_not_let_in(folder: Path) -> None:
    assert run_recipe(folder, "-c", PLAIN, fresh=True) == "refused: True\n"
