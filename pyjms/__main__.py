"""Runs the command `pyjms` as `python -m pyjms`."""

from __future__ import annotations

from pyjms.cli.main import main

if __name__ == "__main__":
    main()
