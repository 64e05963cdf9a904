"""What importing and making an application and a template does not import.

Importing is most of what a short program waits for. A module that appears here is imported again at
the head of another module: import it there in the function that needs it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import json, sys
before = set(sys.modules)  # a measurement of coverage has its own

def added():
    return sorted(set(sys.modules) - before)

from pyjms import ConnectionFactory, JmsApplication, JmsTemplate, jms_listener
loaded = {"importing": added()}
JmsApplication()
JmsTemplate(ConnectionFactory("tcp://127.0.0.1:61616"))
loaded["making"] = added()
print(json.dumps(loaded))
"""
NEVER = """
    anyio._backends._trio dependency_injector fastapi lark opentelemetry prometheus_client
    sqlalchemy starlette tenacity trio typer werkzeug

    pyjms.app.container pyjms.app.objects pyjms.app.wiring pyjms.asyncapi pyjms.configuration.encryption pyjms.outbox
    pyjms.spark pyjms.testing pyjms.wire.kahadb pyjms.wire.stomp pyjms_broker
""".split()  # noqa: SIM905 - to be read
NOT_IN_A_RUN = """
    anyio._backends._trio dependency_injector lark prometheus_client sqlalchemy tenacity trio
    uvicorn

    pyjms.app.container pyjms.app.resources pyjms.asyncapi pyjms.cli.message_commands pyjms.cli.pipeline pyjms.cli.replay
    pyjms.cli.supervisor pyjms.configuration.encryption pyjms.configuration.yaml_writer
    pyjms.connection.pool pyjms.observability.http_endpoints pyjms.observability.tracing pyjms.outbox
    pyjms.settings.spring pyjms.spark pyjms.sync pyjms.testing pyjms.transport.failover
    pyjms.wire.kahadb pyjms.wire.stomp pyjms_broker
""".split()  # noqa: SIM905 - to be read
"""What an idle listener has no use for: it costs memory in each worker."""
RUN = """
import json, sys
before = set(sys.modules)

from pyjms import jms_listener, on_startup

@jms_listener("orders", id="orders")
async def on_order(text: str) -> None: ...

@on_startup
def tell() -> None:
    print(json.dumps(sorted(set(sys.modules) - before)), flush=True)
    sys.exit()
"""
WITHOUT_SETTINGS = ["pydantic_settings", "pyjms.configuration", "pyjms.settings", "yaml"]
WITHOUT = {"importing": [*NEVER, *WITHOUT_SETTINGS], "making": NEVER}


def test_an_application_and_a_template_are_made_without_what_they_do_not_use(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    loaded = {stage: set(modules) for stage, modules in json.loads(done.stdout).items()}
    superfluous = {
        stage: sorted(loaded[stage].intersection(unused)) for stage, unused in WITHOUT.items()
    }
    assert superfluous == {stage: [] for stage in WITHOUT}


def test_the_process_of_a_listener_imports_only_what_it_uses(tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text(RUN)
    (tmp_path / "application.yaml").write_text("activemq: {broker_url: 'tcp://127.0.0.1:1'}\n")
    program = (
        "import sys; from pyjms.cli.main import main; sys.argv[1:] = ['run', 'orders']; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    loaded = set(json.loads(done.stdout))
    assert sorted(loaded.intersection(NOT_IN_A_RUN)) == []
