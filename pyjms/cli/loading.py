"""Loading of applications: from `MODULE[:APP]...` on the command line to a JmsApplication.

MODULE is a dotted name (`shop.orders`) or the path of a Python file (`shop/orders.py`). A path
inside the current directory is translated to a dotted name, so that the module is the same one that
other modules import; otherwise the file's own directory is added to the search path.

A package stands for itself and all modules below it, but tests and `__main__`; if it creates a
JmsApplication itself, only for that. A folder that is no package stands for the files below it
whose text has a listener, a pipeline or an application, because its other files may be scripts.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
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
    if (path / _INIT).is_file():
        path = path.with_name(f"{path.name}.py")  # as if the package were a file
    elif not path.is_file():
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


Guard = Callable[[str], AbstractContextManager[None]]
"""Returns what surrounds the import of the module of a name; it may keep errors."""


def load_application(targets: Sequence[str], config: Path | None) -> JmsApplication:
    """Import the modules of the targets; return their application.

    That is APP, or the only JmsApplication of a target, or a new one with all their handlers.
    """
    return _application_of(targets, import_modules(targets), config)


def _application_of(
    targets: Sequence[str], modules: Sequence[ModuleType], config: Path | None
) -> JmsApplication:
    name = next(
        filter(None, (split_target(each)[1] for each in targets if not _is_folder(each))), ""
    )
    if name and len(targets) == 1:
        own = vars(modules[0])
        if not isinstance(own.get(name), JmsApplication):
            raise ConfigurationException(
                f"{modules[0].__name__} has no JmsApplication {name!r}",
                hint=f"it has {', '.join(_names_of_applications(modules[:1])) or 'none'}",
            )
        return _own(own[name], config)
    made = _applications_in(modules)
    if not made:
        return JmsApplication(*modules, config=config)
    names = _names_of_applications(modules)
    if len(targets) > 1:
        raise ConfigurationException(
            f"{names[0]} is an application: it runs alone, without the other modules' listeners",
            hint="name only it, or give it the other modules: JmsApplication(orders, invoices)",
        )
    if len(made) > 1:
        raise ConfigurationException(
            f"{targets[0]} has several applications", hint=f"name one of them: {', '.join(names)}"
        )
    return _own(made[0], config)


def _applications_in(modules: Iterable[ModuleType]) -> list[JmsApplication]:
    members = (member for module in modules for member in vars(module).values())
    return list(dict.fromkeys(each for each in members if isinstance(each, JmsApplication)))


def _names_of_applications(modules: Iterable[ModuleType]) -> list[str]:
    """Return MODULE:APP of each application, once."""
    names: dict[JmsApplication, str] = {}
    for module in modules:
        for name, member in vars(module).items():
            if isinstance(member, JmsApplication):
                names.setdefault(member, f"{module.__name__}:{name}")
    return list(names.values())


def import_modules(
    targets: Iterable[str], guard: Guard = lambda _: nullcontext()
) -> list[ModuleType]:
    """Import the modules for which the targets stand, each once."""
    modules: list[ModuleType] = []
    for target in targets:
        with guard(target):
            if _is_folder(target):
                for file in _marked_files(Path(target)):
                    with guard(str(file)):
                        modules.append(load_module(split_target(str(file))[0]))
                continue
            name, application = split_target(target)
            module = load_module(name)
            modules.append(module)
            if not application and not _applications_in((module,)):
                modules += _import_below(module, guard)
    return list(dict.fromkeys(modules))


def _import_below(package: ModuleType, guard: Guard) -> Iterator[ModuleType]:
    """Import the modules of a package and its subpackages, but tests; of a module, none."""
    for found in pkgutil.iter_modules(getattr(package, "__path__", ()), f"{package.__name__}."):
        last = found.name.rpartition(".")[2]
        if last == "__main__" or last in _NOT_AN_APPLICATION or _is_test(last):
            continue
        with guard(found.name):
            module = load_module(found.name)
            yield module
            yield from _import_below(module, guard)


def _is_folder(target: str) -> bool:
    """Return whether a target is a folder that is no package, and no module has its name."""
    path = Path(target)
    is_module = path.with_name(f"{path.name}.py").is_file() if path.name else False
    return path.is_dir() and not (path / _INIT).is_file() and not is_module


def _is_test(stem: str) -> bool:
    return stem.startswith("test_") or stem in ("conftest", "setup")


def pipelines_in(modules: Iterable[ModuleType]) -> list[Pipeline]:
    """Return the decorated pipelines of imported modules."""
    if "pyjms.spark.pipeline" not in sys.modules:
        return []  # none can have been defined
    from pyjms.spark.pipeline import find_pipelines

    return [pipeline for module in modules for pipeline in find_pipelines(module)]


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


def check_targets(targets: Sequence[str], config: Path | None) -> Problems:
    """Return all problems of modules, packages and folders, and of their settings.

    A module that cannot be imported is a problem, and the others are checked; so is each
    application of a folder. Without targets, only the settings are checked.
    """
    problems = Problems()
    modules: list[ModuleType] = []
    applications: list[JmsApplication] = []
    with collect_problems(problems):
        modules += import_modules(targets, lambda target: importing(target, problems))
        if any(map(_is_folder, targets)):
            applications = _applications_in(modules)
        if modules and not applications:
            with importing(" ".join(targets), problems):
                applications = [_application_of(targets, modules, config)]
        settings_alone = None if applications else JmsApplication(config=config)
    for application in applications:
        _check_application(application, modules, problems)
    if settings_alone is not None:
        settings_alone.wiring.find_settings_problems(problems)
    return problems


_MARKS: Final = re.compile(
    r"^\s*@(\w+\.)*(jms_listener|pipeline)\b|\bJmsApplication\(", re.MULTILINE
)
_NOT_AN_APPLICATION: Final = frozenset(
    ("tests", "test", "venv", "env", "node_modules", "build", "dist", "site-packages")
)
_INIT: Final = "__init__.py"


def _marked_files(folder: Path) -> list[Path]:
    """Return the Python files with handlers, pipelines or applications, but no tests."""
    found = []
    for file in sorted(folder.rglob("*.py")):
        inner = file.relative_to(folder).parts
        is_left_out = any(part.startswith(".") or part in _NOT_AN_APPLICATION for part in inner)
        if (
            not is_left_out
            and not _is_test(file.stem)
            and _MARKS.search(file.read_text("utf-8", "replace"))
        ):
            found.append(file)
    if not found:
        raise ConfigurationException(
            f"There are no listeners, pipelines or applications in {targets_text([str(folder)])}",
            hint="name a module, or the folder with the modules",
        )
    return found


def targets_text(targets: Sequence[str]) -> str:
    """Return what was checked, for a sentence."""
    names = ["this folder" if Path(each).resolve() == Path.cwd() else each for each in targets]
    return " and ".join(names) or "the settings"


def _check_application(
    application: JmsApplication, modules: Sequence[ModuleType], problems: Problems
) -> None:
    marked = pipelines_in(modules)
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

    Without problems it prints the hints, and returns.
    """
    if not problems:
        for hint in problems.hints:
            typer.echo(f"pyjms: hint: {hint}", err=True)
        return
    found = ConfigurationException.join(problems.found).problems
    for problem in found:
        for line in str(problem).splitlines():
            typer.echo(f"pyjms: {line}", err=True)
    for sentence in dict.fromkeys(problems.unchecked):
        typer.echo(f"pyjms: not checked: {sentence}", err=True)
    typer.echo(f"pyjms: {len(found)} problem{'s' if len(found) > 1 else ''} found", err=True)
    sys.exit(1)
