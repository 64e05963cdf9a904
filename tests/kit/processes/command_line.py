"""The command line in tests: `pyjms`, at a broker's URL, and `pyjms_broker` in this process."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner

from pyjms.cli.main import app, mount_commands, only_named
from pyjms_broker.cli.main import app as broker_app

__all__ = ["Result", "objects", "pyjms", "pyjms_broker_command"]

Result = Any  # of the runner: exit_code, stdout, stderr

_mounted: set[str] = set()


def pyjms(*arguments: str, stdin: str | bytes | None = None, **environment: str | None) -> Result:
    """Run `pyjms ARGUMENTS`; `environment` overrides variables, None removes one."""
    if not _mounted:
        mount_commands(app)
        _mounted.add("done")
    return CliRunner(env={"PYJMS_PASSWORD": None, "PYJMS_USER": None, "PYJMS_URL": None}).invoke(
        only_named(app, arguments), arguments, input=stdin, env=environment, catch_exceptions=False
    )


def pyjms_broker_command(*arguments: object) -> Result:
    """Run `python -m pyjms_broker ARGUMENTS` in this process."""
    words = [str(each) for each in arguments]
    return CliRunner().invoke(only_named(broker_app, words), words)  # all: 35 ms more


def objects(result: Result) -> list[dict[str, Any]]:
    """Return the JSON objects that a successful command has printed, one per line."""
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]
