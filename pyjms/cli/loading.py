"""Loading of applications: from `MODULE[:APP]` on the command line to a JmsApplication.

MODULE is a dotted name (`shop.orders`) or the path of a Python file (`shop/orders.py`). A path
inside the current directory is translated to a dotted name, so that the module is the same one that
other modules import; otherwise the file's own directory is added to the search path.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

import typer

from pyjms.app.application import JmsApplication
from pyjms.cli.terminal import UserCodeFailed
from pyjms.configuration.document import Problems
from pyjms.errors import ConfigurationException, JMSException
from pyjms.settings.loading import collect_problems

if TYPE_CHECKING:
    from pyjms.settings import PyjmsSettings
    from pyjms.spark.pipeline import Pipeline


def split_target(target: str) -> tuple[str, str]:
    """Return the dotted name of MODULE, and APP or an empty text."""
    module, _, name = target.partition(":")
    if target[1:3] in {":\\", ":/"}:  # a Windows drive
        module, _, name = target[2:].partition(":")
        module = target[:2] + module
    if not module.endswith(".py") and "/" not in module and "\\" not in module:
        return module, name
    path = Path(module).resolve()
    if not path.is_file():
        raise ConfigurationException(
            f"There is no file {module!r}",
            hint="give the path of a Python file, or a module as in an import statement",
        )
    folder, parts = path.parent, [path.stem]
    here = Path.cwd()
    if path.is_relative_to(here):
        parts = list(path.relative_to(here).with_suffix("").parts)
        folder = here
    if not all(part.isidentifier() for part in parts):
        folder, parts = path.parent, [path.stem]
    if not parts[-1].isidentifier():
        raise ConfigurationException(
            f"{module!r} cannot be imported: {path.stem!r} is not a Python name",
            hint="rename the file",
        )
    _search_first(folder)
    return ".".join(parts), name


def load_application(target: str, config: Path | None) -> JmsApplication:
    """Import MODULE and return APP, its only JmsApplication, or a new one with its handlers."""
    module_name, name = split_target(target)
    module = load_module(module_name)
    apps = {k: v for k, v in vars(module).items() if isinstance(v, JmsApplication)}
    if name:
        if name not in apps:
            raise ConfigurationException(
                f"{module_name} has no JmsApplication {name!r}",
                hint=f"it has {', '.join(apps) or 'none'}",
            )
        return _own(apps[name], config)
    if len(apps) > 1:
        raise ConfigurationException(
            f"{module_name} has several applications",
            hint=f"name one of them: {', '.join(f'{module_name}:{app}' for app in apps)}",
        )
    if apps:
        return _own(next(iter(apps.values())), config)
    return JmsApplication(module, config=config)


def pipelines_of(target: str) -> list[Pipeline]:
    """Return the decorated pipelines of an imported module."""
    if "pyjms.spark.pipeline" not in sys.modules:
        return []  # none can have been defined
    from pyjms.spark.pipeline import find_pipelines

    return find_pipelines(sys.modules[split_target(target)[0]])


def load_module(name: str) -> ModuleType:
    """Import a module from the current folder or from Python's search path."""
    _search_first(Path.cwd())
    try:
        return importlib.import_module(name)
    except JMSException:
        raise
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{name}.".startswith(f"{missing}."):
            raise ConfigurationException(
                f"There is no module {name!r}",
                hint="name it as in an import statement, relative to the current folder, or give "
                "the path of its file",
            ) from error
        raise UserCodeFailed(_report_of(error)) from error


def _search_first(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _report_of(error: Exception) -> str:
    """Return the traceback without the frames of this program and of Python's import system."""
    frame = error.__traceback__
    ours = {__file__, importlib.__file__}
    while frame is not None and (
        frame.tb_frame.f_code.co_filename in ours
        or frame.tb_frame.f_code.co_filename.startswith("<frozen importlib")
    ):
        frame = frame.tb_next
    return "".join(traceback.format_exception(type(error), error, frame))


def _own(application: JmsApplication, config: Path | None) -> JmsApplication:
    if config is not None:
        raise ConfigurationException(
            "--config cannot be used with an application that the module creates itself",
            hint="pass config= to JmsApplication, or set PYJMS_CONFIG",
        )
    return application


_PACKAGE: Final = str(Path(__file__).resolve().parents[1]) + os.sep
_NOT_OF_THE_USER: Final = (_PACKAGE, "<frozen ", str(Path(importlib.__file__).parent))
_INSTALLED: Final = f"{os.sep}site-packages{os.sep}"


def check_target(target: str | None, config: Path | None) -> Problems:
    """Return all problems of MODULE[:APP] and its settings; without it, only of the settings."""
    problems = Problems()
    if target is not None and Path(target).is_dir():
        with problems.caught():
            _check_folder(Path(target), config, problems)
        return problems
    application = None
    with collect_problems(problems):
        if target is not None:
            with importing(target, problems):
                application = load_application(target, config)
        settings_alone = JmsApplication(config=config) if application is None else None
    if application is not None and target is not None:
        _check_application(application, [target], problems)
    elif settings_alone is not None:
        settings_alone.wiring.find_settings_problems(problems)
    return problems


_MARKS: Final = re.compile(
    r"^\s*@(\w+\.)*(jms_listener|pipeline)\b|\bJmsApplication\(", re.MULTILINE
)
_NOT_AN_APPLICATION: Final = frozenset(
    ("tests", "test", "venv", "env", "node_modules", "build", "dist", "site-packages")
)


def _check_folder(folder: Path, config: Path | None, problems: Problems) -> None:
    """Check the modules below a folder: their applications, or one of all their handlers.

    A module that cannot be imported is a problem, and the others are checked.
    """
    names: list[str] = []
    for file in _marked_files(folder):
        with collect_problems(problems), importing(str(file), problems):
            names.append(split_target(str(file))[0])
            load_module(names[-1])
    modules = {name: sys.modules[name] for name in names if name in sys.modules}
    made = [
        each
        for module in modules.values()
        for each in vars(module).values()
        if isinstance(each, JmsApplication)
    ]
    for application in dict.fromkeys(made):
        _check_application(application, [*modules], problems)
    if not made:
        with collect_problems(problems):
            application = JmsApplication(*modules.values(), config=config)
        if modules:
            _check_application(application, [*modules], problems)
        else:
            application.wiring.find_settings_problems(problems)


def _marked_files(folder: Path) -> list[Path]:
    """Return the Python files with handlers, pipelines or applications, but no tests.

    Raises:
        ConfigurationException: there are none.
    """
    found = []
    for file in sorted(folder.rglob("*.py")):
        inner = file.relative_to(folder).parts
        is_left_out = any(part.startswith(".") or part in _NOT_AN_APPLICATION for part in inner)
        is_test = file.name.startswith("test_") or file.stem in ("conftest", "setup")
        if not is_left_out and not is_test and _MARKS.search(file.read_text("utf-8", "replace")):
            found.append(file)
    if not found:
        raise ConfigurationException(
            f"There are no listeners, pipelines or applications in {folder}",
            hint="name a module, or the folder with the modules",
        )
    return found


def _check_application(
    application: JmsApplication, modules: Sequence[str], problems: Problems
) -> None:
    marked = [pipeline for module in modules for pipeline in pipelines_of(module)]
    if not marked:
        with problems.caught():
            application.wiring.require_work()
    application.wiring.find(problems)
    _check_pipelines(marked, application.settings, problems)


def _check_pipelines(
    marked: Sequence[Pipeline], settings: PyjmsSettings, problems: Problems
) -> None:
    if not marked and not settings.pipelines:
        return
    from pyjms.spark.checks import add_problems, gather_pipelines

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
        problems.add(_error_in_user_code(cause, ConfigurationException(text)))
    except JMSException as error:
        problems.add(_error_in_user_code(error, error))


def _error_in_user_code(cause: BaseException, error: JMSException) -> ConfigurationException:
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
