"""Build modules with mypyc beside their sources: python -P build_extensions.py [--quick] MODULE...

The same as `python -m mypyc MODULE...`, of which a build for a test needs half the processor time:

- With `--quick` the C compiler neither optimizes nor looks for what a person should be warned of.
  Its warnings alone take more time than the rest of its work on the 350,000 lines of C.
- The process ends without releasing, one by one, the millions of objects that mypy has made.
"""

from __future__ import annotations

import argparse
import os
import sys

from mypyc.build import mypycify
from setuptools import setup

NO_WARNINGS = ("-Wno-all", "-w")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("modules", nargs="+")
    arguments = parser.parse_args()
    level = "0" if arguments.quick else "1"
    extensions = mypycify(["--strict", *arguments.modules], opt_level=level, debug_level="0")
    if arguments.quick:
        for extension in extensions:
            extension.extra_compile_args = [*extension.extra_compile_args, *NO_WARNINGS]
    setup(name="compiled", ext_modules=extensions, script_args=["build_ext", "--inplace"])
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
