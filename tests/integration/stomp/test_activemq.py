"""The scripts have the answers of a real ActiveMQ 5.17.2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.processes.children import accepted_url, started
from tests.kit.servers.java_programs import JavaProgram
from tests.kit.stomp.scripts import QUIET, Player, read_scripts

FOLDER = Path(__file__).resolve().parents[2] / "data" / "stomp"
PROGRAM = Path(__file__).resolve().parent / "activemq_program"


@pytest.fixture(scope="module")
def activemq(
    maven_program: JavaProgram, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[int, str]]:
    """The STOMP port of an ActiveMQ, and its URL for JMS clients."""
    log = tmp_path_factory.mktemp("activemq") / "log"
    with started([*maven_program(PROGRAM), "StompBroker"], log) as child:
        assert child.stdout is not None
        port = int(child.stdout.readline().split()[-1])
        yield port, accepted_url(child, log).replace("localhost", "127.0.0.1")


@pytest.mark.maven
@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("theme", sorted(path.stem for path in FOLDER.glob("*.txt")))
async def test_recorded_answers(activemq: tuple[int, str], theme: str) -> None:
    player = Player(*activemq, quiet=QUIET)
    for number, script in enumerate(read_scripts(FOLDER / f"{theme}.txt")):
        found = await player.play(script, f"{theme}-{number}-")
        # a slow machine may get an answer in the next step
        expected = sorted(line for step in script.steps for line in step.answers)
        assert sorted(line for lines in found for line in lines) == expected, script.name
