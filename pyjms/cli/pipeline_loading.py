"""From `MODULE`, `MODULE:function` and YAML files on the command line to pipelines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pyjms.cli.loading import load_module
from pyjms.errors import ConfigurationException
from pyjms.settings import PyjmsSettings, load_settings
from pyjms.spark.pipeline.definition.collection import choose_pipelines, gather_pipelines
from pyjms.spark.pipeline.definition.decorator import find_pipelines, pipeline_marks
from pyjms.spark.pipeline.definition.pipeline import Pipeline

__all__ = ["LoadedPipelines", "inspect_pipelines", "load_pipelines"]

_NO_SESSION: Final = "SESSION_OR_CONTEXT_NOT_EXISTS"
_YAML: Final = (".yaml", ".yml")


class LoadedPipelines(NamedTuple):
    """Pipelines, the settings that hold for them, and why others cannot be made."""

    settings: PyjmsSettings
    pipelines: list[Pipeline]
    problems: list[str]


def load_pipelines(
    targets: Sequence[str], config: Path | None, only: Sequence[str] = ()
) -> LoadedPipelines:
    """Import the modules, read the settings, and return the pipelines of both.

    A YAML file takes the place of `--config`. Without targets there are the settings' pipelines.

    Raises:
        ConfigurationException: something is not there, or wrong.
    """
    loaded = inspect_pipelines(targets, config, only)
    if loaded.problems:
        raise ConfigurationException("\n".join(loaded.problems))
    return loaded


def inspect_pipelines(
    targets: Sequence[str], config: Path | None, only: Sequence[str] = ()
) -> LoadedPipelines:
    """Do as `load_pipelines` does, but return why some cannot be made beside those that can.

    Raises:
        ConfigurationException: a module or the settings cannot be read, or there is nothing.
    """
    files = [Path(target) for target in targets if target.endswith(_YAML)]
    if len(files) + (config is not None) > 1:
        raise ConfigurationException(
            "A YAML file among the targets is the configuration, and there is more than one",
            hint="put the pipelines into one file",
        )
    modules = [target for target in targets if not target.endswith(_YAML)]
    settings = load_settings(files[0] if files else config)
    marked = [pipeline for target in modules for pipeline in _marked(target)]
    are_all = not only and not any(":" in target for target in modules)
    pipelines, problems = gather_pipelines(settings, marked, are_all=are_all)
    if problems:  # a name that is not among the others may be one of these
        pipelines = [pipeline for pipeline in pipelines if not only or pipeline.name in only]
    else:
        pipelines = choose_pipelines(pipelines, only)
    return LoadedPipelines(settings, pipelines, problems)


def _marked(target: str) -> list[Pipeline]:
    name, _, function = target.partition(":")
    _show_to_workers(Path.cwd())
    try:
        module = load_module(name)
    except Exception as error:
        if _NO_SESSION not in str(error):
            raise
        raise ConfigurationException(
            f"{name} needs a Spark session while it is imported, and there is none yet",
            hint="a type by its text needs one: write F.udf(f, StringType()), or make it inside "
            "the function",
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


def _show_to_workers(folder: Path) -> None:
    """Have Spark's Python workers, other processes, find the modules that are found here."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(folder) not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in (str(folder), *paths) if path)
