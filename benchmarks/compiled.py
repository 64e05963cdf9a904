"""Compare the hot modules compiled by mypyc with the same source interpreted: make compiled.

Copies pyjms and pyjms_broker to build/compiled, compiles the modules of `MODULES` there, runs
the codec's and the regions' tests against that tree and prints the rates of both. Exits
with 1 when the compiler or a test fails. Without a C compiler it prints that and exits with 0.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import queue

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / "build" / "compiled"
BUILD = ROOT / "benchmarks" / "build_extensions.py"
PACKAGES = ("pyjms", "broker/pyjms_broker")
PROGRAMS = ("benchmarks", "tests")
MODULES = (
    "pyjms/wire/limits.py",
    "pyjms/wire/message_audit.py",
    "pyjms/wire/openwire/*.py",
    "broker/pyjms_broker/api/message.py",
    "broker/pyjms_broker/api/subscription.py",
    "broker/pyjms_broker/api/usage.py",
    "broker/pyjms_broker/region/**/*.py",
)
INTERPRETED = (
    "pyjms/wire/openwire/__init__.py",
    "pyjms/wire/openwire/settings.py",  # a dataclass read once a connection
    "broker/pyjms_broker/region/__init__.py",
)
TESTS = (
    "tests/unit/wire",
    "tests/unit/region",
    "tests/unit/transaction",
    "tests/unit/connector",
    "tests/integration/broker",
)
UNRELATED = (  # they run the scheduler, the command line and other processes, not the regions
    "tests/integration/broker/scheduler",
    "tests/integration/broker/configuration/test_command_line.py",
    # Classes that mypyc has compiled share one cache of ABCMeta with their bases. In modules that
    # are not compiled, such as those of ranges, `isinstance(queue, Topic)` makes the same question
    # with BaseDestination answer False.
    "tests/integration/broker/test_log_lines.py",
    "tests/integration/broker/configuration/test_transfer_command.py",
)
CASES = ("vm listener", "tcp listener", "vm receive", "tcp receive")
PROOF = """
import importlib, sys
for name in sys.argv[1:]:
    assert importlib.import_module(name).__file__.endswith((".so", ".pyd")), name
"""


def sources() -> list[str]:
    """Return the modules to compile, as paths in the tree, which has both packages side by side."""
    found = {path.relative_to(ROOT).as_posix() for kind in MODULES for path in ROOT.glob(kind)}
    return sorted(name.removeprefix("broker/") for name in found.difference(INTERPRETED))


def c_compiler() -> str | None:
    """Return the C compiler that extensions of this Python are built with, if it is there."""
    named = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return shutil.which(named.split()[0])


def copy_to_tree(parts: Sequence[str]) -> None:
    """Copy sources with the byte code that is there, but for files that are being written."""
    for part in parts:
        shutil.copytree(
            ROOT / part,
            TREE / Path(part).name,
            ignore=shutil.ignore_patterns("*.pyc.*"),
            dirs_exist_ok=True,
        )


def compile_tree(modules: list[str], *, quick: bool) -> None:
    """Compile the modules, and add what their tests need; `quick`: see `build_extensions`."""
    command = [sys.executable, "-P", str(BUILD), *(["--quick"] if quick else []), *modules]
    done = subprocess.run(
        command,
        check=False,
        cwd=TREE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nmypyc failed; its output is above")
    # only now, since the build reads it otherwise
    shutil.copy(ROOT / "pyproject.toml", TREE)
    # and with the byte code that tests beside this have made in the meantime
    copy_to_tree([*PACKAGES, *PROGRAMS])


def run_tests() -> int:
    ignored = [f"--ignore={path}" for path in UNRELATED]
    shared_out = ["-n", "auto", "--dist", "loadgroup", "--max-worker-restart", "0"]
    shared_out += ["--reruns", os.environ.get("RERUNS", "0"), "-rR"]
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", *shared_out, *ignored, *TESTS]
    return subprocess.run(command, check=False, cwd=TREE).returncode


def prove_compiled(modules: list[str]) -> None:
    """Make sure that the tree's processes really import what was compiled."""
    names = [name.removesuffix(".py").removesuffix("/__init__") for name in modules]
    command = [sys.executable, "-c", PROOF, *(name.replace("/", ".") for name in names)]
    subprocess.run(command, cwd=TREE, check=True)


def codec_rates(tree: Path, number: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.codec", "--json", "--number", str(number)]
    done = subprocess.run(command, cwd=tree, check=True, capture_output=True, text=True)
    rates: dict[str, float] = json.loads(done.stdout)
    return rates


def print_rates() -> None:
    interpreted, compiled = codec_rates(ROOT, 5000), codec_rates(TREE, 5000)
    print(f"\n{'interpreted':>12} {'compiled':>12} {'ratio':>6}  microseconds a frame")
    for name, rate in interpreted.items():
        print(f"{rate:12.2f} {compiled[name]:12.2f} {rate / compiled[name]:6.2f}  {name}")
    trees: dict[str, Path | None] = {"interpreted": ROOT, "compiled": TREE}
    medians = queue.compare(trees, CASES, 10_000, 3)
    print(f"\n{'interpreted':>12} {'compiled':>12} {'ratio':>6}  messages a second")
    for case in CASES:
        before, after = (medians[name][case]["msg_per_s"] for name in trees)
        print(f"{before:12.0f} {after:12.0f} {after / before:6.2f}  {case}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="not optimized, and no rates")
    parser.add_argument("--keep", action="store_true", help="use the tree that is there already")
    arguments = parser.parse_args()
    if c_compiler() is None or importlib.util.find_spec("mypyc") is None:
        print("make compiled: skipped, since there is no C compiler (or no mypy) here")
        return
    modules = sources()
    if not (arguments.keep and (TREE / "pyproject.toml").exists()):
        start = time.monotonic()
        shutil.rmtree(TREE, ignore_errors=True)
        copy_to_tree(PACKAGES)
        compile_tree(modules, quick=arguments.quick)
        print(f"{len(modules)} modules compiled in {time.monotonic() - start:.0f} s")
    prove_compiled(modules)
    failed = run_tests()
    if failed:
        sys.exit(failed)
    if not arguments.quick:
        print_rates()


if __name__ == "__main__":
    main()
