"""Checks settings, handlers and pipelines: problems in one stage do not stop the others."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from pyjms._yaml import Problems
from pyjms.app import JmsApplication
from pyjms.cli.loading import load_application, pipelines_of
from pyjms.cli.user_code import UserCodeFailed
from pyjms.errors import ConfigurationException, JMSException
from pyjms.settings.sources import collect_problems

if TYPE_CHECKING:
    from pyjms.settings import PyjmsSettings

__all__ = ["check_target", "importing", "report"]

_PACKAGE: Final = str(Path(__file__).resolve().parents[1]) + os.sep
_NOT_OF_THE_USER: Final = (_PACKAGE, "<frozen ", str(Path(importlib.__file__).parent))
_INSTALLED: Final = f"{os.sep}site-packages{os.sep}"


def check_target(target: str | None, config: Path | None) -> Problems:
    """Return all problems of MODULE[:APP] and its settings; without it, only of the settings."""
    problems = Problems()
    application = None
    with collect_problems(problems):
        if target is not None:
            with importing(target, problems):
                application = load_application(target, config)
        settings_alone = JmsApplication(config=config) if application is None else None
    if application is not None and target is not None:
        _check_application(application, target, problems)
    elif settings_alone is not None:
        settings_alone.find_settings_problems(problems)
    return problems


def _check_application(application: JmsApplication, target: str, problems: Problems) -> None:
    if not pipelines_of(target):
        with problems.caught():
            application.require_work()
    application.find_problems(problems)
    _check_pipelines(target, application.settings, problems)


def _check_pipelines(target: str, settings: PyjmsSettings, problems: Problems) -> None:
    marked = pipelines_of(target)
    if not marked and not settings.pipelines:
        return
    from pyjms.spark.pipeline.definition.collection import add_problems, gather_pipelines

    pipelines, found = gather_pipelines(settings, marked, are_all=bool(marked))
    add_problems(settings, pipelines, found, problems)


@contextmanager
def importing(target: str, problems: Problems) -> Iterator[None]:
    """Add the error that prevents the import of a module, with the user's file and line."""
    try:
        yield
    except UserCodeFailed as failed:
        typer.echo(failed.report, err=True, nl=False)
        cause = failed.__cause__ or failed
        text = f"{target} cannot be imported: {type(cause).__name__}: {cause}"
        problems.add(_located(cause, ConfigurationException(text)))
    except JMSException as error:
        problems.add(_located(error, error))
    else:
        return
    problems.unchecked.append(f"handlers and pipelines of {target}: it could not be loaded")


def _located(cause: BaseException, error: JMSException) -> ConfigurationException:
    """Return an error with the last line of the user's code that led to it."""
    source, line = None, None
    if isinstance(cause, SyntaxError):
        source, line = cause.filename, cause.lineno
    else:
        for frame, number in traceback.walk_tb(cause.__traceback__):
            name = frame.f_code.co_filename
            if not name.startswith(_NOT_OF_THE_USER) and _INSTALLED not in name:
                source, line = name, number
    if source is None:
        return ConfigurationException(error.reason, hint=error.hint)
    path = os.path.relpath(source)
    source = source if path.startswith(os.pardir) else path
    return ConfigurationException(
        f"{source}:{line}: {error.reason}", source=source, line=line, hint=error.hint
    )


def report(problems: Problems) -> None:
    """Print all problems, the skipped checks, and the number of problems; exit with code 1.

    Returns if there are none.
    """
    if not problems:
        return
    found = ConfigurationException.joined(problems.found).problems
    for problem in found:
        for line in str(problem).splitlines():
            typer.echo(f"pyjms: {line}", err=True)
    for sentence in dict.fromkeys(problems.unchecked):
        typer.echo(f"pyjms: not checked: {sentence}", err=True)
    typer.echo(f"pyjms: {len(found)} problem{'s' if len(found) > 1 else ''} found", err=True)
    sys.exit(1)
