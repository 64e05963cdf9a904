"""What importing the framework's main names does not import.

Importing is most of what a short program waits for. A module that appears here is imported again at
the head of another module: import it there in the function that needs it.
"""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
before = set(sys.modules)  # a measurement of coverage has its own
from pyjms import JmsApplication, JmsTemplate, jms_listener

print(*sorted(set(sys.modules) - before))
"""
UNUSED = """
    anyio._backends._trio dependency_injector fastapi importlib.metadata lark opentelemetry
    prometheus_client pydantic_settings sqlalchemy starlette tenacity trio typer werkzeug yaml

    pyjms.app.container pyjms.app.wiring pyjms.asyncapi pyjms.configuration pyjms.outbox
    pyjms.settings pyjms.spark pyjms.testing pyjms.wire.kahadb pyjms.wire.stomp pyjms_broker
""".split()  # noqa: SIM905 - to be read


def test_the_application_and_the_template_are_imported_without_what_they_do_not_use() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )
    assert sorted(set(done.stdout.split()).intersection(UNUSED)) == []
