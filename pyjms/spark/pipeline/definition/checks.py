"""Checks before Spark starts: all problems of a set of pipelines, reported at once.

Each message names its pipeline and the correction. Conditions that only a query plan reveals are
checked when the query starts. (spark-pipeline 6.2)
"""

from __future__ import annotations

import importlib.util
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from pyjms._distribution import install_command
from pyjms.errors import ConfigurationException, InvalidSelectorException, nearest_name
from pyjms.jms.destination import Destination, parse_destination
from pyjms.selector import selector_or_none
from pyjms.spark.java import find_java
from pyjms.spark.jms.options import read_options
from pyjms.spark.pipeline.definition.pipeline import Pipeline
from pyjms.spark.pipeline.definition.values import DEFAULT_DEAD_LETTER, FAIL
from pyjms.spark.pipeline.schema.ddl_names import ddl_problems
from pyjms.spark.session import check_pyspark

__all__ = ["check_pipelines"]

_ANY_URL: Final = "tcp://localhost:61616"
_TOPIC_OPTIONS: Final = ("clientId", "subscription")
_VIRTUAL_TOPIC_QUEUE: Final = re.compile(r"Consumer\.[^.]+\.(VirtualTopic\..+)")
_SQL_LITERAL: Final = re.compile(
    r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|--[^\n]*|/\*.*?\*/", re.DOTALL
)


def check_pipelines(
    pipelines: Sequence[Pipeline], *, brokers: Collection[str] = (), java: str = "auto"
) -> list[str]:
    """Return all problems of pipelines that are to run together; an empty list if there are none.

    `brokers`: the names in `brokers` of the settings. Starts no Spark and connects to no broker.
    """
    return [
        *_installation(java),
        *_shared(pipelines, "name", lambda p: p.name),
        *_shared(list({p.name: p for p in pipelines}.values()), "checkpoint", _checkpoint),
        *_shared_queues(pipelines),
        *(
            f"Pipeline {pipeline.name}: {problem}"
            for pipeline in pipelines
            for check in _CHECKS
            for problem in check(pipeline, brokers)
        ),
    ]


def _installation(java: str) -> Iterator[str]:
    for check in (check_pyspark, _check_pyarrow, lambda: find_java(java)):
        problem = _error_of(check)
        if problem is not None:
            yield problem


def _check_pyarrow() -> None:
    if importlib.util.find_spec("pyarrow") is None:
        raise ConfigurationException(
            "The Spark formats need pyarrow, which is not installed", hint=install_command("spark")
        )


def _shared(
    pipelines: Sequence[Pipeline], key: str, value_of: Callable[[Pipeline], str]
) -> Iterator[str]:
    users: dict[str, list[str]] = defaultdict(list)
    for pipeline in pipelines:
        users[value_of(pipeline)].append(pipeline.name)
    for value, names in users.items():
        if len(names) > 1:
            users_text = " and ".join(dict.fromkeys(names))
            yield f"{key} {value} is used {len(names)} times, by {users_text}; give each its own"


def _checkpoint(pipeline: Pipeline) -> str:
    return pipeline.checkpoint_name


def _shared_queues(pipelines: Sequence[Pipeline]) -> Iterator[str]:
    users: dict[tuple[str | None, str], list[str]] = defaultdict(list)
    for pipeline in pipelines:
        for text in pipeline.sources.values():
            target = parse_destination(text)
            if not target.is_topic:
                users[pipeline.broker, target.qualified_name].append(pipeline.name)
    for (_, queue), names in users.items():
        if len(names) > 1:
            users_text = " and ".join(dict.fromkeys(names))
            yield (
                f"source {queue} is read {len(names)} times, by {users_text}, but a queue has one "
                "reader; send to a virtual topic, and read Consumer.NAME.VirtualTopic.X in each"
            )


def _broker(pipeline: Pipeline, brokers: Collection[str]) -> Iterator[str]:
    if pipeline.broker is not None and pipeline.broker not in brokers:
        near = nearest_name(pipeline.broker, brokers) or min(brokers, default=None)
        hint = f"did you mean {near}?" if near else "there are none; add it, or remove the key"
        yield f"broker {pipeline.broker} is not in `brokers`; {hint}"


def _loops(pipeline: Pipeline, _brokers: Collection[str]) -> Iterator[str]:
    sources = {parse_destination(text) for text in pipeline.sources.values()}
    ends: dict[str, Destination] = {}
    if pipeline.folder is None:
        ends["sink"] = parse_destination(pipeline.sink)
    if pipeline.schemas and pipeline.dead_letter != FAIL:
        ends["dead_letter"] = parse_destination(pipeline.dead_letter or DEFAULT_DEAD_LETTER)
    for key, target in ends.items():
        if target in sources:
            yield f"{key} {target} is also its source, so it would read what it sends; use another"
        for source in _virtual_topic_queues(target, sources):
            yield (
                f"{key} {target} is copied to its source {source}, so it would read what it sends; "
                "use another"
            )


def _virtual_topic_queues(target: Destination, queues: Collection[Destination]) -> set[Destination]:
    """Return the queues among those given that receive the messages of a virtual topic."""
    return {
        queue
        for queue in queues
        if target.is_topic
        and not queue.is_topic
        and (found := _VIRTUAL_TOPIC_QUEUE.fullmatch(queue.physical_name)) is not None
        and found[1] == target.physical_name
    }


def _topics(pipeline: Pipeline, _brokers: Collection[str]) -> Iterator[str]:
    given = {key.lower() for key in pipeline.options_of_source}
    missing = [option for option in _TOPIC_OPTIONS if option.lower() not in given]
    topics = [text for text in pipeline.sources.values() if parse_destination(text).is_topic]
    for text in topics if missing else ():
        yield (
            f"source {text} is a topic, which needs the options {' and '.join(missing)} for a "
            "durable subscription; set them, or read the queue of a virtual topic"
        )
    if len(topics) > 1:
        yield (
            f"sources {' and '.join(topics)} are topics, which would share one durable "
            "subscription; replace all but one by the queue of a virtual topic"
        )


def _views(pipeline: Pipeline, _brokers: Collection[str]) -> Iterator[str]:
    words = re.findall(r"\w+", _SQL_LITERAL.sub(" ", pipeline.sql or "").lower())
    for name in pipeline.sources if pipeline.sql is not None else ():
        if name.lower() not in words:
            yield f"its sql does not read {name}; write FROM {name}" + (
                "" if pipeline.is_single else ", or remove that source"
            )


def _ddl(pipeline: Pipeline, _brokers: Collection[str]) -> Iterator[str]:
    for name, schema in pipeline.schemas.items():
        label = "schema" if pipeline.is_single else f"schema of {name}"
        for problem in ddl_problems(schema) if isinstance(schema, str) else ():
            yield f"{label}: {problem}"


def _models(pipeline: Pipeline, _brokers: Collection[str]) -> Iterator[str]:
    for schema in pipeline.schemas.values():
        if not isinstance(schema, str):
            from pyjms.spark.pipeline.schema.models import model_type

            problem = _error_of(lambda model=schema: model_type(model))  # type: ignore[misc]
            if problem is not None:
                yield problem


def _options(pipeline: Pipeline, _brokers: Collection[str]) -> Iterator[str]:
    given: list[tuple[Mapping[str, str], str]] = [(pipeline.options_of_source, "source")]
    if pipeline.folder is None:
        given.append((pipeline.options_of_sink, "sink"))
    for options, role in given:
        each = [_option_error({key: text}, role) for key, text in options.items()]
        single = [problem for problem in each if problem is not None]
        combined = _option_error(options, role)
        yield from single or ([] if combined is None else [combined])


def _selector(pipeline: Pipeline, _brokers: Collection[str]) -> Iterator[str]:
    for key, text in pipeline.options_of_source.items():
        if key.lower() == "selector":
            try:
                selector_or_none(text)
            except InvalidSelectorException as error:
                yield f"selector {text!r} is not valid: {error}"


def _option_error(options: Mapping[str, str], role: str) -> str | None:
    return _error_of(lambda: read_options({"url": _ANY_URL, **options}, role))


def _error_of(attempt: Callable[[], Any]) -> str | None:
    """Return the text of the configuration error that a call raises; None if it raises none."""
    try:
        attempt()
    except ConfigurationException as error:
        return str(error)
    return None


_CHECKS: Final[tuple[Callable[[Pipeline, Collection[str]], Iterator[str]], ...]] = (
    _broker,
    _loops,
    _topics,
    _views,
    _ddl,
    _models,
    _options,
    _selector,
)
