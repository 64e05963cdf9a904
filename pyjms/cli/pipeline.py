"""`pyjms pipeline`: run, list and check Spark pipelines, and show their status.

Only `run` starts Spark; `status` reads the files next to the checkpoints.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pyjms.cli.configuration import ConfigOption
from pyjms.cli.terminal import table
from pyjms.errors import ConfigurationException

if TYPE_CHECKING:
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
_COLUMNS = ("PIPELINE", "STATE", "BATCH", "ROWS/S", "BACKLOG", "DEAD", "RESTARTS", "AGE", "REASON")


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
    from pyjms.cli.pipeline_loading import load_pipelines
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
    from pyjms.cli.pipeline_loading import load_pipelines
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
    from pyjms.cli.pipeline_loading import check_pipelines
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
