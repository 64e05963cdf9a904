"""Programs of the blocking API as a user runs them: plain scripts, on each supported Python.

pytest hides defects of plain scripts: it sets context variables, keeps objects alive and never
reaches the end of the interpreter.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.processes.interpreters import interpreter
from tests.kit.processes.python_environments import VERSIONS
from tests.kit.processes.user_programs import run_program

pytestmark = pytest.mark.pythons

SCRIPTS = Path(__file__).parent / "scripts"
PROGRAMS = sorted(path.stem for path in SCRIPTS.glob("*.py"))


def run(version: str, name: str, installed: Path, *arguments: str, **environment: str) -> None:
    """Run a script, which must say that it is done, and nothing else, and end with status 0."""
    script = SCRIPTS / f"{name}.py"
    done = run_program(interpreter(version), installed, script, *arguments, cwd=None, **environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def at_host_name(url: str) -> str:
    """Return a broker's URL with a name that has to be resolved."""
    return url.split("?", maxsplit=1)[0].replace("127.0.0.1", "localhost")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs_as_a_script_with_a_broker_at_a_host_name(
    program: str, version: str, our_broker: str, installed: Path
) -> None:
    run(version, program, installed, at_host_name(our_broker))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs_as_a_script_with_an_embedded_broker(
    program: str, version: str, installed: Path
) -> None:
    run(version, program, installed, "vm://scripts?broker.persistent=false")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("program", ["forks", "nothing_closed", "templates"])
def test_a_program_ends_quietly_on_the_loop_of_asyncio(
    program: str, version: str, our_broker: str, installed: Path
) -> None:
    run(version, program, installed, at_host_name(our_broker), WITHOUT_UVLOOP="1")
