"""What a user of scripts and tests waits for. Run: python -m benchmarks.startup.

Each figure is the median of fresh processes, in milliseconds: imports as `-X importtime`
counts them, the rest by wall clock, with the start of the interpreter where a process is
what the user waits for. Byte code is cached, as after an installation's first use.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

ROUNDS = 5

HELP = "from pyjms.cli.main import main; main()"

EMBEDDED = """
import time, anyio
from pyjms_broker import BrokerService
async def main():
    start = time.perf_counter()
    async with BrokerService(persistent=False):
        ready = time.perf_counter()
    print(1e3 * (ready - start), 1e3 * (time.perf_counter() - ready))
{times}
"""

FIRST_MESSAGE = """
import anyio
from pyjms.aio import ConnectionFactory
async def main():
    handled = anyio.Event()
    url = "vm://localhost?broker.persistent=false"
    connection = await ConnectionFactory(url).create_connection()
    await connection.start()
    session = await connection.create_session()
    queue = session.create_queue("first")
    consumer = await session.create_consumer(queue)
    await consumer.set_message_listener(lambda message: handled.set())
    sending = await connection.create_session()
    producer = await sending.create_producer(queue)
    await producer.send(sending.create_text_message("hello"))
    await handled.wait()
    await connection.close()
anyio.run(main)
"""

FIRST_BLOCKING = """
from pyjms import JmsTemplate, ConnectionFactory
with ConnectionFactory("vm://localhost?broker.persistent=false").create_connection() as keep:
    keep.start()
    session = keep.create_session()
    queue = session.create_queue("first")
    session.create_producer(queue).send(session.create_text_message("hello"))
    assert session.create_consumer(queue).receive(10).text == "hello"
"""


def import_ms(statement: str) -> float:
    """Return the milliseconds that the imports of `statement` take, without start-up."""
    wanted = _importtime(statement)
    return wanted - _importtime("pass")


def _importtime(statement: str) -> float:
    run = _python("-X", "importtime", "-c", statement)
    return (
        sum(
            int(parts[0].rpartition(":")[2])
            for line in run.stderr.splitlines()
            if line.startswith("import time:")
            and (parts := line.split("|"))[0].strip()[-1].isdigit()
        )
        / 1000
    )


def process_ms(*arguments: str) -> float:
    """Return the wall time of a fresh interpreter with `arguments`."""
    start = time.perf_counter()
    _python(*arguments)
    return (time.perf_counter() - start) * 1000


def embedded_ms(which: int, *, again: bool) -> float:
    """Return what an embedded broker costs: its start (0) or its stop (1), the first or a later."""
    runs = 3 if again else 1
    script = EMBEDDED.format(times=f"for _ in range({runs}): anyio.run(main)")
    last = _python("-c", script).stdout.split("\n")[runs - 1]
    return float(last.split()[which])


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ.copy()
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run(
        [sys.executable, *arguments], check=True, capture_output=True, text=True, env=environment
    )


FIGURES: dict[str, Callable[[], float]] = {
    "python -c pass": lambda: process_ms("-c", "pass"),
    "import dependency_injector.containers, .providers": lambda: import_ms(
        "import dependency_injector.containers, dependency_injector.providers"
    ),
    "import pydantic_settings": lambda: import_ms("import pydantic_settings"),
    "import both": lambda: import_ms(
        "import dependency_injector.containers, dependency_injector.providers, pydantic_settings"
    ),
    "import pyjms": lambda: import_ms("import pyjms"),
    "from pyjms import ConnectionFactory, JmsTemplate": lambda: import_ms(
        "from pyjms import ConnectionFactory, JmsTemplate"
    ),
    "from pyjms import JmsApplication": lambda: import_ms("from pyjms import JmsApplication"),
    "pyjms --help": lambda: process_ms("-c", HELP, "--help"),
    "embedded broker ready, first of a process": lambda: embedded_ms(0, again=False),
    "embedded broker ready, a later one": lambda: embedded_ms(0, again=True),
    "embedded broker stopped": lambda: embedded_ms(1, again=True),
    "process start to first message handled": lambda: process_ms("-c", FIRST_MESSAGE),
    "process start to first message received, blocking": lambda: process_ms("-c", FIRST_BLOCKING),
}


def measure(*, quick: bool = False) -> dict[str, float]:
    """Return the median milliseconds of each figure; the rounds alternate between the trees."""
    rounds = 1 if quick else ROUNDS
    runs: dict[str, list[float]] = {name: [] for name in FIGURES}
    for figure in FIGURES.values():  # fills the caches
        figure()
    for _ in range(rounds):
        for name, figure in FIGURES.items():
            runs[name].append(figure())
    return {name: round(statistics.median(values), 2) for name, values in runs.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="each figure once")
    arguments = parser.parse_args()
    figures = measure(quick=arguments.quick)
    if arguments.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{value:9.1f} ms  {name}")


if __name__ == "__main__":
    main()
