"""The options of the formats: a table of each, from which each role reads its own.

A role is a way to use a format: `Role`. An option that has no effect in a role is an error there,
with a suggestion, since a query that ignores it would silently give other rows. `mode=auto` of a
stream accepts the options of both of its ways. Spark lower-cases the names; errors spell them as
the table does. Error messages never contain a value, as it may be a password.
(spark-pipeline 3.4, 6.1)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final

from pyjms.errors import ConfigurationException, nearest_name
from pyjms.jms.destination import Destination, parse_destination
from pyjms.runtime.paths import check_shared_folder


class Role(Enum):
    """A way to use a format; the value is how errors call it."""

    BROWSE = "a batch that browses"
    SNAPSHOT = "a batch by ranges"
    RANGES = "a stream by ranges"
    SPOOL = "a stream through a spool"
    SINK = "a sink"
    RECORDS = "view=records"
    MESSAGES = "view=messages"


_BATCH: Final = frozenset((Role.BROWSE, Role.SNAPSHOT))
_STREAM: Final = frozenset((Role.RANGES, Role.SPOOL))
_SOURCE: Final = _BATCH | _STREAM
_JOURNAL: Final = frozenset((Role.RECORDS, Role.MESSAGES))
_ALL: Final = frozenset(Role) - _JOURNAL
_SINK: Final = frozenset((Role.SINK,))

_GROUPS: Final[tuple[tuple[str, frozenset[Role]], ...]] = (
    ("all", _ALL),
    ("batch", _BATCH),
    ("stream", _STREAM),
    ("batch by ranges", frozenset((Role.SNAPSHOT,))),
    ("stream by ranges", frozenset((Role.RANGES,))),
    ("stream with a spool", frozenset((Role.SPOOL,))),
    ("sink", _SINK),
    ("both", _JOURNAL),
    ("records", frozenset((Role.RECORDS,))),
)
_SPARKS_OWN: Final = frozenset(("queryname",))
_OF_TABLES: Final = ("provider", "option.")
_TRUE: Final = {"true": True, "false": False}
EARLIEST, LATEST = "earliest", "latest"
BODY_SCHEMA: Final = "pyjmsBodySchema"
"""The option by which pipelines have bodies validated."""


@dataclass(frozen=True)
class JmsOptions:
    """The options of a source or sink. They are pickled into plans; see `password_env`."""

    url: str
    destination: str | None = None
    user: str | None = None
    password: str | None = None
    password_env: str | None = None
    selector: str | None = None
    partitions: int = 2
    max_messages_per_trigger: int = 10_000
    max_bytes_per_trigger: int = 64 * 1024 * 1024
    min_messages_per_trigger: int = 1
    max_trigger_delay: float = 900.0
    starting_offset: str = EARLIEST
    ending_offset: str = LATEST
    starting_timestamp: int | None = None
    """Microseconds since 1970, as in Arrow."""
    ending_timestamp: int | None = None
    poll_timeout: float = 0.25
    ack_on: str = "finished"
    fail_on_data_loss: bool = True
    fail_on_missing: bool = False
    mode: str = "auto"
    spool: str | None = None
    owner: str | None = None
    client_id: str | None = None
    subscription: str | None = None
    exactly_once: str = "off"
    id_column: str | None = None
    map_only: bool = False
    query_id: str | None = None
    batch_id: int | None = None
    checkpoint_location: str | None = None
    body_schema: str | None = None
    """Set by pipelines: `pyjms.spark.schema.encode_schema`."""

    def __repr__(self) -> str:
        return f"JmsOptions({self.destination})"

    def secret(self) -> str | None:
        """Return the password: the option, or the environment variable of this process."""
        if self.password_env is None:
            return self.password
        value = os.environ.get(self.password_env)
        if value is None:
            raise ConfigurationException(
                f"jms: passwordEnv names the variable {self.password_env}, which is not set on "
                "this machine",
                hint="set it for the driver and all executors",
            )
        return value

    @property
    def target(self) -> Destination:
        """The destination: `queue://a`, `topic://a`, a queue's name, or several of them."""
        if not self.destination:
            raise ConfigurationException(
                "jms: option destination is missing", hint='load("queue://orders")'
            )
        return parse_destination(self.destination)


def read_options(options: Mapping[str, str], role: str) -> JmsOptions:
    """Read the options of a `batch`, a `stream` or a `sink`."""
    given, problems = _read(options, OPTIONS, _roles(options, role))
    if "url" not in {name.lower() for name in options}:
        hint = 'option("url", "tcp://localhost:61616")'
        if not options:
            hint += "; Spark does not pass a table's options on, use CREATE TEMPORARY VIEW"
        problems.append(("option url is missing", hint))
    _raise_all("jms", problems or list(_contradictions(given, role)))
    made = JmsOptions(**given)
    if made.mode == "spool":
        check_spool_options(made)
    return made


def read_journal_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Read the options of the format `jms-journal`; return their values by attribute."""
    refuse_tables(options, "jms-journal")
    view = next((text for name, text in options.items() if name.lower() == "view"), "records")
    role = Role.MESSAGES if view.lower() == "messages" else Role.RECORDS
    given, problems = _read(options, JOURNAL_OPTIONS, (role,))
    if not given.get("folders"):
        problems.append(("option path is missing", 'load("DIR")'))
    names = {name.lower() for name in options if options[name]}
    problems += [
        (f"options {one} and {other} exclude each other", "remove one of them")
        for one, other in (("since", "startingTimestamp"), ("until", "endingTimestamp"))
        if {one.lower(), other.lower()} <= names
    ]
    _raise_all("jms-journal", problems)
    return given


def _raise_all(format_name: str, problems: Sequence[Problem]) -> None:
    """Raise one error for all problems, if there are any."""
    if len(problems) == 1:
        text, hint = problems[0]
        raise ConfigurationException(f"{format_name}: {text}", hint=hint)
    if problems:
        each = (f"{text} ({hint})" if hint else text for text, hint in problems)
        raise ConfigurationException(f"{format_name}: {'; '.join(each)}")


def check_names(options: Mapping[str, str]) -> None:
    """Check that all names are known in some role, for a frame or table whose use is unknown yet.

    Raises:
        ConfigurationException: an option is unknown.
    """
    refuse_tables(options, "jms")
    for name in options:
        if name.lower() not in OPTIONS and name.lower() not in _SPARKS_OWN:
            text, hint = _unknown(name, OPTIONS, tuple(Role))
            raise ConfigurationException(f"jms: {text}", hint=hint)


def refuse_tables(options: Mapping[str, str], format_name: str) -> None:
    """Refuse CREATE TABLE: Spark keeps a table's options, but never passes them to its format.

    They are passed only when the table is created without columns, beside Spark's own names.
    """
    if any(name.lower().startswith(_OF_TABLES) for name in options):
        raise ConfigurationException(
            f"{format_name}: there can be no table: Spark does not pass the options of a table on "
            "to formats that are written in Python",
            hint=f"write CREATE TEMPORARY VIEW name USING {_quote(format_name)} OPTIONS (...)",
        )


def _quote(format_name: str) -> str:
    return f"`{format_name}`" if "-" in format_name else format_name


def check_spool_options(options: JmsOptions) -> None:
    """Check the options that a stream cannot have once it is known that it uses a spool."""
    start = None
    if options.starting_offset != EARLIEST:
        start = f"startingOffset {options.starting_offset}"
    elif options.starting_timestamp is not None:
        start = "startingTimestamp"
    if start is not None:
        raise ConfigurationException(
            f"jms: {start} has no effect through a spool, which starts with all messages on the "
            "queue",
            hint="remove it; only ranges, with a broker that serves them, can start elsewhere",
        )


@dataclass(frozen=True)
class _Option:
    """An option: its name, its attribute of `JmsOptions`, its parser, and its roles."""

    spelling: str
    attribute: str
    read: Callable[[str], object]
    roles: frozenset[Role]
    hints: Mapping[Role, str] = field(default_factory=dict)
    """What to do instead in a role that does not have it."""

    @property
    def users(self) -> str:
        """The roles in words, as in the documentation."""
        found, rest = [], set(self.roles)
        for word, some in _GROUPS:
            if some <= rest:
                found.append(word)
                rest -= some
        return ", ".join(found)


Problem = tuple[str, str]
"""What is wrong, and what to do (may be empty)."""


def _roles(options: Mapping[str, str], role: str) -> Sequence[Role]:
    if role == "sink":
        return (Role.SINK,)
    mode = next((text for name, text in options.items() if name.lower() == "mode"), "auto").lower()
    if role == "batch":
        return (Role.SNAPSHOT,) if mode == "ranges" else (Role.BROWSE,)
    return {"ranges": (Role.RANGES,), "spool": (Role.SPOOL,)}.get(mode, (Role.RANGES, Role.SPOOL))


def _read(
    options: Mapping[str, str], table: Mapping[str, _Option], roles: Sequence[Role]
) -> tuple[dict[str, Any], list[Problem]]:
    """Return the values of options by field, and all problems of single options."""
    given: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, text in options.items():
        if name.lower() in _SPARKS_OWN:
            continue
        option = table.get(name.lower())
        if option is None:
            problems.append(_unknown(name, table, roles))
        elif option.roles.isdisjoint(roles):
            problems.append(_without_effect(option, roles))
        else:
            try:
                given[option.attribute] = option.read(text)
            except ValueError as error:
                problems.append((f"option {option.spelling} {error}", ""))
    return given, problems


def _unknown(name: str, table: Mapping[str, _Option], roles: Sequence[Role]) -> Problem:
    elsewhere = _NAMES_ELSEWHERE.get(name.lower()) if table is OPTIONS else None
    if elsewhere is not None:
        spelling, ours = elsewhere
        return f"unknown option {spelling}", f"here it is {ours}"
    near = nearest_name(name.lower(), table)
    if near:
        return f"unknown option {name}", f"did you mean {table[near].spelling}?"
    known = (
        option.spelling
        for option in table.values()
        if option.spelling != BODY_SCHEMA and not option.roles.isdisjoint(roles)
    )
    return f"unknown option {name}", f"the options are {', '.join(known)}"


def _without_effect(option: _Option, roles: Sequence[Role]) -> Problem:
    where = roles[0].value if len(roles) == 1 else "a stream"  # of which both ways are open
    hint = option.hints.get(roles[0], f"remove it: it is for {option.users}")
    return f"option {option.spelling} has no effect in {where}", hint


def _contradictions(given: Mapping[str, Any], role: str) -> Iterator[Problem]:
    """Yield the problems of values that do not fit together."""
    if role == "batch" and given.get("mode") == "spool":
        yield "option mode is spool, which is a way to stream", "remove it, or set mode=ranges"
    if not given["url"]:
        yield "option url is missing", 'option("url", "tcp://localhost:61616")'
    elif given["url"].startswith("vm:"):
        yield (
            "option url is a vm:// URL, but Spark reads and writes in other processes",
            "give the broker a tcp:// connector, and set url to its URL",
        )
    for one, other in (
        ("startingOffset", "startingTimestamp"),
        ("endingOffset", "endingTimestamp"),
        ("password", "passwordEnv"),
    ):
        if {OPTIONS[one.lower()].attribute, OPTIONS[other.lower()].attribute} <= given.keys():
            yield f"options {one} and {other} exclude each other", "remove one of them"
    if "max_trigger_delay" in given and "min_messages_per_trigger" not in given:
        yield (
            "option maxTriggerDelay has no effect without minMessagesPerTrigger",
            "remove it, or set minMessagesPerTrigger",
        )
    most = given.get("max_messages_per_trigger", JmsOptions.max_messages_per_trigger)
    if given.get("min_messages_per_trigger", 1) > most:
        yield f"option minMessagesPerTrigger is greater than maxMessagesPerTrigger, {most}", ""


def _number(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) < least:
            raise ValueError(f"is not a whole number of at least {least}")
        return int(text)

    return read


def _seconds(text: str) -> float:
    units = (("ms", 0.001), ("s", 1.0), ("m", 60.0))
    for unit, factor in units:
        number = text.removesuffix(unit).strip()
        if text.endswith(unit) and number.replace(".", "", 1).isdigit():
            return float(number) * factor
    raise ValueError("is not a duration such as 250ms or 2s")


def _choice(*known: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.lower() not in known:
            raise ValueError(f"is not one of {', '.join(known)}")
        return text.lower()

    return read


def _boolean(text: str) -> bool:
    if text.lower() not in _TRUE:
        raise ValueError("is neither true nor false")
    return _TRUE[text.lower()]


def _folder(text: str) -> str:
    return check_shared_folder(text, "/shared/spool")


def read_time(text: str) -> int:
    """Return a time in microseconds since 1970: ISO 8601 (UTC without a zone), or milliseconds."""
    if text.isascii() and text.isdigit():
        return int(text) * 1000
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            "is not a time; write 2026-11-21T18:00:00Z, or milliseconds since 1970"
        ) from None
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(zoned.timestamp() * 1_000_000)


def _offset(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.lower() not in words and not (text.isascii() and text.isdigit()):
            raise ValueError(f"is not {', '.join(words)} or a sequence number")
        return text.lower()

    return read


_USE_RANGES: Final = (
    "set mode=ranges, by which the bundled broker numbers messages; or use a timestamp"
)
_NO_TRIGGER: Final = (
    "a batch has no triggers and reads all; with mode=ranges, startingOffset and endingOffset "
    "limit it"
)
_NO_END: Final = "a stream has no end; trigger(availableNow=True) ends with what is there"
_IN_BATCHES: Final = {Role.BROWSE: _NO_TRIGGER, Role.SNAPSHOT: _NO_TRIGGER}
_IN_STREAMS: Final = {Role.RANGES: _NO_END, Role.SPOOL: _NO_END}
_NOTHING_KEPT: Final = "remove it: a batch removes nothing, so nothing is kept in files"

OPTIONS: Final[dict[str, _Option]] = {
    option.spelling.lower(): option
    for option in (
        _Option("url", "url", str, _ALL),
        _Option("destination", "destination", str, _ALL),
        _Option("path", "destination", str, _ALL),  # set by load("NAME") and save("NAME")
        _Option("user", "user", str, _ALL),
        _Option("password", "password", str, _ALL),
        _Option("passwordEnv", "password_env", str, _ALL),
        _Option("mode", "mode", _choice("auto", "ranges", "spool"), _SOURCE),
        _Option("selector", "selector", str, _SOURCE),
        _Option(
            "partitions", "partitions", _number(1), _SOURCE - {Role.BROWSE},
            {Role.BROWSE: "set mode=ranges: one task browses a queue"},
        ),
        _Option(
            "startingOffset", "starting_offset", _offset(EARLIEST, LATEST),
            _SOURCE - {Role.BROWSE}, {Role.BROWSE: _USE_RANGES},
        ),
        _Option(
            "endingOffset", "ending_offset", _offset(LATEST), frozenset((Role.SNAPSHOT,)),
            {Role.BROWSE: _USE_RANGES, **_IN_STREAMS},
        ),
        _Option("startingTimestamp", "starting_timestamp", read_time, _BATCH | {Role.RANGES}),
        _Option("endingTimestamp", "ending_timestamp", read_time, _BATCH, _IN_STREAMS),
        _Option("failOnMissing", "fail_on_missing", _boolean, _BATCH),
        _Option(
            "maxMessagesPerTrigger", "max_messages_per_trigger", _number(1), _STREAM, _IN_BATCHES
        ),
        _Option("maxBytesPerTrigger", "max_bytes_per_trigger", _number(1), _STREAM, _IN_BATCHES),
        _Option(
            "minMessagesPerTrigger", "min_messages_per_trigger", _number(1), _STREAM, _IN_BATCHES
        ),
        _Option("maxTriggerDelay", "max_trigger_delay", _seconds, _STREAM, _IN_BATCHES),
        _Option("pollTimeout", "poll_timeout", _seconds, _STREAM),
        _Option("ackOn", "ack_on", _choice("finished", "commit"), _STREAM),
        _Option("failOnDataLoss", "fail_on_data_loss", _boolean, _STREAM),
        _Option(
            "spool", "spool", _folder, frozenset((Role.SPOOL,)),
            {Role.BROWSE: _NOTHING_KEPT, Role.SNAPSHOT: _NOTHING_KEPT},
        ),
        _Option("owner", "owner", str, frozenset((Role.RANGES,))),
        _Option("clientId", "client_id", str, frozenset((Role.SPOOL,))),
        _Option("subscription", "subscription", str, frozenset((Role.SPOOL,))),
        _Option("exactlyOnce", "exactly_once", _choice("off", "ids", "epoch"), _SINK),
        _Option("idColumn", "id_column", str, _SINK),
        _Option("mapOnly", "map_only", _boolean, _SINK),
        _Option("queryId", "query_id", str, _SINK),
        _Option("batchId", "batch_id", _number(0), _SINK),
        _Option("checkpointLocation", "checkpoint_location", str, _SINK),
        _Option(BODY_SCHEMA, "body_schema", str, _STREAM),
    )
}  # fmt: skip
"""All options; the key is the name as Spark passes it on."""


def _list(prefix: str = "") -> Callable[[str], frozenset[str] | None]:
    def read(text: str) -> frozenset[str] | None:
        names = [name.strip() for name in text.split(",") if name.strip()]
        return frozenset(name if "://" in name else prefix + name for name in names) or None

    return read


def _folders(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _optional_time(text: str) -> int | None:
    return read_time(text) if text else None


def _until(text: str) -> int | None:
    return read_time(text) - 1 if text else None


def _location(text: str) -> tuple[int, int]:
    file, colon, offset = text.partition(":")
    if not (colon and file.isascii() and file.isdigit() and offset.isascii() and offset.isdigit()):
        raise ValueError("is not FILE:OFFSET, by the columns file_id and offset, such as 3:4096")
    return int(file), int(offset)


_RECORDS: Final = frozenset((Role.RECORDS,))
_ONLY_RECORDS: Final = {
    Role.MESSAGES: "remove it: whether a message was consumed is known from the whole journal only"
}
JOURNAL_OPTIONS: Final[dict[str, _Option]] = {
    option.spelling.lower(): option
    for option in (
        _Option("path", "folders", _folders, _JOURNAL),
        _Option("view", "view", _choice("records", "messages"), _JOURNAL),
        _Option("columns", "columns", str, _JOURNAL),
        _Option("destination", "destinations", _list("queue://"), _JOURNAL),
        _Option("command", "commands", _list(), _RECORDS, _ONLY_RECORDS),
        _Option("since", "earliest", _optional_time, _JOURNAL),
        _Option("until", "latest", _optional_time, _JOURNAL),
        _Option("startingTimestamp", "earliest", _optional_time, _JOURNAL),
        _Option("endingTimestamp", "latest", _until, _JOURNAL),
        _Option("startingOffset", "start", _location, _RECORDS, _ONLY_RECORDS),
        _Option("endingOffset", "end", _location, _RECORDS, _ONLY_RECORDS),
        _Option("partitionBytes", "partition_bytes", _number(1), _RECORDS, _ONLY_RECORDS),
        _Option("storeOpenWireVersion", "version", _number(1), _JOURNAL),
    )
}
"""The options of `jms-journal`."""

_TARGET: Final = 'destination, or the name in load("queue://orders")'
_NAMES_ELSEWHERE: Final[dict[str, tuple[str, str]]] = {
    spelling.lower(): (spelling, ours)
    for spelling, ours in (
        ("subscribe", _TARGET),
        ("subscribePattern", f"{_TARGET}, which may be a pattern: orders.>"),
        ("assign", _TARGET),
        ("topic", f"{_TARGET}: topic://prices"),
        ("queue", _TARGET),
        ("kafka.bootstrap.servers", "url, the tcp:// URL of the broker"),
        ("brokerUrl", "url"),
        ("host", "url, the tcp:// URL of the broker"),
        ("username", "user"),
        ("startingOffsets", "startingOffset, a single number, earliest or latest"),
        ("endingOffsets", "endingOffset, a single number or latest"),
        ("startingOffsetsByTimestamp", "startingTimestamp"),
        ("endingOffsetsByTimestamp", "endingTimestamp"),
        ("maxOffsetsPerTrigger", "maxMessagesPerTrigger"),
        ("minOffsetsPerTrigger", "minMessagesPerTrigger"),
        ("minPartitions", "partitions"),
        ("groupIdPrefix", "owner, which has the lease of the queue"),
        ("kafka.group.id", "owner, which has the lease of the queue"),
        ("includeHeaders", "the column properties, which is always there"),
        ("filter", "selector"),
    )
}
"""What users of Kafka's connector and of other libraries try, and its name here."""
