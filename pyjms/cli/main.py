"""`pyjms`: the command line. Runs applications, checks them, shows their configuration.

Commands of other packages, `pyjms broker` among them, are added through entry points (see
`pyjms.cli.extensions`). Commands import their modules when they run, so that `--help` is fast.
Every error of pyjms is one line on standard error and exit code 1; an invalid command line is exit
code 2.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from pyjms._logger import get_logger
from pyjms.cli.configuration import ConfigOption, ProfilesOption, config_app
from pyjms.cli.documents import docs
from pyjms.cli.extensions import mount_commands, only_named
from pyjms.cli.logs import LogFormat
from pyjms.cli.messages.commands import browse, receive, send
from pyjms.cli.messages.outbox import outbox_app
from pyjms.cli.messages.redriving import redrive
from pyjms.cli.pipeline import pipeline_app
from pyjms.cli.terminal import json_line
from pyjms.cli.workers.arguments import WORKER_OPTION

__all__ = ["app", "main"]

logger: Final = get_logger(__name__)

app: Final = typer.Typer(
    name="pyjms",
    help="Declarative messaging: run listeners and pipelines, send and receive, run a broker.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(config_app, name="config")
app.add_typer(pipeline_app, name="pipeline")
app.add_typer(outbox_app, name="outbox")
for command in (send, receive, browse, redrive, docs):
    app.command()(command)

TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODULE[:APP]", help="The application: a module, or a path to its file."
    ),
]


CheckedArgument = Annotated[
    str | None, typer.Argument(metavar="[MODULE[:APP]]", help="The application to check.")
]


def _read_duration(text: str) -> float:
    from pyjms._yaml.durations import read_duration

    try:
        return read_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


ShutdownOption = Annotated[
    float | None,
    typer.Option(
        "--shutdown-timeout",
        parser=_read_duration,
        metavar="DURATION",
        help="Time that running handlers get to finish during shutdown, such as 10s. Default: "
        "lifecycle.timeout_per_shutdown_phase, 20s.",
    ),
]

WorkersOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Run the application in N processes, and replace processes that exit.",
    ),
]
ReloadOption = Annotated[
    bool, typer.Option("--reload", help="Restart when code or settings change. For development.")
]
ReloadFolderOption = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FOLDER",
        help="A directory to watch with --reload; may be repeated. Default: the current one.",
    ),
]
HealthPortOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        metavar="PORT",
        help="Serve /health/live, /health/ready, /health/started and /metrics on this port; with "
        "--workers, the first worker uses this port, the second the next one, and so on. Default: "
        "health.port.",
    ),
]
LogFormatOption = Annotated[
    LogFormat | None, typer.Option(help="The format of log lines. Default: logging.format, text.")
]
TracebacksOption = Annotated[
    bool,
    typer.Option(
        "--tracebacks", help="Log the first failure of each message with the handler's traceback."
    ),
]
AsWorkerOption = Annotated[str | None, typer.Option(WORKER_OPTION, hidden=True)]


def _print_version(wanted: bool) -> None:
    if wanted:
        import platform
        from importlib.metadata import version

        from pyjms._distribution import DISTRIBUTION

        typer.echo(f"{DISTRIBUTION} {version(DISTRIBUTION)} (Python {platform.python_version()})")
        raise typer.Exit


@app.callback()
def pyjms(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Declarative messaging: run listeners and pipelines, send and receive, run a broker."""


@app.command()
def run(
    target: TargetArgument,
    config: ConfigOption = None,
    profiles: ProfilesOption = None,
    shutdown_timeout: ShutdownOption = None,
    workers: WorkersOption = None,
    reload: ReloadOption = False,
    reload_dir: ReloadFolderOption = None,
    health_port: HealthPortOption = None,
    log_format: LogFormatOption = None,
    tracebacks: TracebacksOption = False,
    as_worker: AsWorkerOption = None,
) -> None:
    """Run an application until SIGINT or SIGTERM.

    APP is a JmsApplication in MODULE. Default: the only application in MODULE, or a new one with
    the listeners and hooks defined in MODULE. SIGUSR1 pauses all listeners, SIGUSR2 resumes them.
    With --workers, SIGHUP restarts one process after the other, SIGTTIN adds a process and
    SIGTTOU removes one.
    """
    del profiles  # the option's callback has chosen them
    if as_worker is None and (workers is not None or reload):
        from pyjms.cli.workers.running import supervise

        supervise(workers or 1, reload_dir if reload else None, reload=reload)
    from pyjms.cli.loading import load_application, pipelines_of
    from pyjms.cli.logs import configure_logging

    application = load_application(target, config)
    own = application.settings.logging
    log_format = log_format or own.format
    configure_logging(own.levels, log_format)
    application.observation.log_with(
        context=log_format == "json", tracebacks=tracebacks or own.tracebacks
    )
    if shutdown_timeout is not None:
        application.stop_timeout = shutdown_timeout
    if health_port is not None:
        application.observation.port = health_port
    names = [pipeline.name for pipeline in pipelines_of(target)]
    if names:
        logger.info(
            "%s also has pipelines (%s): `pyjms pipeline run %s` runs them",
            target,
            ", ".join(names),
            target,
        )
    application.require_work()
    if as_worker is None:
        application.run()
    else:
        from pyjms.cli.workers.arguments import WorkerArguments
        from pyjms.cli.workers.child import run_worker

        run_worker(application, WorkerArguments.from_text(as_worker))


@app.command()
def check(
    target: CheckedArgument = None,
    config: ConfigOption = None,
    profiles: ProfilesOption = None,
) -> None:
    """Check the settings and the handlers of MODULE, and report all problems at once.

    Prints a line for each problem, with file and line, and their number; the exit code is then 1.
    """
    del profiles  # the option's callback has chosen them
    from pyjms.cli.checking import check_target, report

    report(check_target(target, config))
    typer.echo(f"No problems found in {'the settings' if target is None else target}.")


@app.command()
def listeners(
    target: TargetArgument,
    config: ConfigOption = None,
    profiles: ProfilesOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per listener, with more details.")
    ] = False,
) -> None:
    """List the listeners of an application: id, destination, concurrency, selector."""
    del profiles  # the option's callback has chosen them
    from pyjms.cli.loading import load_application

    for endpoint in load_application(target, config).endpoints():
        if as_json:
            json_line(
                {
                    "id": endpoint.id,
                    "destination": endpoint.destination,
                    "concurrency": endpoint.concurrency,
                    "selector": endpoint.selector,
                    "subscription": endpoint.subscription,
                }
            )
            continue
        typer.echo(
            f"{endpoint.id or '-'}\t{endpoint.destination}\t{endpoint.concurrency or '-'}\t"
            f"{endpoint.selector or '-'}"
        )


def main() -> None:
    """Run the command line. Entry point of the script `pyjms`."""
    from pyjms.cli.user_code import UserCodeFailed
    from pyjms.errors import JMSException

    mount_commands(app)
    try:
        only_named(app, sys.argv[1:])(prog_name="pyjms")
    except UserCodeFailed as failed:
        typer.echo(failed.report, err=True, nl=False)
        sys.exit(1)
    except JMSException as error:
        for line in str(error).splitlines():
            typer.echo(f"pyjms: {line}", err=True)
        sys.exit(1)
