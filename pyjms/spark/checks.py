"""Pipelines of decorated functions and of the settings, and checks before Spark starts.

All problems of a set of pipelines are reported at once; each message names its pipeline and the
correction. Conditions that only a query plan reveals are checked when the query starts, and of a
schema's DDL only the names of types, so that typos are found early. (spark-pipeline 6.2)

An entry of `pipelines` with `sql` is a pipeline; one without changes the decorated pipeline of its
name, as `listeners.<id>` does for listeners.
"""

from __future__ import annotations

import importlib.util
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

from pyjms.client.factory import ConnectionFactory
from pyjms.configuration.document import Problems
from pyjms.errors import (
    ConfigurationException,
    InvalidSelectorException,
    UnsupportedOperationException,
    nearest_name,
)
from pyjms.jms.destination import Destination, name_matches, parse_destination
from pyjms.runtime.distribution import install_command
from pyjms.selector import selector_or_none
from pyjms.settings import ActiveMQSettings, PyjmsSettings
from pyjms.spark.options import read_options
from pyjms.spark.pipeline import DEFAULT_DEAD_LETTER, FAIL, Pipeline
from pyjms.spark.session import check_pyspark, find_java
from pyjms.transport.registry import create_transport
from pyjms.transport.uri import TransportURI

_TYPES: Final = frozenset(
    """
    ARRAY BIGINT BINARY BOOLEAN BYTE DATE DEC DECIMAL DOUBLE FLOAT INT INTEGER LONG MAP NUMERIC REAL
    SHORT SMALLINT STRING STRUCT TIME TIMESTAMP TIMESTAMP_LTZ TIMESTAMP_NTZ TINYINT VARIANT
    """.split()  # noqa: SIM905 - to be read
)
"""The first words of types of Spark 4.2 and 4.3 that bodies can have (SqlBaseParser.g4: type)."""
_NESTED: Final = frozenset(("ARRAY", "MAP", "STRUCT"))
_TOKEN: Final = re.compile(
    r"\s+|--[^\n]*|/\*.*?\*/|(\w+|`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|.)",
    re.DOTALL,
)


def ddl_problems(text: str) -> list[str]:
    """Return a message for each column without a type, or with one that bodies cannot have.

    Reads `a INT, b STRING` or `struct<a: int, b: string>`, and goes on after a mistake.
    """
    tokens = [token for token in _TOKEN.findall(text) if token]
    if [token.upper() for token in tokens[:2]] == ["STRUCT", "<"]:
        del tokens[:2]
    problems: list[str] = []
    kinds = ["STRUCT"]  # of the types that are open
    column = word = ""
    expected = "name"
    brackets = 0
    for each in (*tokens, ","):
        brackets += {"(": 1, ")": -1}.get(each, 0)
        if expected == "name" and each not in {">", ","}:
            column, expected = each, "type"
        elif expected == "type" and each != ":":
            word, expected = each.strip("`").upper(), "rest"
            if not re.match(r"[\w`]", each):
                problems.append(f"{column} has no type; write for example `{column} STRING`")
            elif word not in _TYPES:
                problems.append(f"{each} of {column} is not a type of bodies{_nearest(each)}")
            else:
                continue
        if brackets or expected == "type":
            continue
        if each == "<" and word in _NESTED:
            kinds.append(word)
        if each == ">" and len(kinds) > 1:
            kinds.pop()
        if each in {"<", ","}:
            expected = "name" if kinds[-1] == "STRUCT" else "type"
        elif each == ">":
            expected = "rest"
    return problems


def _nearest(word: str) -> str:
    near = nearest_name(word.upper(), _TYPES)
    return f"; did you mean {near}?" if near else ""


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
        *_find_shared(pipelines, "name", lambda p: p.name),
        *_find_shared(list({p.name: p for p in pipelines}.values()), "checkpoint", _checkpoint),
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


def _find_shared(
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
    readers = [
        (pipeline.broker, queue, pipeline.name)
        for pipeline in pipelines
        for queue in _sources(pipeline)
        if not queue.is_topic
    ]
    for broker, queue in dict.fromkeys((broker, queue) for broker, queue, _ in readers):
        names = [name for b, source, name in readers if b == broker and _covers(source, queue)]
        if len(names) > 1:
            yield (
                f"source {queue} is read {len(names)} times, by "
                f"{' and '.join(dict.fromkeys(names))}, but a queue has one reader; send to a "
                "virtual topic, and read Consumer.NAME.VirtualTopic.X in each"
            )


def _sources(pipeline: Pipeline) -> list[Destination]:
    """Return the queues, topics and patterns that a pipeline reads."""
    targets = map(parse_destination, pipeline.sources.values())
    return [each for target in targets for each in target.composite_destinations]


def _covers(source: Destination, target: Destination) -> bool:
    """Return whether a source is a destination, or a pattern that matches it."""
    if source == target:
        return True
    is_match = source.is_pattern and not target.is_pattern and source.is_topic == target.is_topic
    return is_match and name_matches(source.physical_name, target.physical_name)


def _broker(pipeline: Pipeline, brokers: Collection[str]) -> Iterator[str]:
    if pipeline.broker is not None and pipeline.broker not in brokers:
        near = nearest_name(pipeline.broker, brokers) or min(brokers, default=None)
        hint = f"did you mean {near}?" if near else "there are none; add it, or remove the key"
        yield f"broker {pipeline.broker} is not in `brokers`; {hint}"


def _loops(pipeline: Pipeline, _brokers: Collection[str]) -> Iterator[str]:
    sources = _sources(pipeline)
    ends: dict[str, Destination] = {}
    if pipeline.format is None:
        ends["sink"] = parse_destination(pipeline.sink)
    if pipeline.schemas and pipeline.dead_letter != FAIL:
        ends["dead_letter"] = parse_destination(pipeline.dead_letter or DEFAULT_DEAD_LETTER)
    for key, target in ends.items():
        if any(_covers(source, target) for source in sources):
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
            from pyjms.spark.schema import model_columns

            problem = _error_of(lambda model=schema: model_columns(model))  # type: ignore[misc]
            if problem is not None:
                yield problem


def _options(pipeline: Pipeline, _brokers: Collection[str]) -> Iterator[str]:
    given: list[tuple[Mapping[str, str], str]] = [(pipeline.options_of_source, "stream")]
    if pipeline.format is None:
        given.append((pipeline.options_of_sink, "sink"))
    for options, role in given:
        problem = _error_of(lambda o=options, r=role: read_options({"url": _ANY_URL, **o}, r))  # type: ignore[misc]
        if problem is not None:
            yield problem


def _selector(pipeline: Pipeline, _brokers: Collection[str]) -> Iterator[str]:
    for key, text in pipeline.options_of_source.items():
        if key.lower() == "selector":
            try:
                selector_or_none(text)
            except InvalidSelectorException as error:
                yield f"selector {text!r} is not valid: {error}"


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


class BrokerLocation(NamedTuple):
    """The URL of a broker, and the credentials for it."""

    url: str
    user: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"BrokerLocation(user={self.user})"


def broker_of(settings: PyjmsSettings, name: str | None, embedded: str | None) -> BrokerLocation:
    """Return the broker with that name in `brokers`; None: the one in `activemq`.

    `embedded` is the URL of the in-memory broker, used if no URL is set.
    """
    if name is not None and name not in settings.brokers:
        known = ", ".join(settings.brokers) or "none"
        raise ConfigurationException(
            f"There is no broker {name!r} in brokers", hint=f"the brokers are {known}"
        )
    section = settings.activemq if name is None else settings.brokers[name]
    if embedded is not None and name is None and _is_in_process(section):
        return BrokerLocation(embedded)
    key = "activemq" if name is None else f"brokers.{name}"
    url = section.effective_broker_url()
    if _is_in_process(section):
        state = (
            f"is a vm:// URL ({_redact(url)}), a broker in one process"
            if section.broker_url
            else "is not set"
        )
        raise ConfigurationException(
            f"Spark needs a broker that its processes can reach, but {key}.broker_url {state}",
            hint=f"set {key}.broker_url to a tcp:// URL; to try pipelines out with --once on an "
            "empty in-memory broker, set activemq.embedded.enabled to true",
        )
    _check_url(url, f"{key}.broker_url")
    password = section.password.get_secret_value() if section.password is not None else None
    return BrokerLocation(url, section.effective_user(), password)


def uses_embedded_broker(
    settings: PyjmsSettings, pipelines: Iterable[Pipeline], *, once: bool
) -> bool:
    """Return whether to start an in-memory broker: enabled explicitly, and no broker_url is set."""
    section = settings.activemq
    is_enabled = (
        "embedded" in section.model_fields_set and "enabled" in section.embedded.model_fields_set
    )
    return (
        once
        and is_enabled
        and _is_in_process(section)
        and any(pipeline.broker is None for pipeline in pipelines)
    )


def _check_url(url: str, key: str) -> None:
    """Check a URL by creating its transport, which does not connect."""
    try:
        create_transport(ConnectionFactory(url).uri)
    except (ConfigurationException, UnsupportedOperationException) as error:
        raise ConfigurationException(f"{key} {_redact(url)}: {error}") from error


def _redact(url: str) -> str:
    """Return a URL without passwords."""
    try:
        return str(TransportURI.parse(url))
    except ConfigurationException:
        return "unreadable"


def _is_in_process(section: ActiveMQSettings) -> bool:
    return section.effective_broker_url().strip().lower().startswith("vm:")


V = TypeVar("V")
_NAME: Final = re.compile(r"(?:Pipeline |pipelines\.)(\S+?):? ")


class CollectedPipelines(NamedTuple):
    """The valid pipelines, and the problems of the others, one line each."""

    pipelines: list[Pipeline]
    problems: list[str]


def collect_pipelines(
    settings: PyjmsSettings, decorated: Iterable[Pipeline] = (), *, are_all: bool = True
) -> list[Pipeline]:
    """Return the pipelines to run; see `gather_pipelines`."""
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
        values = {} if entry is None else _join(pipeline, entry.values())
        made.append(attempt(lambda p=pipeline, v=values: _resolve(settings, p.with_changes(v))))  # type: ignore[misc]
    for name, entry in entries.items():
        if entry.sql is not None:
            values = entry.values()
            made.append(
                attempt(lambda n=name, v=values: _resolve(settings, Pipeline(name=n, **v)))  # type: ignore[misc]
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
    """Return the pipelines named in `only`, or all if it is empty."""
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

    Problems of pipelines in the settings have file and line. If the settings are invalid, all but
    the brokers is checked.
    """
    lines = [*found]
    if settings.is_incomplete:
        problems.unchecked.append("brokers of pipelines: the settings are not valid")
        named = {p.broker for p in pipelines if p.broker is not None}
        java = settings.spark.java
        lines += check_pipelines(pipelines, brokers={*settings.brokers, *named}, java=java)
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


def _join(pipeline: Pipeline, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of an entry; each option overrides the pipeline's option of that name."""
    joined = dict(values)
    if "options" in joined:
        joined["options"] = {**pipeline.options, **joined["options"]}
    return joined


def _resolve(settings: PyjmsSettings, pipeline: Pipeline) -> Pipeline:
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
