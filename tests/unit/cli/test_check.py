"""`pyjms check`: one run finds all problems, whichever stage they belong to."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.processes.forked_python import run_python

Check = Callable[..., list[str]]

SETTINGS = """\
jms:
  pub_sub_domain: no
  listner: {}
  converter:
    type_id_mappings: {com.acme.Order: nowhere.Order, com.acme.Item: nowhere.Item}
activemq:
  broker_url: ${ABSENT_URL}
  close_timeout: 5
brokers:
  audit: {broker_url: 'tpc://x:1'}
listeners:
  orders:
    selector: (
    concurrency: 9-2
  orders: {concurrency: '2'}
  nobody: {concurrency: '2'}
"""
MODULE = """\
from typing import Annotated

from dependency_injector.wiring import Provide
from pyjms import jms_listener, on_startup, send_to


class Unknown: ...


@on_startup
def begin(one, base: Annotated[object, Provide["nothing"]]): ...


@jms_listener("a", id="orders", selector="(")
async def first(text: str): ...


@jms_listener("topc://b", concurrency="9-2", selector="x ==")
async def second(thing: Unknown, base: Annotated[object, Provide["nothing"]]): ...


@jms_listener("${app.absent}", id="third")
@send_to("topc://c")
def third(text: str): ...


@jms_listener("d", id="durable", subscription="x", container_factory="absent")
def fourth(text: str): ...
"""
OWN_APPLICATION = """
import sys
from pyjms import JmsApplication

app = JmsApplication(sys.modules[__name__])
"""


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """Run `pyjms check ...` on files of these texts; return what follows `pyjms: ` in each line."""

    def run(
        *arguments: str,
        files: dict[str, str],
        command: tuple[str, ...] = ("check",),
        **variables: str,
    ) -> list[str]:
        for name, text in files.items():
            (tmp_path / name).write_text(text, encoding="utf-8")
        done: subprocess.CompletedProcess[str] = run_python(
            *("-c", "from pyjms.cli.main import main; main()", *command, *arguments),
            cwd=tmp_path,
            env=os.environ | variables,
        )
        assert (done.returncode, done.stdout) == (1, ""), done.stderr
        lines = done.stderr.splitlines()
        found = [line.removeprefix("pyjms: ") for line in lines if line.startswith("pyjms: ")]
        problems = [line for line in found[:-1] if not line.startswith("not checked: ")]
        number = len(problems)
        assert found[-1] == f"{number} problem{'s' if number > 1 else ''} found"
        return found[:-1]

    return run


EXPECTED = [
    "application.yaml:2: no is a boolean to YAML 1.1",
    "application.yaml:3: jms.listner: there is no such setting; did you mean jms.listener?",
    "application.yaml:5: jms.converter.type_id_mappings.com.acme.Order: the class 'nowhere.Order'",
    "application.yaml:5: jms.converter.type_id_mappings.com.acme.Item: the class 'nowhere.Item'",
    "application.yaml:7: activemq.broker_url: ${ABSENT_URL} is unknown (set the environment",
    "application.yaml:8: activemq.close_timeout: 5 has no unit",
    "application.yaml:10: brokers.audit.broker_url: Could not create Transport.",
    "application.yaml:13: listeners.orders.selector: Invalid selector '('",
    "application.yaml:14: listeners.orders.concurrency: Invalid concurrency '9-2'",
    "application.yaml:15: the key 'orders' is repeated; it is first set in line 12",
    "application.yaml:16: listeners.nobody: no @jms_listener has the id 'nobody'",
    "environment variable PYJMS_JMS_CLIENT_ID: there is no such setting",
    "orders.py:10: Hook begin: parameter 'one' cannot be supplied",
    "orders.py:10: Hook begin: parameter 'base' cannot be injected: the container has no provider",
    "orders.py:18: Handler orders.second: parameter 'thing' of type",
    "orders.py:18: Handler orders.second: parameter 'base' cannot be injected",
    "orders.py:18: Listener 'topc://b': Invalid destination name",
    "orders.py:18: Listener 'topc://b': Invalid concurrency '9-2'",
    "orders.py:18: Listener 'topc://b': Invalid selector 'x =='",
    "orders.py:22: Handler orders.third: its @send_to: Invalid destination name",
    "not checked: container factories, client ids and durable subscriptions of listeners",
]


@pytest.mark.parametrize("more", ["", OWN_APPLICATION], ids=["module", "application"])
def test_problems_of_all_stages_are_found_at_once(check: Check, more: str) -> None:
    files = {"application.yaml": SETTINGS, "orders.py": MODULE + more}
    lines = check("orders", files=files, PYJMS_JMS_CLIENT_ID="me")
    assert len(lines) == len(EXPECTED), "\n".join(lines)
    for line, start in zip(lines, EXPECTED, strict=True):
        assert line.startswith(start), line


def test_with_valid_settings_what_depends_on_them_is_checked(check: Check) -> None:
    lines = check("orders", files={"orders.py": MODULE})
    assert [line.split(": ")[0] for line in lines] == [
        *(["orders.py:10"] * 2),
        "orders.py:14",
        *(["orders.py:18"] * 5),
        *(["orders.py:22"] * 2),
        "orders.py:27",
    ]
    assert "${app.absent} is unknown" in lines[9]
    assert "there is no container factory 'absent'" in lines[10]


def test_a_file_that_is_not_yaml_does_not_hide_the_others(check: Check) -> None:
    lines = check(
        "orders",
        files={
            "application.yaml": "jms: {listner: {}}\n",
            "application-a.yaml": "jms:\n  client_id: x\n bad: y\n",
            "application-b.yaml": "activemq: {user: '${SET_IN_A}', usr: x}\n",
            "orders.py": "from pyjms import jms_listener\n\n@jms_listener('${app.x}')\ndef one(): ...\n",
        },
        PYJMS_PROFILES="a,b,c",
    )
    starts = [
        "application-a.yaml:3: expected <block end>",
        "application-b.yaml:1: activemq.usr: there is no such setting",
        "Profile 'c' has no file application-c.yaml",
        "application.yaml:1: jms.listner: there is no such setting",
        "not checked: ",
    ]
    assert len(lines) == len(starts), lines
    assert all(line.startswith(start) for line, start in zip(lines, starts, strict=True)), lines


@pytest.mark.parametrize(
    ("module", "place"),
    [
        (
            "import orders\n\norders.nothing()\n",
            "broken.py:3: broken cannot be imported: AttributeError",
        ),
        ("def f(:\n", "broken.py:1: broken cannot be imported: SyntaxError"),
        ("from pyjms import jms_listener\n\njms_listener(3)\n", "broken.py:3: "),
        ("import no_such_thing\n", "broken.py:1: broken cannot be imported: ModuleNotFoundError"),
    ],
)
def test_a_module_that_cannot_be_imported_does_not_hide_the_settings(
    check: Check, module: str, place: str
) -> None:
    files = {"application.yaml": SETTINGS, "orders.py": MODULE, "broken.py": module}
    lines = check("broken", files=files)
    assert len(lines) == 11, lines
    assert lines[0].startswith("application.yaml:2: ")
    assert lines[10].startswith(place)


def test_a_folder_is_checked_behind_modules_that_cannot_be_imported(
    check: Check, tmp_path: Path
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_x.py").write_text("@jms_listener\nraise SystemExit\n")
    listener = "from pyjms import jms_listener\n\n@jms_listener('a', selector='(')\ndef f(x): ...\n"
    files = {
        "broken.py": "import nowhere\n@jms_listener('a')\ndef g(x): ...\n",
        "orders.py": listener,
        "script.py": "import pyjms\nraise SystemExit('it is not imported')\n",
        "application.yaml": "jms: {listner: {}}\n",
    }
    lines = check(".", files=files)
    starts = [
        "application.yaml:1: jms.listner: there is no such setting",
        "broken.py:1: broken.py cannot be imported: ModuleNotFoundError",
        "orders.py:3: Listener 'a': Invalid selector '('",
        "not checked: container factories",
    ]
    assert len(lines) == len(starts), lines
    assert all(line.startswith(start) for line, start in zip(lines, starts, strict=True)), lines


def test_the_applications_of_a_folder_are_checked(check: Check) -> None:
    files = {
        "orders.py": "from pyjms import jms_listener\n\n@jms_listener('a', id='a')\ndef f(x): ...\n",
        "shop.py": "import orders\nfrom pyjms import JmsApplication\n\napp = JmsApplication(orders)\n",
        "application.yaml": "listeners: {b: {concurrency: '2'}}\n",
    }
    assert check(".", files=files) == [
        "application.yaml:1: listeners.b: no @jms_listener has the id 'b' (ids here: a)"
    ]
    assert check(".", files={"orders.py": "", "shop.py": ""})[0].startswith(
        "There are no listeners, pipelines or applications in this folder"
    )


def test_what_keys_mean_together_is_not_judged_without_the_invalid_ones(check: Check) -> None:
    settings = "activemq:\n  broker_url: [ssl]\n  tls: {trust_store: ca.pem}\n"
    lines = check(files={"application.yaml": settings})
    assert lines[0].startswith("application.yaml:2: activemq.broker_url: ")
    assert lines[1:] == ["not checked: activemq: not all its keys are valid"]
