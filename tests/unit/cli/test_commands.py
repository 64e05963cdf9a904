"""The commands in separate processes: their output and exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyjms_broker.settings import BrokerSettings, load_broker_settings
from tests.kit.processes.forked_python import ForkedPython, run_python

Run = Callable[..., subprocess.CompletedProcess[str]]

EMBEDDED = {"PYJMS_ACTIVEMQ__BROKER_URL": "vm://localhost?broker.persistent=false"}
"""A broker without a port, which another test may have taken."""

MODULE = """
from typing import Annotated
from dependency_injector.wiring import Provide
from pyjms import JmsTemplate, jms_listener, on_shutdown, on_startup

@on_startup
def begin(template: Annotated[JmsTemplate, Provide["jms_template"]]):
    template.convert_and_send("orders", "one")

@jms_listener("orders", id="orders", concurrency="1-2", selector="JMSPriority > 3")
def on_order(text: str):
    print("handled", text, flush=True)

@jms_listener("${app.other:audit}")
async def audit(text: str): ...

@on_shutdown
def end():
    print("ended", flush=True)
"""
BAD = """
from pyjms import jms_listener

class Unknown: ...

@jms_listener("a", selector="(")
async def one(text: str): ...

@jms_listener("b")
async def two(thing: Unknown): ...
"""


@pytest.fixture
def pyjms(tmp_path: Path) -> Run:
    (tmp_path / "orders.py").write_text(MODULE)
    (tmp_path / "bad.py").write_text(BAD)

    def run(
        *arguments: str, fresh: bool = False, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        main = "from pyjms.cli.main import main; main()"
        env = os.environ | environment
        return run_python("-c", main, *arguments, cwd=tmp_path, env=env, fresh=fresh)

    return run


def test_help_lists_the_commands(pyjms: Run) -> None:
    done = pyjms("--help", fresh=True)
    assert done.returncode == 0
    for command in ("run", "check", "listeners", "config", "broker"):
        assert command in done.stdout
    assert pyjms("config", "--help").returncode == 0


def test_check_of_what_is_fine(pyjms: Run) -> None:
    assert pyjms("check").stdout == "No problems found in the settings.\n"
    assert pyjms("check", "orders").stdout == "No problems found in orders.\n"


def test_check_lists_every_problem_on_a_line(pyjms: Run) -> None:
    done = pyjms("check", "bad")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("pyjms: bad.py:6: Listener 'a': Invalid selector")
    assert lines[1].startswith("pyjms: bad.py:9: Handler bad.two: parameter 'thing' of type")
    assert lines[2] == "pyjms: 2 problems found"
    assert done.stdout == ""


def test_check_of_settings_alone_looks_at_urls_and_listeners(pyjms: Run, tmp_path: Path) -> None:
    (tmp_path / "application.yaml").write_text(
        "activemq: {broker_url: 'tpc://x:1'}\nlisteners: {orders: {concurrency: 9-2}}\n"
    )
    for arguments in (("check",), ("check", "orders")):
        done = pyjms(*arguments)
        assert done.returncode == 1
        first, second, *_, count = done.stderr.splitlines()
        assert "application.yaml:1: activemq.broker_url: Could not create Transport" in first
        assert "Transport scheme NOT recognized: [tpc]" in first
        assert "application.yaml:2: listeners.orders.concurrency: Invalid concurrency" in second
        assert count == "pyjms: 2 problems found"


def test_check_knows_failover_urls(pyjms: Run, tmp_path: Path) -> None:
    settings = tmp_path / "application.yaml"
    settings.write_text("activemq: {broker_url: 'failover:(tcp://a:1,tcp://b:1)?timeout=300'}\n")
    assert pyjms("check", "orders").stdout == "No problems found in orders.\n"
    settings.write_text("activemq: {broker_url: 'failover:(tcp://a:1,tcp://b:1)?timeouts=300'}\n")
    assert "did you mean 'timeout'" in pyjms("check").stderr


PATIENT = """
from pyjms import RetryPolicy, jms_listener

patient = RetryPolicy(maximum=10, initial_delay=1.0, multiplier=2.0)

@jms_listener("a", id="one", retry=patient)
async def one(text: str): ...

@jms_listener("b", id="two", retry=patient, concurrency="2")
async def two(text: str): ...

@jms_listener("topic://c", id="three")
async def three(text: str): ...
"""


def test_check_gives_hints_on_what_one_message_would_stop(pyjms: Run, tmp_path: Path) -> None:
    (tmp_path / "patient.py").write_text(PATIENT)
    done = pyjms("check", "patient")
    assert (done.returncode, done.stdout) == (0, "No problems found in patient.\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        "pyjms: hint: patient.py:6: Listener 'one': a message that keeps failing stops its only "
        "consumer for 0:17:03 (10 redeliveries), and the messages behind it wait: "
    )
    assert not pyjms("check", "patient", PYJMS_ACTIVEMQ__NON_BLOCKING_REDELIVERY="true").stderr
    unlimited = pyjms("check", "patient", PYJMS_LISTENERS__THREE__REDELIVERY__MAXIMUM="-1").stderr
    assert "Listener 'three': a message that keeps failing stops its only consumer" in unlimited
    assert "for ever (no maximum of redeliveries)" in unlimited


@pytest.mark.parametrize("command", ["check", "run"])
def test_nothing_to_run_is_an_error(pyjms: Run, tmp_path: Path, command: str) -> None:
    (tmp_path / "empty.py").write_text(
        "from orders import on_order\n\nclass C:\n    pass\n", encoding="utf-8"
    )
    done = pyjms(command, "empty")
    assert done.returncode == 1
    assert "pyjms: Nothing to run in empty" in done.stderr
    assert "empty imports marked functions of orders: name that module" in done.stderr
    assert "Traceback" not in done.stderr


def test_check_of_settings_names_file_and_line(pyjms: Run, tmp_path: Path) -> None:
    (tmp_path / "application.yaml").write_text("jms:\n  listner: {}\n  pub_sub_domain: perhaps\n")
    done = pyjms("check")
    assert done.returncode == 1
    assert "application.yaml:2" in done.stderr
    assert "application.yaml:3" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (("run", "nowhere"), 1, "There is no module 'nowhere'"),
        (("run", "orders:app"), 1, "orders has no JmsApplication 'app'"),
        (("run", "bad"), 1, "Listener 'a'"),
        (("check", "--config", "absent.yaml"), 1, "absent.yaml"),
        (("run",), 2, "Missing argument"),
        (("fly",), 2, "No such command"),
    ],
)
def test_errors_are_printed_without_a_traceback(
    pyjms: Run, arguments: Any, status: int, text: str
) -> None:
    done = pyjms(*arguments)
    assert done.returncode == status
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_listeners_are_listed(pyjms: Run) -> None:
    assert pyjms("listeners", "orders", fresh=True).stdout.splitlines() == [
        "id      destination  concurrency  selector",
        "orders  orders       1-2          JMSPriority > 3",
        "-       audit        -            -",
    ]


def test_config_show_masks_the_password(pyjms: Run, tmp_path: Path) -> None:
    (tmp_path / "application.yaml").write_text(
        "activemq:\n  user: me\n  password: hunter2\n"
        "  broker_url: tcp://h:61616?jms.password=hunter3\n"
    )
    done = pyjms("config", "show", fresh=True, PYJMS_JMS__CLIENT_ID="from-env")
    assert done.returncode == 0, done.stderr
    shown = yaml.safe_load(done.stdout)
    assert shown["activemq"]["user"] == "me"
    assert shown["jms"]["client_id"] == "from-env"
    assert "hunter" not in done.stdout


def test_config_show_names_the_source_of_each_value(pyjms: Run, tmp_path: Path) -> None:
    (tmp_path / "application.yaml").write_text(
        "activemq:\n  user: me\n  password: hunter2\njms:\n  pub_sub_domain: true\n"
        "app: {region: north}\n"
    )
    (tmp_path / "application-test.yaml").write_text("activemq:\n  user: you\n")
    done = pyjms(
        "config", "show", "--sources", "--profiles", "test", PYJMS_JMS__CLIENT_ID="from-env"
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "activemq.user: you  # application-test.yaml:2" in lines
    assert "jms.pub_sub_domain: true  # application.yaml:5" in lines
    assert "jms.client_id: from-env  # environment variable PYJMS_JMS__CLIENT_ID" in lines
    assert "app.region: north  # application.yaml:6" in lines
    assert "jms.subscription_durable: false  # default" in lines
    assert "hunter" not in done.stdout

    changed = pyjms("config", "show", "--sources", "--changed").stdout.splitlines()
    assert [line.split(":")[0] for line in changed] == [
        "jms.pub_sub_domain",
        "activemq.user",
        "activemq.password",
        "app.region",
    ]
    as_yaml = pyjms("config", "show", "--changed").stdout
    assert yaml.safe_load(as_yaml) == {
        "jms": {"pub_sub_domain": True},
        "activemq": {"user": "me", "password": "**********"},
        "app": {"region": "north"},
    }


def test_listeners_as_json(pyjms: Run) -> None:
    first, _ = map(json.loads, pyjms("listeners", "orders", "--json").stdout.splitlines())
    assert first == {
        "id": "orders",
        "destination": "orders",
        "concurrency": "1-2",
        "selector": "JMSPriority > 3",
        "subscription": None,
    }


def test_config_example_has_every_key_with_its_default(pyjms: Run, tmp_path: Path) -> None:
    (tmp_path / "application.yaml").write_text(pyjms("config", "example").stdout)
    assert pyjms("config", "show", "--sources").stdout.count("# application.yaml:") > 90
    (tmp_path / "broker.yaml").write_text(pyjms("broker", "config", "example").stdout)
    assert load_broker_settings(tmp_path / "broker.yaml", environ={}) == BrokerSettings()


def test_config_schema_is_a_json_schema(pyjms: Run, tmp_path: Path) -> None:
    schema = json.loads(pyjms("config", "schema").stdout)
    assert {"jms", "activemq", "listeners"} <= set(schema["properties"])
    assert pyjms("config", "schema", "--output", "schema.json").stdout == ""
    assert json.loads((tmp_path / "schema.json").read_text()) == schema


@pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM ends a Windows process at once")
def test_run_handles_messages_until_sigterm_and_ends_cleanly(pyjms: Run, tmp_path: Path) -> None:
    with ForkedPython(
        ["-c", "from pyjms.cli.main import main; main()", "run", "orders"],
        cwd=tmp_path,
        env=os.environ | EMBEDDED,
        stderr=subprocess.PIPE,
    ) as process:
        guard = threading.Timer(50, process.kill)
        guard.start()
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "handled one\n"
        start = "Listening: orders on orders, 1-2 consumers"  # may come after the first message
        assert any(start in line for line in process.stderr)
        process.send_signal(signal.SIGTERM)
        out, log = process.communicate(timeout=50)
        guard.cancel()
    assert process.returncode == 0, log
    assert out == "ended\n"
    assert "SIGTERM: finishing work in progress" in log
    assert "Application stopped" in log


STUBBORN = """
import threading
from typing import Annotated
from dependency_injector.wiring import Provide
from pyjms import JmsTemplate, jms_listener, on_startup

@on_startup
def begin(template: Annotated[JmsTemplate, Provide["jms_template"]]):
    template.convert_and_send("in", "x")

@jms_listener("in")
def forever(text: str):
    print("entered", flush=True)
    threading.Event().wait()
"""


@contextmanager
def stubborn(folder: Path, *options: str) -> Iterator[ForkedPython]:
    """`pyjms run` with a handler that never ends, once it is asked to stop by SIGTERM."""
    (folder / "stubborn.py").write_text(STUBBORN)
    main = "from pyjms.cli.main import main; main()"
    with ForkedPython(
        ["-c", main, "run", *options, "stubborn"],
        cwd=folder,
        env=os.environ | EMBEDDED,
        stderr=subprocess.PIPE,
    ) as process:
        guard = threading.Timer(50, process.kill)
        guard.start()
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "entered\n"
        process.send_signal(signal.SIGTERM)
        for line in process.stderr:
            if "SIGTERM: finishing work in progress" in line:
                break
        yield process
        guard.cancel()


@pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM ends a Windows process at once")
def test_the_shutdown_timeout_of_a_run(tmp_path: Path) -> None:
    with stubborn(tmp_path, "--shutdown-timeout", "200ms") as process:
        _, log = process.communicate(timeout=50)
    assert process.returncode == 0, log
    assert "Shutdown does not wait any longer for the handler of listener" in log
    assert "Application stopped" in log


def test_a_shutdown_timeout_that_is_not_a_duration(pyjms: Run) -> None:
    refused = pyjms("run", "--shutdown-timeout", "soon", "orders")
    assert refused.returncode == 2
    assert "is not a duration" in refused.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM ends a Windows process at once")
@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (["--max-memory", "500mb"], 1, "--max-memory needs --workers (add --workers 1)"),
        (["--workers", "2", "--max-memory", "much"], 2, "'much' is not a size"),
    ],
)
def test_a_limit_of_memory_is_for_workers(
    pyjms: Run, options: list[str], code: int, text: str
) -> None:
    done = pyjms("run", "orders", *options)
    assert done.returncode == code
    assert text in done.stderr


def test_a_later_signal_ends_the_run_at_once(tmp_path: Path) -> None:
    with stubborn(tmp_path, "--shutdown-timeout", "1h") as process:
        while process.poll() is None:
            process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.2)
        assert process.stderr is not None
        assert "SIGTERM again: stopping now" in process.stderr.read()
    assert process.returncode == -signal.SIGTERM


def test_version_names_the_distribution(pyjms: Run) -> None:
    done = pyjms("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("pyjms-framework ")


def test_the_package_runs_as_a_module(pyjms: Run, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pyjms", "check", "orders"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("No problems found in orders.\n", 0), done.stderr


def test_help_names_shell_completion(pyjms: Run) -> None:
    assert "--install-completion" in pyjms("--help").stdout


@pytest.mark.parametrize("target", ["orders.py", "./orders.py", "{folder}/orders.py"])
def test_an_application_may_be_named_by_its_file(pyjms: Run, tmp_path: Path, target: str) -> None:
    named = target.format(folder=tmp_path)
    done = pyjms("listeners", named)
    assert done.stdout.splitlines()[1].split()[0] == "orders", done.stderr
    assert pyjms("check", named).stdout == f"No problems found in {named}.\n"


def test_a_file_elsewhere_or_in_a_package_can_be_named(pyjms: Run, tmp_path: Path) -> None:
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "parts.py").write_text("NAME = 'parts'\n")
    (package / "app.py").write_text(
        "from pyjms import JmsApplication, jms_listener\nfrom shop.parts import NAME\n\n"
        "@jms_listener(NAME)\ndef on_part(text: str) -> None: ...\n"
    )
    assert destinations(pyjms, "shop/app.py") == ["parts"]
    elsewhere = tmp_path / "not-a-package"
    elsewhere.mkdir()
    (elsewhere / "lone.py").write_text(
        "from pyjms import JmsApplication, jms_listener\n\n"
        "@jms_listener('lone')\ndef on_it(text: str) -> None: ...\n\n"
        "import sys\napp = JmsApplication(sys.modules[__name__])\n"
    )
    assert destinations(pyjms, "not-a-package/lone.py:app") == ["lone"]


LISTENER = "from pyjms import jms_listener\n\n@jms_listener('{0}')\ndef on_it(text: str): ...\n"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A package with listeners in a module and in a subpackage, and modules that nobody may run."""
    inner = tmp_path / "shop" / "late"
    (tmp_path / "shop" / "tests").mkdir(parents=True)
    inner.mkdir()
    texts = {
        "__init__.py": "",
        "early.py": LISTENER.format("early"),
        "late/__init__.py": LISTENER.format("late"),
        "late/later.py": LISTENER.format("later"),
        "late/test_it.py": LISTENER.format("of a test"),
        "tests/__init__.py": LISTENER.format("of tests"),
        "late/__main__.py": "raise SystemExit('it is imported')\n",
    }
    for name, text in texts.items():
        (tmp_path / "shop" / name).write_text(text)
    return tmp_path / "shop"


def destinations(pyjms: Run, *targets: str) -> list[str]:
    done = pyjms("listeners", *targets)
    assert done.returncode == 0, done.stderr
    return [line.split()[1] for line in done.stdout.splitlines()[1:]]


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("target", ["shop", "./shop", "shop/"])
def test_a_package_stands_for_all_its_modules(pyjms: Run, target: str) -> None:
    assert destinations(pyjms, target) == ["early", "late", "later"]
    assert pyjms("check", target).stdout == f"No problems found in {target}.\n"


@pytest.mark.usefixtures("shop")
def test_several_modules_are_one_application(pyjms: Run) -> None:
    both = ["shop.early", "orders.py", "shop.early"]
    assert destinations(pyjms, *both) == ["early", "orders", "audit"]
    assert pyjms("check", *both[:2]).stdout == "No problems found in shop.early and orders.py.\n"


def test_a_folder_stands_for_its_modules_with_listeners(pyjms: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("raise SystemExit('it is imported')\n")
    assert destinations(pyjms, ".") == ["orders", "audit"]
    assert pyjms("check", ".").stdout == "No problems found in this folder.\n"


def test_the_application_of_a_package_runs_alone(pyjms: Run, shop: Path) -> None:
    (shop / "main.py").write_text(
        "from pyjms import JmsApplication\nfrom shop import early\n\napp = JmsApplication(early)\n"
    )
    assert destinations(pyjms, "shop") == ["early"]
    for command in ("run", "check"):
        done = pyjms(command, "shop", "orders")
        assert done.returncode == 1
        assert "pyjms: shop.main:app is an application: it runs alone" in done.stderr
    (shop / "__init__.py").write_text("from shop.main import app\n")
    (shop / "late" / "later.py").write_text("raise OSError('it is imported')\n")
    assert destinations(pyjms, "shop") == ["early"]


def test_check_of_a_package_goes_on_behind_an_import_error(pyjms: Run, shop: Path) -> None:
    (shop / "late" / "later.py").write_text("import nowhere\n")
    (shop / "early.py").write_text(LISTENER.format("topc://a"))
    errors = pyjms("check", "shop").stderr
    assert "shop/late/later.py:1: shop.late.later cannot be imported: ModuleNotFound" in errors
    assert "shop/early.py:3: Listener 'topc://a': Invalid destination name" in errors
    assert "No module named 'nowhere'" in pyjms("run", "shop").stderr


@pytest.mark.parametrize(
    ("name", "text"),
    [("absent.py", "There is no file 'absent.py'"), ("a-b.py", "'a-b' is not a Python name")],
)
def test_a_file_that_cannot_be_imported_is_refused(
    pyjms: Run, tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / "a-b.py").write_text("")
    done = pyjms("run", name)
    assert done.returncode == 1
    assert text in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["run", "check", "listeners"])
def test_a_module_that_raises_shows_its_own_frames_only(
    pyjms: Run, tmp_path: Path, command: str
) -> None:
    (tmp_path / "helper.py").write_text("def fail():\n    return 1 / 0\n")
    (tmp_path / "broken.py").write_text("import helper\n\nhelper.fail()\n")
    done = pyjms(command, "broken")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    files = [line for line in lines if line.startswith("  File ")]
    assert [Path(line.split('"')[1]).name for line in files] == ["broken.py", "helper.py"]
    assert "ZeroDivisionError: division by zero" in lines


def test_an_absent_import_of_the_module_is_not_taken_for_the_module(
    pyjms: Run, tmp_path: Path
) -> None:
    (tmp_path / "needs.py").write_text("import nosuchpackage\n")
    done = pyjms("run", "needs")
    assert done.returncode == 1
    assert "No module named 'nosuchpackage'" in done.stderr
    assert done.stderr.count("  File ") == 1
