"""What clients name cannot forge lines in the log of an application that embeds the broker."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from pyjms.aio import ConnectionFactory
from pyjms.errors import JMSException
from pyjms.jms.destination import Queue
from pyjms.runtime.logging import get_logger
from pyjms_broker.service import BrokerService
from tests.kit.stores.ranges import RangesClient

FORGED = "x\nERROR forged\r\x1b[2J\x9b31m\u2028"
ESCAPED = r"x\nERROR forged\r\x1b[2J\x9b31m\u2028"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """The log of an application, with a formatter that knows nothing of the broker."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield text
    root.removeHandler(handler)
    root.setLevel(level)


async def test_names_of_clients_forge_no_lines(log: io.StringIO) -> None:
    service = BrokerService("embedded", persistent=False)
    service.add_connector("tcp://127.0.0.1:0")
    await service.start()
    factory = ConnectionFactory(service.connectors[0].connect_uri)
    async with await factory.create_connection() as connection:
        reader = RangesClient(connection)
        await reader.open()
        await reader.ask("lease", queue="IN", owner=FORGED)
    await service.stop()
    written = log.getvalue()
    assert ESCAPED in written
    lines = written.split("\n")
    assert not [line for line in lines if line.startswith("ERROR forged")]
    assert not [line for line in lines if {"\x1b", "\x9b", "\r", "\u2028"} & set(line)]


def test_texts_of_exceptions_forge_no_lines(log: io.StringIO) -> None:
    logger = get_logger("pyjms_broker.test")
    try:
        raise JMSException(FORGED) from ValueError(FORGED)
    except JMSException:
        logger.exception("%s failed", FORGED)
    first, *others = log.getvalue().rstrip("\n").split("\n")
    assert first == f"ERROR {ESCAPED} failed"
    assert all(line.startswith("    ") for line in others)
    assert "\x1b" not in log.getvalue()


def test_values_keep_their_types(caplog: pytest.LogCaptureFixture) -> None:
    logger = get_logger("pyjms_broker.test")
    name = Queue("plain")
    logger.warning("%s %d %.1f %s", name, 3, 1.25, None)
    logger.warning("%(name)s", {"name": "a\nb"})
    assert caplog.records[0].args == (name, 3, 1.25, None)
    assert [record.getMessage() for record in caplog.records] == [
        "queue://plain 3 1.2 None",
        "a\\nb",
    ]
