"""`python -m pyjms_broker` is `pyjms broker start`."""

from __future__ import annotations

import sys

from pyjms_broker.cli.main import app


def main() -> None:
    """Run the command line; `start` need not be written."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0].startswith("-"):
        arguments = ["start", *arguments]
    app(arguments, prog_name="python -m pyjms_broker")


if __name__ == "__main__":
    main()
