"""Run `pyjms broker start` as `python -m pyjms_broker`."""

from __future__ import annotations

import sys

from pyjms.cli.main import only_named
from pyjms_broker.cli.main import app


def main() -> None:
    """Run the command line; without a command, `start`."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0].startswith("-"):
        arguments = ["start", *arguments]
    only_named(app, arguments)(arguments, prog_name="python -m pyjms_broker")


if __name__ == "__main__":
    main()
