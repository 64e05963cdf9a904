"""`make pythons`: the tests that run programs of users, on every Python of this machine, in parallel.

With `--one-python-each` (make pythons EACH=--one-python-each) the versions share the programs out.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from tests.kit.processes.python_environments import OWN, ROOT, VERSIONS, prepare_all

TESTS = ("tests/integration/sync/test_scripts.py", "tests/programs")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one-python-each", action="store_true")
    arguments = parser.parse_args()
    made = prepare_all()
    absent = [version for version in VERSIONS if version not in made and version != OWN]
    print(f"Pythons: {OWN} and {len(made)} more; absent: {', '.join(absent) or 'none'}", flush=True)
    environment = {**os.environ, "TEST_PYTHONS": os.pathsep.join(made.values())}
    shared_out = ["-n", "auto", "--dist", "load", "--max-worker-restart", "0"]
    shared_out += ["--reruns", os.environ.get("RERUNS", "0"), "-rR"]
    # a guard against hanging only: beside other work in CI, each start of a program takes seconds
    shared_out += ["--timeout", "600"]
    # what failed last is not for the runs beside it: see `ALONE` in the Makefile
    shared_out += ["-p", "no:cacheprovider"]
    if arguments.one_python_each:
        shared_out += ["--one-python-each", ",".join([OWN, *made])]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "pythons", *shared_out, *TESTS]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
