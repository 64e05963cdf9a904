"""`python -m pyjms` is the script `pyjms`."""

from __future__ import annotations

from pyjms.cli.main import main

if __name__ == "__main__":
    main()
