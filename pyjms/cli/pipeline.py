"""`pyjms pipeline`: run, list and check Spark pipelines, and show their status.

Only `run` starts Spark; `status` reads the files next to the checkpoints.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from pyjms.cli.configuration import ConfigOption
from pyjms.cli.terminal import table
from pyjms.errors import ConfigurationException

if TYPE_CHECKING:
    from pyjms.configuration.document import Problems
    from pyjms.settings import PyjmsSettings
    from pyjms.spark.pipeline import Pipeline
    from pyjms.spark.reports import PipelineStatus


pipeline_app: Final = typer.Typer(help="Run and inspect Spark pipelines.", no_args_is_help=True)

TargetsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TARGET]...",
        help="MODULE, MODULE:function, or a YAML file with SQL pipelines; by default the pipelines "
        "of application.yaml.",
    ),
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="NAME", help="Use only this pipeline; may be repeated."),
]
_COLUMNS = (
    *("PIPELINE", "STATE", "BATCH", "ROWS/S", "BACKLOG", "OLDEST"),
    *("DEAD", "RESTARTS", "AGE", "REASON"),
)


@pipeline_app.command()
def run(
    targets: TargetsArgument = None,
    config: ConfigOption = None,
    only: OnlyOption = None,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Process what is available now, then exit; for scheduled runs."
        ),
    ] = False,
) -> None:
    """Run pipelines until SIGINT or SIGTERM; batches in progress are finished.

    A second signal, at least half a second later, ends the process at once. The exit code is 1 if a
    pipeline failed for good.
    """
    from pyjms.cli.logs import LogOutput
    from pyjms.spark.run import PipelineRunner
    from pyjms.spark.session import check_pyspark

    check_pyspark()
    loaded = load_pipelines(targets or (), config, only or ())
    settings = loaded.settings.logging
    LogOutput(levels={"py4j": "WARNING", **settings.levels}).apply(settings)
    if not PipelineRunner(loaded.settings, loaded.pipelines).run(once):
        sys.exit(1)


@pipeline_app.command("list")
def list_pipelines(
    targets: TargetsArgument = None, config: ConfigOption = None, only: OnlyOption = None
) -> None:
    """List pipelines: name, source, sink, dead letters, trigger, output mode, exactly_once."""
    from pyjms.spark.session import check_pyspark

    check_pyspark()
    for pipeline in load_pipelines(targets or (), config, only or ()).pipelines:
        source = ", ".join(pipeline.sources.values())
        typer.echo(
            f"{pipeline.name}\t{source}\t{pipeline.sink}\t{pipeline.dead_letter or '-'}\t"
            f"{pipeline.trigger:g}s\t{pipeline.output_mode}\t{pipeline.exactly_once}"
        )


@pipeline_app.command()
def check(
    targets: TargetsArgument = None, config: ConfigOption = None, only: OnlyOption = None
) -> None:
    """Check whether pipelines can run, without starting Spark, and report all problems at once.

    Prints a line for each problem, with file and line, and their number; the exit code is then 1.
    SQL and the bodies of functions are not checked: Spark does that when a pipeline starts.
    """
    from pyjms.cli.loading import report
    from pyjms.configuration.document import Problems
    from pyjms.spark.session import check_pyspark

    check_pyspark()
    problems = Problems()
    pipelines = check_pipelines(targets or (), config, only or (), problems)
    report(problems)
    for pipeline in pipelines:
        typer.echo(f"{pipeline.name}: no problems found")


@pipeline_app.command()
def status(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Show only this pipeline.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Show the status of pipelines, from the files next to their checkpoints.

    A pipeline is `stale` if its process ended without reporting it. With NAME, the exit code is 1
    if the pipeline has failed or is stale.
    """
    from pyjms.runtime import clock as _clock
    from pyjms.settings import load_settings
    from pyjms.spark.reports import read_statuses

    root = Path(load_settings(config).spark.checkpoint_root)
    found = [s for s in read_statuses(root) if name is None or s.pipeline == name]
    if not found:
        raise ConfigurationException(
            f"No pipeline{'' if name is None else f' {name}'} has run with checkpoints in {root}",
            hint="check spark.checkpoint_root in the settings",
        )
    now = _clock.time_ms()
    table(_COLUMNS, [_cells(status, now) for status in found])
    if name is not None and (found[0].state == "failed" or found[0].is_stale(now)):
        sys.exit(1)


def _cells(status: PipelineStatus, now: int) -> tuple[str, ...]:
    is_stale = status.is_stale(now)
    return (
        status.pipeline,
        "stale" if is_stale else status.state,
        "-" if status.batch is None else str(status.batch),
        f"{status.rows_per_second:g}",
        "-" if status.backlog is None else str(status.backlog),
        "-" if status.oldest is None else _age(now - status.oldest),
        str(status.dead_letters),
        str(status.restarts),
        _age(now - status.updated),
        f"was {status.state}, but its process has ended" if is_stale else status.reason or "-",
    )


def _age(milliseconds: int) -> str:
    seconds = max(0, milliseconds // 1000)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


# --- Loading pipelines from `MODULE`, `MODULE:function` and YAML files.

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
    from pyjms.cli.loading import importing
    from pyjms.settings.loading import collect_problems
    from pyjms.spark.checks import add_problems

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
    from pyjms.settings import load_settings

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
    from pyjms.spark.checks import choose_pipelines, gather_pipelines

    are_all = are_all and not only and not any(":" in target for target in modules)
    pipelines, problems = gather_pipelines(settings, marked, are_all=are_all)
    if problems:  # an unknown name may be one of the invalid pipelines
        pipelines = [pipeline for pipeline in pipelines if not only or pipeline.name in only]
    else:
        pipelines = choose_pipelines(pipelines, only)
    return LoadedPipelines(settings, pipelines, problems)


def _find_marked(target: str) -> list[Pipeline]:
    from pyjms.cli.loading import load_module, split_target
    from pyjms.spark.pipeline import find_pipelines, pipeline_marks

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
