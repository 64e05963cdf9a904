"""JSON logs with the context of the message, and tracebacks where they are wanted."""

from __future__ import annotations

import io
import json
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dependency_injector import providers
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from pyjms import ApplicationContainer, PyjmsSettings, RetryPolicy, jms_listener
from pyjms.observability.logs import JsonFormatter, MessageContext, message_context
from pyjms.testing.app import JmsTestApp, with_redelivery_delay
from tests.kit.processes.forked_python import run_python

ROOT = Path(__file__).resolve().parents[3]
log = logging.getLogger("shop")


class Lines:
    """The log lines of a test, as objects."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.handler = logging.StreamHandler(self.stream)
        self.handler.setFormatter(JsonFormatter())

    def of(self, logger: str) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in self.stream.getvalue().splitlines()]
        return [each for each in found if each["logger"] == logger]


@pytest.fixture
def lines() -> Iterator[Lines]:
    made = Lines()
    logging.getLogger().addHandler(made.handler)
    log.setLevel(logging.INFO)
    yield made
    logging.getLogger().removeHandler(made.handler)


def settings(jms_app: JmsTestApp, **sections: Any) -> PyjmsSettings:
    url = with_redelivery_delay(jms_app.url, 0)
    return PyjmsSettings.model_validate(sections).with_broker_url(url)


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_lines_of_a_handler_carry_its_message(
    jms_app: JmsTestApp, lines: Lines, kind: str
) -> None:
    def in_thread(text: str) -> None:
        log.info("priced %s", text, extra={"price": 7})

    async def on_loop(text: str) -> None:
        in_thread(text)

    class Container(ApplicationContainer):
        tracer_provider = providers.Object(TracerProvider())

    handler = jms_listener("in", id="orders")(in_thread if kind == "def" else on_loop)
    given = settings(jms_app, logging={"format": "json"}, observability={"tracing": True})
    await jms_app.start(handler, settings=given, container=Container)
    await jms_app.template.convert_and_send("in", "a", correlation_id="c1")
    await jms_app.drained("in")
    log.info("outside")
    inside, outside = lines.of("shop")
    (message,) = jms_app.recorder.messages(handler)
    assert inside.pop("time").endswith("Z")
    assert len(inside.pop("trace_id")) == 32
    assert len(inside.pop("span_id")) == 16
    assert inside == {
        "level": "INFO",
        "logger": "shop",
        "message": "priced a",
        "listener_id": "orders",
        "destination": "queue://in",
        "message_id": message.message_id,
        "correlation_id": "c1",
        "price": 7,
    }
    assert outside.keys() == {"time", "level", "logger", "message"}


async def test_a_failure_as_json(jms_app: JmsTestApp, lines: Lines) -> None:
    @jms_listener("in", id="orders")
    def handle(text: str) -> None:
        try:
            raise ValueError("no\nprice")
        except ValueError:
            log.exception("failed")
        raise LookupError("no customer")

    await jms_app.start(handle, settings=settings(jms_app, logging={"format": "json"}))
    await jms_app.template.convert_and_send("in", "a", correlation_id="c1")
    await jms_app.drained("in")
    own = lines.of("shop")[0]
    assert own["error"]["type"] == "ValueError"
    assert own["error"]["message"] == "no\nprice"
    assert "test_logs.py" in own["error"]["traceback"]
    ours = lines.of("pyjms.listener.error_handling")[0]
    assert "LookupError: no customer (test_logs.py:" in ours["message"]
    assert (ours["listener_id"], ours["correlation_id"]) == ("orders", "c1")
    assert "error" not in ours


@pytest.mark.parametrize("dead_letter", [None, "refused"])
async def test_failures_and_dead_letters_carry_the_ids(
    jms_app: JmsTestApp, lines: Lines, dead_letter: str | None
) -> None:
    class Container(ApplicationContainer):
        tracer_provider = providers.Object(TracerProvider())

    spans: list[tuple[str, str]] = []

    @jms_listener(
        "in", id="orders", retry=RetryPolicy(maximum=1, initial_delay=0, dead_letter=dead_letter)
    )
    def handle(text: str) -> None:
        span = trace.get_current_span().get_span_context()
        spans.append((f"{span.trace_id:032x}", f"{span.span_id:016x}"))
        raise LookupError("no customer")

    given = settings(jms_app, observability={"tracing": True})
    await jms_app.start(handle, settings=given, container=Container)
    await jms_app.template.convert_and_send("in", "a", correlation_id="c1")
    await jms_app.drained("in")
    failed = lines.of("pyjms.listener.error_handling")[0]
    (dead,) = lines.of("pyjms.client.refusals") or lines.of("pyjms.listener.delivery")
    assert (failed["trace_id"], failed["span_id"]) == spans[0]
    if dead_letter is None:
        assert (dead["trace_id"], dead["span_id"]) == spans[1]
    assert dead["message_id"] == failed["message_id"]
    for line in (failed, dead):
        assert (line["listener_id"], line["correlation_id"]) == ("orders", "c1")


async def test_a_handled_message_is_one_line_at_debug(
    jms_app: JmsTestApp, caplog: pytest.LogCaptureFixture
) -> None:
    @jms_listener("in", id="orders")
    async def handle(text: str) -> None: ...

    caplog.set_level(logging.DEBUG, "pyjms.listener")
    await jms_app.start(handle)
    await jms_app.template.convert_and_send("in", "secret", correlation_id="c1")
    await jms_app.drained("in")
    (message,) = jms_app.recorder.messages(handle)
    await jms_app.stop()
    (line,) = [each for each in caplog.records if " handled " in each.getMessage()]
    expected = rf"Listener orders handled message {re.escape(str(message.message_id))} in [\d.]+ ms"
    assert re.fullmatch(expected, line.getMessage())
    assert vars(line).items() >= {"listener_id": "orders", "correlation_id": "c1"}.items()


async def test_a_formatter_of_one_s_own(jms_app: JmsTestApp) -> None:
    @jms_listener("in", id="orders")
    async def handle(text: str) -> None:
        log.info("priced")

    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(MessageContext())
    handler.setFormatter(logging.Formatter("%(listener_id)s %(correlation_id)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        await jms_app.start(handle, interceptors=[message_context])
        await jms_app.template.convert_and_send("in", "a")
        await jms_app.drained("in")
        log.info("outside")
    finally:
        log.removeHandler(handler)
    assert stream.getvalue() == "orders None priced\nNone None outside\n"


def test_what_cannot_be_json_is_text() -> None:
    record = logging.makeLogRecord({"msg": "x", "path": Path("a"), "missing": None})
    entry = json.loads(JsonFormatter().format(record))
    assert entry["path"] == "a"
    assert "missing" not in entry


def run_shop(folder: Path, *arguments: str, yaml: str = "") -> str:
    (folder / "shop.py").write_text(
        "import logging, os, signal\n"
        "from dependency_injector.wiring import Provide\n"
        "from pyjms import JmsApplication, jms_listener, on_startup\n"
        "left = [2]\n"
        "@jms_listener('in', id='orders')\n"
        "def handle(text: str) -> None:\n"
        "    logging.getLogger('shop').info('handling')\n"
        "    left[0] -= 1\n"
        "    if not left[0]:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        return\n"
        "    raise ValueError('wrong')\n"
        "@on_startup\n"
        "def send(template=Provide['jms_template']) -> None:\n"
        "    template.convert_and_send('in', 'a')\n"
    )
    (folder / "application.yaml").write_text(
        "activemq: {broker_url: 'vm://shop?broker.persistent=false', "
        f"redelivery: {{initial_delay: 10ms}}}}\n{yaml}"
    )
    done = run_python(
        "-m",
        "pyjms",
        "run",
        "shop",
        *arguments,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'broker'}"},
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_the_command_line(tmp_path: Path) -> None:
    text = run_shop(tmp_path)
    failed = [line for line in text.splitlines() if "Listener orders failed" in line]
    assert len(failed) == 1
    assert failed[0].endswith("attempt 1 of 7: ValueError: wrong (shop.py:12)")
    assert "Traceback" not in text
    assert " handled " not in text
    text = run_shop(tmp_path, "--log-level", "pyjms.listener=debug")
    assert len(re.findall("DEBUG .*Listener orders handled message .* ms", text)) == 1
    text = run_shop(tmp_path, "--tracebacks", "--log-format", "json")
    lines = [json.loads(line) for line in text.splitlines()]
    own = [line for line in lines if line["logger"] == "shop"]
    assert own[0]["listener_id"] == "orders"
    (failure,) = [line for line in lines if "Listener orders failed" in line["message"]]
    assert "shop.py" in failure["error"]["traceback"]


def test_the_settings(tmp_path: Path) -> None:
    yaml = "logging: {format: json, tracebacks: true, shop: WARNING}\n"
    lines = [json.loads(line) for line in run_shop(tmp_path, yaml=yaml).splitlines()]
    assert not any(line["logger"] == "shop" for line in lines)
    (failure,) = [line for line in lines if "Listener orders failed" in line["message"]]
    assert failure["error"]["type"] == "ValueError"
