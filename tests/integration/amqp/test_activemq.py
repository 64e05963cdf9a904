"""The same conversations with a real ActiveMQ 5.17.6 and with this broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.amqp.cases import DIFFERENT, SAME, Answer, Case, Opener
from tests.kit.amqp.client import AmqpBroker, StartAmqp
from tests.kit.processes.children import started
from tests.kit.servers.java_programs import JavaProgram

PROGRAM = Path(__file__).resolve().parent / "activemq_program"
TRANSFORMERS = ("jms", "native", "raw")


@pytest.fixture(scope="module")
def activemq(
    maven_program: JavaProgram, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, int]]:
    """The AMQP ports of an ActiveMQ, by transformer."""
    log = tmp_path_factory.mktemp("activemq") / "log"
    with started([*maven_program(PROGRAM), "AmqpBroker"], log) as child:
        assert child.stdout is not None
        ports = [int(port) for port in child.stdout.readline().split()[1:]]
        yield dict(zip((*TRANSFORMERS, "openwire"), ports, strict=True))


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
async def test_both_answer_alike(amqp: AmqpBroker, activemq: dict[str, int], name: str) -> None:
    case = SAME[name]
    assert await answer(amqp.port, name, case) == await answer(activemq["jms"], name, case)


@pytest.mark.maven
@pytest.mark.timeout(600)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("transformer", ["native", "raw"])
@pytest.mark.parametrize("name", ["bodies", "headers", "ids", "properties"])
async def test_transformers_convert_alike(
    amqp_broker: StartAmqp, activemq: dict[str, int], name: str, transformer: str
) -> None:
    case = SAME[name]
    async with amqp_broker(f"?transport.transformer={transformer}") as amqp:
        ours = await answer(amqp.port, name, case)
    assert ours == await answer(activemq[transformer], f"{transformer}{name}", case)


@pytest.mark.maven
@pytest.mark.timeout(600)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("name", DIFFERENT)
async def test_deviations_are_still_ones(
    amqp: AmqpBroker, activemq: dict[str, int], name: str
) -> None:
    case, _ = DIFFERENT[name]
    assert await answer(amqp.port, name, case) != await answer(activemq["jms"], name, case)
