"""The command line in tests: `pyjms`, at a broker's URL, and `pyjms_broker` in this process."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner, Result

from pyjms.cli.main import app, mount_commands, only_named
from pyjms_broker.cli.main import app as broker_app

__all__ = ["Result", "objects", "pyjms", "pyjms_broker_command"]

NO_BROKER = {"PYJMS_PASSWORD": None, "PYJMS_USER": None, "PYJMS_URL": None}


@cache
def _pyjms() -> Any:
    mount_commands(app)
    return get_command(app)


@cache
def _pyjms_broker() -> Any:
    return get_command(only_named(broker_app, ()))


def _run(
    command: Any,
    words: Sequence[str],
    environment: Mapping[str, str | None],
    stdin: str | bytes | None = None,
) -> Result:
    """Run a command as typer's runner does, which would make all commands again each time."""
    runner = CliRunner()
    with runner.isolation(stdin, environment) as (stdout, stderr, output):
        code: object = 0
        try:
            command.main(words, runner.get_default_prog_name(command))
        except SystemExit as ended:
            code = ended.code
            if isinstance(code, str):
                print(code)
                code = 1
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
        assert isinstance(code, int)
        texts = stdout.getvalue(), stderr.getvalue(), output.getvalue()
        return Result(runner, *texts, None, code, None)


def pyjms(*arguments: str, stdin: str | bytes | None = None, **environment: str | None) -> Result:
    """Run `pyjms ARGUMENTS`; `environment` overrides variables, None removes one."""
    return _run(_pyjms(), arguments, {**NO_BROKER, **environment}, stdin)


def pyjms_broker_command(*arguments: object) -> Result:
    """Run `python -m pyjms_broker ARGUMENTS` in this process."""
    return _run(_pyjms_broker(), [str(each) for each in arguments], {})


def objects(result: Result) -> list[dict[str, Any]]:
    """Return the JSON objects that a successful command has printed, one per line."""
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]
