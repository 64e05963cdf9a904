"""What the wheel installs, and what it needs not to collide with."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from configparser import ConfigParser
from email import message_from_bytes
from email.message import Message
from importlib.metadata import EntryPoint, distribution
from pathlib import Path

import pytest

from pyjms.runtime.distribution import DISTRIBUTION, install_command
from tests.kit.processes.forked_python import run_python
from tests.kit.source_tree import ROOT


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with wheel and sdist, built from the checkout by the project's build backend."""
    folder = tmp_path_factory.mktemp("built")
    code = f"import hatchling.build as b; b.build_wheel({str(folder)!r}); b.build_sdist({str(folder)!r})"
    done = run_python("-c", code, cwd=ROOT, fresh=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    (path,) = built.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return message_from_bytes(wheel.read(name))


def test_the_wheel_has_no_other_top_level_names(wheel: zipfile.ZipFile) -> None:
    names = {name.split("/")[0] for name in wheel.namelist()}
    info = {name for name in names if name.endswith(".dist-info")}
    assert names - info == {"pyjms", "pyjms_broker", "pyspark_jms.py", "pyspark_jms_journal.py"}
    assert [name.split("-")[0] for name in info] == [DISTRIBUTION.replace("-", "_")]


def test_the_wheel_has_what_belongs_to_the_packages_and_no_tests(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    assert {"pyjms/py.typed", "pyjms_broker/py.typed", "pyjms/settings/application.yaml"} <= names
    assert any(name.startswith("pyjms_broker/console/templates/") for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name for name in names if "/test_" in name or "conftest" in name} == set()


def test_the_metadata_is_complete_and_names_no_file_beside_it(metadata: Message) -> None:
    assert metadata["Name"] == DISTRIBUTION
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"
    description = str(metadata.get_payload())
    assert description.startswith("# pyjms")
    assert re.findall(r"\]\((?!https?://)[^)]*\)", description) == []
    assert {"web", "spark", "all"} <= set(metadata.get_all("Provides-Extra") or ())


def test_the_entry_points_name_what_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    (name,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    parser = ConfigParser(delimiters=("=",))
    parser.read_string(wheel.read(name).decode())
    points = [
        EntryPoint(each, target, group)
        for group in parser.sections()
        for each, target in parser.items(group)
    ]
    assert {(point.group, point.name) for point in points} == {
        ("console_scripts", "pyjms"),
        ("pyjms.cli", "broker"),
        ("pyjms.embedded_brokers", "default"),
        ("pytest11", "pyjms"),
    }
    files = {point.module.replace(".", "/") for point in points}
    assert {
        f for f in files if not {f"{f}.py", f"{f}/__init__.py"} & set(wheel.namelist())
    } == set()
    assert all(point.load() for point in points)


def test_the_sdist_has_sources_documentation_and_examples_alone(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert {name.partition("/")[0] for name in names} == {
        *("LICENSE", "PKG-INFO", "README.md", ".gitignore", "pyproject.toml"),
        *("pyjms", "broker", "pyspark_jms.py", "pyspark_jms_journal.py"),
        *("config", "docs", "examples"),
    }
    assert {"docs/tutorial.md", "config/application.yaml", "examples/topic.py"} <= set(names)
    assert not [name for name in names if name.endswith(".pyc")]


def test_modules_of_a_user_named_broker_disturb_nothing(tmp_path: Path) -> None:
    (tmp_path / "broker.py").write_text("raise RuntimeError('the user's own module')\n")
    code = (
        "from pyjms import ConnectionFactory, JmsTemplate\n"
        "factory = ConnectionFactory('vm://localhost?broker.persistent=false')\n"
        "with factory.create_connection():  # the broker ends with its last connection\n"
        "    template = JmsTemplate(factory)\n"
        "    template.convert_and_send('q', 'hello')\n"
        "    print(template.receive_and_convert('q'))\n"
    )
    (tmp_path / "script.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout == "hello\n", done.stderr


def test_hints_name_the_checkout_if_that_is_installed() -> None:
    source = distribution(DISTRIBUTION).read_text("direct_url.json")
    name = json.loads(source)["url"].removeprefix("file://") if source else DISTRIBUTION
    assert install_command("sql") == f'pip install "{name}[sql]"'


def test_hints_and_documents_name_the_distribution() -> None:
    documents = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    sources = [*(ROOT / "pyjms").rglob("*.py"), *(ROOT / "broker").rglob("*.py")]
    wrong = ("pip install pyjms\n", "pip install pyjms[", 'install "pyjms[', "install 'pyjms[")
    found = {
        (path.relative_to(ROOT).as_posix(), text)
        for path in (*documents, *sources)
        for text in wrong
        if text in path.read_text(encoding="utf-8")
    }
    assert found == set()
    named = {path.name for path in sources if DISTRIBUTION in path.read_text(encoding="utf-8")}
    assert named == {"distribution.py"}
