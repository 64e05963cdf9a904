"""Test the compiled wheel, and compare it with the same source interpreted: make compiled.

Builds the wheel whose hot modules mypyc has compiled, installs it in build/compiled, runs the tests
of what a message passes, the contract kits and the recipes of extensions against it there and
prints the rates of both. Exits with 1 when the compiler or a test fails. Without a C compiler it
prints that and exits with 0.

With `--pythons` the wheels of the other Pythons of this machine are built, too, each as `pip wheel`
does it for a user. Each is installed in a new environment, and the programs of users run with it.
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
import tomllib
import zipfile
from pathlib import Path

from benchmarks import queue
from config.wheel.build_hook import compiled_modules
from tests.kit.processes.python_environments import prepare_all

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / "build" / "compiled"
PACKAGES = ("pyjms", "broker/pyjms_broker")
PROGRAMS = ("benchmarks", "tests", "docs")
HOOK = "tool.hatch.build.targets.wheel.hooks.custom"
TESTS = (
    "tests/contract",
    "tests/unit/wire",
    "tests/unit/transport",
    "tests/unit/client",
    "tests/unit/connection",
    "tests/unit/listener",
    "tests/unit/connector",
    "tests/unit/region",
    "tests/unit/transaction",
    "tests/unit/cursor",
    "tests/unit/store",
    "tests/integration/broker",
    "tests/integration/client/delivery",
    "tests/integration/client/producer",
    "tests/integration/client/session",
    "tests/integration/listener",
    "tests/integration/core",
    "tests/integration/kahadb",
    "tests/integration/crash",
    "tests/integration/console/test_why.py",
    "tests/integration/amqp/test_receiving.py",
    "tests/integration/amqp/test_sending.py",
    "tests/integration/amqp/test_transactions.py",
    "tests/integration/mqtt/test_messages.py",
    "tests/integration/mqtt/test_sessions.py",
    "tests/docs/extending",
    "tests/unit/support/test_converter_contract.py",
)
USERS = ("tests/programs", "tests/integration/sync/test_scripts.py")
UNRELATED = (  # they run the scheduler, the command line, SQL and other processes
    "tests/integration/broker/scheduler",
    "tests/integration/broker/plugins",
    "tests/integration/broker/configuration",
    "tests/unit/store/jdbc",
    "tests/unit/store/jobs",
)
CASES = ("vm listener", "tcp listener", "vm receive", "tcp receive")
PROOF = """
import importlib, sys
for name in sys.argv[1:]:
    assert importlib.import_module(name).__file__.endswith((".so", ".pyd")), name
"""


def sources() -> list[str]:
    """Return the modules that the wheel compiles, as paths in it."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for key in HOOK.split("."):
        settings = settings[key]
    return compiled_modules(ROOT, settings["modules"], settings["interpreted"])


def c_compiler() -> str | None:
    """Return the C compiler that extensions of this Python are built with, if it is there."""
    named = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return shutil.which(named.split()[0])


def install_wheel(*, quick: bool) -> None:
    """Build the compiled wheel, install it in the tree, and put tests and docs beside it."""
    wheels = ROOT / "build" / "wheel"
    for folder in (TREE, wheels):
        shutil.rmtree(folder, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), "."]
    environment = {**os.environ, "PYJMS_COMPILE": "quick" if quick else "1"}
    if subprocess.run(build, check=False, cwd=ROOT, env=environment).returncode:
        sys.exit("the compiled wheel cannot be built; the output of mypyc is above")
    (wheel,) = wheels.glob("*.whl")
    install = [*pip, "install", "--no-deps", "--no-compile", "--target", str(TREE), str(wheel)]
    subprocess.run(install, check=True)
    shutil.copy(ROOT / "pyproject.toml", TREE)
    for part in PROGRAMS:
        shutil.copytree(ROOT / part, TREE / part, ignore=shutil.ignore_patterns("*.pyc.*"))
    for part in PACKAGES:  # the byte code that is there saves the tests' processes their time
        shutil.copytree(
            ROOT / part,
            TREE / Path(part).name,
            ignore=lambda folder, names: [
                name
                for name in names
                if not name.endswith(".pyc") and not (Path(folder) / name).is_dir()
            ],
            dirs_exist_ok=True,
        )


def run_tests(*, quick: bool) -> int:
    ignored = [f"--ignore={path}" for path in UNRELATED]
    shared_out = ["-n", "auto", "--dist", "loadgroup", "--max-worker-restart", "0"]
    shared_out += ["--reruns", os.environ.get("RERUNS", "0"), "-rR"]
    pytest = [sys.executable, "-m", "pytest", "-q", "--no-header", "-m", "not nightly"]
    cases = ["--cases", "2"] if quick else []  # make test runs all, interpreted
    command = [*pytest, *shared_out, *cases, *ignored, *TESTS]
    return subprocess.run(command, check=False, cwd=TREE).returncode


def install_others(*, quick: bool) -> dict[str, str]:
    """Build the wheel with each other Python, and return those Pythons, by version.

    It is installed in a new environment, to see that it is complete. For the tests its extensions
    lie beside those of this Python in the tree: each Python imports its own.
    """
    pythons = prepare_all()
    environment = {**os.environ, "PYJMS_COMPILE": "quick" if quick else "1"}
    for version, python in pythons.items():
        wheels = ROOT / "build" / f"wheel-{version}"
        shutil.rmtree(wheels, ignore_errors=True)
        build = [python, "-m", "pip", "--quiet", "wheel", "--no-deps", "--wheel-dir", wheels, ROOT]
        subprocess.run([*map(str, build)], check=True, env=environment)
        (wheel,) = wheels.glob("*.whl")
        subprocess.run([python, "-m", "venv", wheels / "fresh"], check=True)
        programs = wheels / "fresh" / "bin"
        subprocess.run([programs / "pip", "--quiet", "install", wheel], check=True)
        shown = subprocess.check_output([programs / "pyjms", "--version"], cwd=wheels, text=True)
        if f"Python {version}." not in shown or "compiled" not in shown:
            sys.exit(f"{wheel}: pyjms --version says {shown}")
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.endswith((".so", ".pyd")):
                    archive.extract(name, TREE)
    return pythons


def run_programs(pythons: list[str]) -> int:
    """Run the programs of users with the extensions in the tree, on each Python."""
    environment = {**os.environ, "TEST_PYTHONS": os.pathsep.join(pythons)}
    pytest = [sys.executable, "-m", "pytest", "-q", "--no-header", "-m", "pythons", "-n", "auto"]
    return subprocess.run([*pytest, *USERS], check=False, cwd=TREE, env=environment).returncode


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
    parser.add_argument(
        "--quick", action="store_true", help="not optimized, two cases of each test, no rates"
    )
    parser.add_argument("--keep", action="store_true", help="use the tree that is there already")
    parser.add_argument(
        "--pythons", action="store_true", help="the other Pythons of this machine, too"
    )
    arguments = parser.parse_args()
    if c_compiler() is None or importlib.util.find_spec("mypyc") is None:
        print("make compiled: skipped, since there is no C compiler (or no mypy) here")
        return
    modules = sources()
    if not (arguments.keep and (TREE / "pyproject.toml").exists()):
        start = time.monotonic()
        install_wheel(quick=arguments.quick)
        print(f"{len(modules)} modules compiled in {time.monotonic() - start:.0f} s")
    prove_compiled(modules)
    failed = run_tests(quick=arguments.quick)
    if arguments.pythons:
        others = install_others(quick=arguments.quick)
        failed = run_programs(list(others.values())) or failed
    if failed:
        sys.exit(failed)
    if not arguments.quick:
        print_rates()


if __name__ == "__main__":
    main()
