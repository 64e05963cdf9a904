"""Scripts of STOMP frames get the answers of ActiveMQ 5.17.2. (activemq-edges 3)"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.stomp.client import StartStomp
from tests.kit.stomp.scripts import Player, Script, read_scripts

FOLDER = Path(__file__).resolve().parents[2] / "data" / "stomp"
SCRIPTS = [
    (path.stem, script) for path in sorted(FOLDER.glob("*.txt")) for script in read_scripts(path)
]


@pytest.mark.fact(
    "activemq-edges ST1",
    "activemq-edges ST2",
    "activemq-edges ST4",
    "activemq-edges ST5",
    "activemq-edges ST6",
    "activemq-edges ST7",
    "activemq-edges ST9",
    "activemq-edges ST10",
    "activemq-edges ST11",
    "activemq-edges ST12",
    "activemq-edges ST14",
    "activemq-edges ST15",
    "activemq-edges ST16",
    "activemq-edges ST17",
    "activemq-edges ST18",
    "activemq-edges ST19",
)
@pytest.mark.parametrize(
    ("theme", "script"), SCRIPTS, ids=[f"{theme}-{script.name}" for theme, script in SCRIPTS]
)
async def test_script(stomp_broker: StartStomp, theme: str, script: Script) -> None:
    async with stomp_broker() as broker:
        player = Player(broker.port, broker.broker.url)
        found = await player.play(script, f"{theme}-x-")
    lines = [
        [f"> {step.line}", *answers] for step, answers in zip(script.steps, found, strict=False)
    ]
    expected = [[f"> {step.line}", *step.expected] for step in script.steps]
    assert lines == expected
    assert found[-1] == []
