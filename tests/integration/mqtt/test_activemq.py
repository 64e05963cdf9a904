"""The same conversations with a real ActiveMQ 5.17.2 and with this broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.mqtt.cases import DIFFERENT, SAME, Answer, Case, Opener
from tests.kit.mqtt.client import MqttBroker
from tests.kit.processes.children import started
from tests.kit.servers.java_programs import JavaProgram

PROGRAM = Path(__file__).resolve().parent / "activemq_program"


@pytest.fixture(scope="module")
def activemq(maven_program: JavaProgram, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The MQTT port of an ActiveMQ."""
    log = tmp_path_factory.mktemp("activemq") / "log"
    with started([*maven_program(PROGRAM), "MqttBroker"], log) as child:
        assert child.stdout is not None
        yield int(child.stdout.readline().split()[-1])


async def answer(port: int, name: str, case: Case) -> Answer:
    opener = Opener(port, name.replace("_", ""))
    try:
        return await case(opener)
    finally:
        await opener.close()


@pytest.mark.maven
@pytest.mark.timeout(600)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("name", SAME)
async def test_both_answer_alike(mqtt: MqttBroker, activemq: int, name: str) -> None:
    assert await answer(mqtt.port, name, SAME[name]) == await answer(activemq, name, SAME[name])


@pytest.mark.maven
@pytest.mark.timeout(600)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("name", DIFFERENT)
async def test_deviations_are_still_ones(mqtt: MqttBroker, activemq: int, name: str) -> None:
    case, _ = DIFFERENT[name]
    assert await answer(mqtt.port, name, case) != await answer(activemq, name, case)
