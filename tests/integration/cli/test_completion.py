"""Completion of the command line, in the shell itself.

`pyjms --install-completion` writes the script that _PYJMS_COMPLETE=source_SHELL prints; which
SHELL, it sees from the processes above it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(sys.executable).parent

BASH = """
eval "$SCRIPT"
complete -p pyjms >&2
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_pyjms_completion pyjms
printf '%s\\n' "${COMPREPLY[@]}"
"""


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"
    missing = [name for name in ("pyjms", command[0]) if shutil.which(name, path=path) is None]
    if missing:
        pytest.skip(f"no {missing[0]}: pip install pyjms-framework, apt-get install bash")
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": path, **variables},
    )


@pytest.fixture(scope="module")
def script() -> str:
    return run("env", "_PYJMS_COMPLETE=source_bash", "pyjms").stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("pyjms", "brow"), {"browse"}),
        (("pyjms", "broker", "en"), {"encrypt"}),  # of the broker's package
        (("pyjms", "broker", "config", "con"), {"convert"}),
        (("pyjms", "broker", "encrypt", "--algo"), {"--algorithm"}),
        (
            ("pyjms", "broker", "encrypt", "--algorithm", ""),
            {"PBEWithMD5AndDES", "PBEWithHmacSHA256AndAES_256"},
        ),
        (("pyjms", "no-such-command", "x"), {""}),
    ],
)
def test_bash_completes_commands_options_and_values(
    script: str, words: tuple[str, ...], expected: set[str]
) -> None:
    done = run("bash", "--norc", "-c", BASH, "bash", *words, SCRIPT=script)
    assert "-F _pyjms_completion pyjms" in done.stderr
    assert set(done.stdout.splitlines()) == expected


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_their_scripts(shell: str) -> None:
    script = run("env", f"_PYJMS_COMPLETE=source_{shell}", "pyjms").stdout
    assert f"_PYJMS_COMPLETE=complete_{shell}" in script
