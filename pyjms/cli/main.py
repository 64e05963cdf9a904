"""`pyjms`: the command line. Runs applications, checks them, shows their configuration.

Commands of other packages, `pyjms broker` among them, are added through entry
points. Commands import their modules when they run, so that `--help` is fast.
Every error of pyjms is one line on standard error and exit code 1; an invalid command line is exit
code 2.

An entry point of the groups `pyjms.cli` and `pyjms.cli.<group>` is a function (one command, its
docstring is the help) or a `typer.Typer` (a group of commands). Group `pyjms.cli` adds it to
`pyjms` itself, `pyjms.cli.broker` below `pyjms broker`, and so on for every group of commands. A
command that cannot be loaded is still listed, and calling it reports the reason; the other commands
are not affected.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer
from typer.models import CommandInfo, TyperInfo

from pyjms.cli.configuration import ConfigOption, ProfilesOption, config_app
from pyjms.cli.options import duration_option, size_option
from pyjms.cli.terminal import UserCodeFailed, json_line, table, write_whole_lines
from pyjms.cli.worker import WORKER_OPTION, WorkerArguments, run_worker
from pyjms.errors import ConfigurationException, JMSException
from pyjms.runtime.build import build_name
from pyjms.runtime.distribution import DISTRIBUTION
from pyjms.runtime.logging import LogFormat, get_logger

logger: Final = get_logger(__name__)

TargetsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="MODULE[:APP]",
        help="The application: modules, paths to their files, or packages with all their modules.",
    ),
]


def docs(
    targets: TargetsArgument,
    config: ConfigOption = None,
    output: Annotated[
        Path, typer.Option("--output", metavar="FOLDER", help="The directory for the files.")
    ] = Path(),
    title: Annotated[
        str | None,
        typer.Option(help="The title of the document. Default: the modules' names."),
    ] = None,
    version: Annotated[str, typer.Option(help="The version of the application.")] = "1.0.0",
    description: Annotated[str, typer.Option(help="A description of the application.")] = "",
) -> None:
    """Write the AsyncAPI 3 document of an application: asyncapi.yaml, .json and .html.

    It describes the channels, operations and message types of the listeners. The command does not
    connect to a broker. The HTML page is self-contained and needs no internet access. Passwords and
    user names are omitted.
    """
    import yaml

    from pyjms.asyncapi import asyncapi_document, html_page
    from pyjms.cli.loading import load_application, split_target

    application = load_application(targets, config)
    name = title or ", ".join(split_target(target)[0] for target in targets)
    document = asyncapi_document(application, title=name, version=version, description=description)
    output.mkdir(parents=True, exist_ok=True)
    texts = {
        "yaml": yaml.safe_dump(document, sort_keys=False, allow_unicode=True),
        "json": json.dumps(document, indent=2, ensure_ascii=False) + "\n",
        "html": html_page(document),
    }
    for suffix, text in texts.items():
        path = output / f"asyncapi.{suffix}"
        path.write_text(text, encoding="utf-8")
        typer.echo(path)


GROUP: Final = "pyjms.cli"


_OWN: Final = {
    "pipeline": "pyjms.cli.pipeline:pipeline_app",
    "outbox": "pyjms.cli.message_commands:outbox_app",
    "send": "pyjms.cli.message_commands:send",
    "receive": "pyjms.cli.message_commands:receive",
    "browse": "pyjms.cli.message_commands:browse",
    "redrive": "pyjms.cli.message_commands:redrive",
    "replay": "pyjms.cli.replay:replay",
}


class CommandGroup(typer.Typer):
    """A group whose commands and groups are in modules that the others do not need.

    Args:
        elsewhere: `MODULE:NAME` by name, as the value of an entry point.
        options: those of typer.
    """

    def __init__(self, elsewhere: Mapping[str, str], **options: Any) -> None:
        super().__init__(**options)
        self.elsewhere = elsewhere


def mount_commands(
    app: typer.Typer, installed: EntryPoints | None = None, words: Sequence[str] = ()
) -> None:
    """Add the commands of `installed` distributions (default: all) to `app` and its groups.

    If `words`, the command line, name a command, only that is added, because the modules of the
    others would take a long-running command's memory. A name that `app` or another distribution
    already has is skipped, with a warning in the log.
    """
    installed = cast(EntryPoints, entry_points()) if installed is None else installed
    names = {*_names_of(app), *installed.select(group=GROUP).names}
    wanted = words[0] if words and words[0] in names else None
    _mount(app, GROUP, installed, wanted)
    _import_commands(app, words)


def _import_commands(app: typer.Typer, words: Sequence[str]) -> None:
    """Import the command that `words` name from its module; if they name none, all of them."""
    is_named = bool(words) and words[0] in _names_of(app)
    here = {*map(_name_of, app.registered_commands), *(each.name for each in app.registered_groups)}
    for name, value in _elsewhere(app).items():
        if name not in here and (not is_named or name == words[0]):
            _add(app, EntryPoint(name, value, GROUP))
    for group in app.registered_groups:
        if group.typer_instance is None:
            continue
        if is_named and group.name == words[0]:
            _import_commands(group.typer_instance, words[1:])
        elif not is_named and list(words) != ["--help"]:
            _import_commands(group.typer_instance, ())


def _elsewhere(app: typer.Typer) -> Mapping[str, str]:
    return app.elsewhere if isinstance(app, CommandGroup) else {}


def only_named(app: typer.Typer, words: Sequence[str]) -> typer.Typer:
    """Return `app` with only the command that `words`, the command line, name; groups likewise.

    typer builds every command of every group before it runs one, which takes longer than most
    commands. Help lists the groups without their commands. Where the words name no command, as
    for completion, all remain.
    """
    _import_commands(app, words)
    if list(words) == ["--help"]:
        listed = [
            _with(each, each.typer_instance and _only(each.typer_instance, [], []))
            for each in app.registered_groups
        ]
        return _only(app, app.registered_commands, listed)
    name = words[0] if words else ""
    commands = [each for each in app.registered_commands if _name_of(each) == name]
    groups = [
        _with(each, each.typer_instance and only_named(each.typer_instance, words[1:]))
        for each in app.registered_groups
        if each.name == name
    ]
    return _only(app, commands, groups) if commands or groups else app


def _only(app: typer.Typer, commands: list[CommandInfo], groups: list[TyperInfo]) -> typer.Typer:
    named = copy(app)
    named.registered_commands, named.registered_groups = commands, groups
    return named


def _with(group: TyperInfo, app: typer.Typer | None) -> TyperInfo:
    changed = copy(group)
    changed.typer_instance = app
    return changed


def _mount(app: typer.Typer, group: str, installed: EntryPoints, wanted: str | None) -> None:
    owners = dict.fromkeys(_names_of(app), "pyjms")
    for entry in sorted(installed.select(group=group)):
        if wanted not in {None, entry.name}:
            continue
        owner = _distribution(entry)
        if entry.name in owners:
            if owners[entry.name] != owner:
                logger.warning(
                    "Command %r of %s is ignored: %s has a command of that name",
                    entry.name,
                    owner,
                    owners[entry.name],
                )
            continue
        owners[entry.name] = owner
        _add(app, entry)
    for info in app.registered_groups:
        if info.name and info.typer_instance is not None and wanted in {None, info.name}:
            _mount(info.typer_instance, f"{group}.{info.name}", installed, None)


def _add(app: typer.Typer, entry: EntryPoint) -> None:
    try:
        command = entry.load()
    except Exception as error:  # a third-party module may raise any exception
        _add_broken(app, entry, f"{type(error).__name__}: {error}")
        return
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=entry.name)
    elif isinstance(command, CommandInfo):
        app.registered_commands.append(command)
    elif inspect.isroutine(command):
        app.command(entry.name)(command)
    else:
        kind = type(command).__name__
        _add_broken(app, entry, f"{entry.value} is a {kind}, not a function or a typer.Typer")


def _add_broken(app: typer.Typer, entry: EntryPoint, reason: str) -> None:
    """Add a command in place of one that cannot be loaded; it reports the reason."""
    problem = f"Command {entry.name!r} of {_distribution(entry)} cannot be loaded: {reason}"

    def fail() -> None:
        raise ConfigurationException(
            problem, hint="update or reinstall that distribution, or uninstall it"
        )

    app.command(
        entry.name,
        help=problem,
        short_help="(cannot be loaded)",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )(fail)


def _distribution(entry: EntryPoint) -> str:
    found = entry.dist
    return "an unknown distribution" if found is None else f"{found.name} {found.version}"


def _names_of(app: typer.Typer) -> list[str]:
    commands = [_name_of(info) for info in app.registered_commands]
    groups = [info.name for info in app.registered_groups if info.name]
    return [*commands, *groups, *_elsewhere(app)]


def _name_of(command: CommandInfo) -> str:
    function: Callable[..., Any] | None = command.callback
    own = "" if function is None else function.__name__.lower().replace("_", "-")
    return command.name or own


app: Final = CommandGroup(
    _OWN,
    name="pyjms",
    help="Declarative messaging: run listeners and pipelines, send and receive, run a broker.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(config_app, name="config")
app.command()(docs)

CheckedArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODULE[:APP]|FOLDER",
        help="The application to check; a folder (`.`): all its modules with listeners, but tests.",
    ),
]


ShutdownOption = Annotated[
    float | None,
    duration_option(
        "--shutdown-timeout",
        text="Time that running handlers get to finish during shutdown, such as 10s. Default: "
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
MaxMemoryOption = Annotated[
    int | None,
    size_option(
        "--max-memory",
        text="With --workers: replace a process that has run for a minute and has more memory, "
        "such as 500mb, when its successor has started. Linux only.",
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
LogLevelOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[LOGGER=]LEVEL",
        help="The level of all loggers, or of one: debug, pyjms.listener=debug; may be repeated. "
        "At debug, each handled message is a line. Default: logging in application.yaml, info.",
    ),
]
AsWorkerOption = Annotated[str | None, typer.Option(WORKER_OPTION, hidden=True)]


def _print_version(wanted: bool) -> None:
    if wanted:
        import platform
        from importlib.metadata import version

        python = f"Python {platform.python_version()}"
        typer.echo(f"{DISTRIBUTION} {version(DISTRIBUTION)} ({python}, {build_name()})")
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
    targets: TargetsArgument,
    config: ConfigOption = None,
    profiles: ProfilesOption = None,
    shutdown_timeout: ShutdownOption = None,
    workers: WorkersOption = None,
    max_memory: MaxMemoryOption = None,
    reload: ReloadOption = False,
    reload_dir: ReloadFolderOption = None,
    health_port: HealthPortOption = None,
    log_format: LogFormatOption = None,
    log_level: LogLevelOption = None,
    tracebacks: TracebacksOption = False,
    as_worker: AsWorkerOption = None,
) -> None:
    """Run an application until SIGINT or SIGTERM.

    APP is a JmsApplication in MODULE. Default: the only application in MODULE, or a new one with
    the listeners and hooks defined in all MODULEs; a package stands for all its modules.
    SIGUSR1 pauses all listeners, SIGUSR2 resumes them. With --workers, SIGHUP restarts one process
    after the other, SIGTTIN adds a process and SIGTTOU removes one.
    """
    del profiles  # the option's callback has chosen them
    from pyjms.cli.logs import LogOutput, log_levels

    given_levels = log_levels(log_level or [])
    if as_worker is None and (workers is not None or reload):
        from pyjms.cli.supervisor import supervise

        folders = reload_dir if reload else None
        supervise(
            workers or 1, folders, reload=reload, log_format=log_format, max_memory=max_memory
        )
    if as_worker is None and max_memory is not None:
        raise ConfigurationException("--max-memory needs --workers", hint="add --workers 1")
    from pyjms.app.brokers import open_port
    from pyjms.cli.loading import import_modules, load_application, pipelines_in

    write_whole_lines()
    application = load_application(targets, config)
    tell_what_to_try = open_port(application)
    own = application.settings.logging
    worker = None if as_worker is None else WorkerArguments.from_text(as_worker)
    number = worker.number if worker is not None and worker.total > 1 else None
    LogOutput(log_format=log_format, levels=given_levels, worker=number).apply(own)
    application.observation.log_with(
        context="json" in own.formats(log_format), tracebacks=tracebacks or own.tracebacks
    )
    if shutdown_timeout is not None:
        application.stop_timeout = shutdown_timeout
    if health_port is not None:
        application.observation.port = health_port
    names = [pipeline.name for pipeline in pipelines_in(import_modules(targets))]
    if names:
        logger.info(
            "%s also has pipelines (%s): `pyjms pipeline run %s` runs them",
            " ".join(targets),
            ", ".join(names),
            " ".join(targets),
        )
    application.wiring.require_work()
    if worker is None:
        application.run(on_started=tell_what_to_try)
    else:
        run_worker(application, worker, tell_what_to_try)


@app.command()
def check(
    targets: CheckedArgument = None,
    config: ConfigOption = None,
    profiles: ProfilesOption = None,
) -> None:
    """Check the settings and the handlers of MODULEs, and report all problems at once.

    Prints a line for each problem, with file and line, and their number; the exit code is then 1.
    """
    del profiles  # the option's callback has chosen them
    from pyjms.cli.loading import check_targets, report, targets_text

    report(check_targets(targets or (), config))
    typer.echo(f"No problems found in {targets_text(targets or ())}.")


@app.command()
def listeners(
    targets: TargetsArgument,
    config: ConfigOption = None,
    profiles: ProfilesOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per listener, with more details.")
    ] = False,
) -> None:
    """List the listeners of an application: id, destination, concurrency, selector."""
    del profiles  # the option's callback has chosen them
    from pyjms.cli.loading import load_application

    names = ["id", "destination", "concurrency", "selector"]
    if as_json:
        names.append("subscription")
    found = load_application(targets, config).endpoints()
    rows = [{name: getattr(each, name) for name in names} for each in found]
    if not as_json:
        table(names, [[v or "-" for v in row.values()] for row in rows])
        return
    for row in rows:
        json_line(row)


def main() -> None:
    """Run the command line. Entry point of the script `pyjms`."""
    try:
        words = sys.argv[1:]
        mount_commands(app, words=words)
        only_named(app, words)(prog_name="pyjms")
    except KeyboardInterrupt:  # while the commands load; later it is typer's
        sys.exit(130)
    except UserCodeFailed as failed:
        typer.echo(failed.report, err=True, nl=False)
        sys.exit(1)
    except JMSException as error:
        for line in str(error).splitlines():
            typer.echo(f"pyjms: {line}", err=True)
        sys.exit(1)
