"""Collecting the pipelines of decorated functions and of `pipelines` in the settings.

An entry with `sql` is a pipeline; one without changes the decorated pipeline of its name, as
`listeners.<id>` does for listeners. All problems are reported at once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

from pyjms._yaml import Problems
from pyjms.errors import ConfigurationException
from pyjms.settings import PyjmsSettings
from pyjms.spark.pipeline.definition.brokers import broker_of
from pyjms.spark.pipeline.definition.checks import check_pipelines
from pyjms.spark.pipeline.definition.pipeline import Pipeline

__all__ = [
    "CollectedPipelines",
    "add_problems",
    "choose_pipelines",
    "collect_pipelines",
    "find_problems",
    "gather_pipelines",
]

V = TypeVar("V")
_NAME: Final = re.compile(r"(?:Pipeline |pipelines\.)(\S+?):? ")


class CollectedPipelines(NamedTuple):
    """The valid pipelines, and the problems of the others, one line each."""

    pipelines: list[Pipeline]
    problems: list[str]


def collect_pipelines(
    settings: PyjmsSettings, decorated: Iterable[Pipeline] = (), *, are_all: bool = True
) -> list[Pipeline]:
    """Return the pipelines to run; see `gather_pipelines`.

    Raises:
        ConfigurationException: some are not valid; one line for each problem.
    """
    pipelines, problems = gather_pipelines(settings, decorated, are_all=are_all)
    if problems:
        raise ConfigurationException("\n".join(problems))
    return pipelines


def gather_pipelines(
    settings: PyjmsSettings, decorated: Iterable[Pipeline] = (), *, are_all: bool = True
) -> CollectedPipelines:
    """Return the pipelines, with `${...}` in names and options resolved, and all problems.

    `are_all=False`: `decorated` is only a part of the application's pipelines, so an entry for
    another pipeline is not an error.
    """
    problems: list[str] = []

    def attempt(make: Callable[[], V]) -> V | None:
        try:
            return make()
        except ConfigurationException as error:
            problems.append(str(error))
            return None

    found = list(decorated)
    repeated = [name for name, number in Counter(p.name for p in found).items() if number > 1]
    problems += [
        f"Pipeline {name} is defined more than once; give each its own name" for name in repeated
    ]
    made: list[Pipeline | None] = []
    entries = dict(settings.pipelines)
    for pipeline in found:
        entry = entries.pop(pipeline.name, None)
        values = {} if entry is None else _joined(pipeline, entry.values())
        made.append(attempt(lambda p=pipeline, v=values: _resolved(settings, p.with_changes(v))))  # type: ignore[misc]
    for name, entry in entries.items():
        if entry.sql is not None:
            values = entry.values()
            made.append(
                attempt(lambda n=name, v=values: _resolved(settings, Pipeline(name=n, **v)))  # type: ignore[misc]
            )
        elif are_all:
            names = ", ".join(p.name for p in found) or "none"
            problems.append(
                f"pipelines.{name} has no sql, so it changes a decorated pipeline, but there is no "
                f"{name} (the decorated ones are: {names}); add sql, or name the module of its "
                "function"
            )
    return CollectedPipelines([pipeline for pipeline in made if pipeline is not None], problems)


def choose_pipelines(pipelines: Sequence[Pipeline], only: Sequence[str]) -> list[Pipeline]:
    """Return the pipelines named in `only`, or all if it is empty.

    Raises:
        ConfigurationException: a name is unknown, or there are no pipelines at all.
    """
    names = [pipeline.name for pipeline in pipelines]
    if not names:
        raise ConfigurationException(
            "There are no pipelines",
            hint="mark functions with @jms_pipeline, or add entries with sql under pipelines: in "
            "application.yaml",
        )
    unknown = [name for name in only if name not in names]
    if unknown:
        raise ConfigurationException(
            f"There is no pipeline {', '.join(unknown)}",
            hint=f"the pipelines are {', '.join(names)}",
        )
    return [pipeline for pipeline in pipelines if not only or pipeline.name in only]


def add_problems(
    settings: PyjmsSettings, pipelines: Sequence[Pipeline], found: Iterable[str], problems: Problems
) -> None:
    """Add the problems found by `gather_pipelines`, and those that keep pipelines from running.

    Problems of pipelines in the settings have file and line. If the settings are invalid, brokers
    are not checked.
    """
    lines = [*found]
    if settings.is_incomplete:
        problems.unchecked.append("brokers and sets of pipelines: the settings are not valid")
    else:
        lines += find_problems(settings, pipelines)
    for line in lines:
        name = _NAME.match(line)
        is_ours = name is not None and name[1] in settings.pipelines
        origin = settings.origin(("pipelines", name[1])) if name and is_ours else None
        if origin is None:
            problems.add(ConfigurationException(line))
        else:
            text = f"{origin}: {line}"
            problems.add(ConfigurationException(text, source=origin.source, line=origin.line))


def find_problems(
    settings: PyjmsSettings, pipelines: Sequence[Pipeline], embedded: str | None = None
) -> list[str]:
    """Return all problems that keep pipelines from running, as far as the settings reveal them.

    `embedded` is the URL of the in-memory broker, used if no URL is set. Starts nothing and
    connects to no broker.
    """
    problems: list[str] = []
    for name in dict.fromkeys(pipeline.broker for pipeline in pipelines):
        if name is None or name in settings.brokers:
            try:
                broker_of(settings, name, embedded)
            except ConfigurationException as error:
                users = dict.fromkeys(p.name for p in pipelines if p.broker == name)
                word = "Pipeline" if len(users) == 1 else "Pipelines"
                problems.append(f"{word} {' and '.join(users)}: {error}")
    java = settings.spark.java
    return [*problems, *check_pipelines(pipelines, brokers=settings.brokers, java=java)]


def _joined(pipeline: Pipeline, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of an entry; each option overrides the pipeline's option of that name."""
    joined = dict(values)
    if "options" in joined:
        joined["options"] = {**pipeline.options, **joined["options"]}
    return joined


def _resolved(settings: PyjmsSettings, pipeline: Pipeline) -> Pipeline:
    resolve = settings.resolve_placeholders
    source = pipeline.source
    return replace(
        pipeline,
        source=resolve(source)
        if isinstance(source, str)
        else {name: resolve(text) for name, text in source.items()},
        sink=resolve(pipeline.sink),
        dead_letter=None if pipeline.dead_letter is None else resolve(pipeline.dead_letter),
        broker=None if pipeline.broker is None else resolve(pipeline.broker),
        options={name: resolve(text) for name, text in pipeline.options.items()},
    )
