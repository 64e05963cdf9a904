"""What the wheel installs, and what it needs not to collide with."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pyjms.runtime.distribution import DISTRIBUTION, install_command
from tests.kit.source_tree import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built from the checkout by the project's build backend."""
    folder = tmp_path_factory.mktemp("wheel")
    code = f"import hatchling.build as b; print(b.build_wheel({str(folder)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(folder / done.stdout.split()[-1])


def test_the_wheel_has_no_other_top_level_names(wheel: zipfile.ZipFile) -> None:
    names = {name.split("/")[0] for name in wheel.namelist()}
    info = {name for name in names if name.endswith(".dist-info")}
    assert names - info == {"pyjms", "pyjms_broker", "pyspark_jms.py", "pyspark_jms_journal.py"}
    assert [name.split("-")[0] for name in info] == [DISTRIBUTION.replace("-", "_")]


def test_the_wheel_has_the_type_markers_and_the_licence(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    assert {"pyjms/py.typed", "pyjms_broker/py.typed"} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)


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


def test_hints_and_documents_name_the_distribution() -> None:
    assert install_command("sql") == f'pip install "{DISTRIBUTION}[sql]"'
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
