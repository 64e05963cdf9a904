"""Loading pipelines from `MODULE`, `MODULE:function` and YAML files on the command line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pyjms.cli.loading import importing, load_module, split_target
from pyjms.configuration.document import Problems
from pyjms.errors import ConfigurationException
from pyjms.settings import PyjmsSettings, load_settings
from pyjms.settings.loading import collect_problems
from pyjms.spark.checks import add_problems, choose_pipelines, gather_pipelines
from pyjms.spark.pipeline import Pipeline, find_pipelines, pipeline_marks

_NO_SESSION: Final = "SESSION_OR_CONTEXT_NOT_EXISTS"
_YAML: Final = (".yaml", ".yml")


class LoadedPipelines(NamedTuple):
    """The valid pipelines, their settings, and the problems of the others."""

    settings: PyjmsSettings
    pipelines: list[Pipeline]
    problems: list[str]


def load_pipelines(
    targets: Sequence[str], config: Path | None, only: Sequence[str] = ()
) -> LoadedPipelines:
    """Import the modules, read the settings, and return the pipelines of both.

    A YAML file replaces `--config`. Without targets, the pipelines are those of the settings.
    """
    modules, settings = _targets(targets, config)
    marked = [pipeline for target in modules for pipeline in _find_marked(target)]
    loaded = _gather(settings, marked, modules, only)
    if loaded.problems:
        raise ConfigurationException("\n".join(loaded.problems))
    return loaded


def check_pipelines(
    targets: Sequence[str], config: Path | None, only: Sequence[str], problems: Problems
) -> list[Pipeline]:
    """Load pipelines as `load_pipelines` does; add all problems instead of raising some."""
    marked: list[Pipeline] = []
    valid: list[Pipeline] = []
    with collect_problems(problems), problems.caught():
        modules, settings = _targets(targets, config)
        known = len(problems.found)
        for target in modules:
            with importing(target, problems):
                marked += _find_marked(target)
        are_all = len(problems.found) == known
        loaded = _gather(settings, marked, modules, only, are_all=are_all)
        add_problems(settings, loaded.pipelines, loaded.problems, problems)
        valid.extend(loaded.pipelines)
    return valid


def _targets(targets: Sequence[str], config: Path | None) -> tuple[list[str], PyjmsSettings]:
    """Return the modules among the targets, and the settings."""
    files = [Path(target) for target in targets if target.endswith(_YAML)]
    if len(files) + (config is not None) > 1:
        raise ConfigurationException(
            "There is more than one settings file: a YAML file among the targets is one, too",
            hint="put the pipelines into one file",
        )
    modules = [target for target in targets if not target.endswith(_YAML)]
    return modules, load_settings(files[0] if files else config)


def _gather(
    settings: PyjmsSettings,
    marked: Sequence[Pipeline],
    modules: Sequence[str],
    only: Sequence[str],
    *,
    are_all: bool = True,
) -> LoadedPipelines:
    are_all = are_all and not only and not any(":" in target for target in modules)
    pipelines, problems = gather_pipelines(settings, marked, are_all=are_all)
    if problems:  # an unknown name may be one of the invalid pipelines
        pipelines = [pipeline for pipeline in pipelines if not only or pipeline.name in only]
    else:
        pipelines = choose_pipelines(pipelines, only)
    return LoadedPipelines(settings, pipelines, problems)


def _find_marked(target: str) -> list[Pipeline]:
    name, function = split_target(target)
    _export_to_workers(Path.cwd())
    try:
        module = load_module(name)
    except Exception as error:
        if _NO_SESSION not in str(error):
            raise
        raise ConfigurationException(
            f"{name} needs a Spark session while it is imported, but there is none yet",
            hint="a type given as a text needs one: write F.udf(f, StringType()), or create it "
            "inside the function",
        ) from error
    if not function:
        return find_pipelines(module)
    found = pipeline_marks(getattr(module, function, None))
    if not found:
        names = [pipeline.name for pipeline in find_pipelines(module)]
        raise ConfigurationException(
            f"{name} has no pipeline function {function!r}",
            hint=f"its pipelines are {', '.join(names) or 'none'}",
        )
    return list(found)


def _export_to_workers(folder: Path) -> None:
    """Let Spark's Python workers, which are other processes, import modules from a folder."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(folder) not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in (str(folder), *paths) if path)
