"""The options of the format `jms`, read from the texts that Spark passes on.

Spark lower-cases their names. Error messages never contain a value, as it may be a password.
(spark-pipeline 3.4, 6.1)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from pyjms.errors import ConfigurationException, nearest_name
from pyjms.jms.destination import Destination, parse_destination
from pyjms.runtime.paths import check_shared_folder

SOURCE_ONLY: Final = "source"
SINK_ONLY: Final = "sink"
_BOTH: Final = "source and sink"
_SPARKS_OWN: Final = frozenset(("queryname",))
_TRUE: Final = {"true": True, "false": False}


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
    starting_offset: str = "earliest"
    poll_timeout: float = 0.25
    ack_on: str = "finished"
    fail_on_data_loss: bool = True
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

    def __repr__(self) -> str:
        return f"JmsOptions({self.destination})"

    def secret(self) -> str | None:
        """Return the password: the option, or the environment variable of this process.

        Raises:
            ConfigurationException: the variable is not set here.
        """
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
        """The destination: `queue://a`, `topic://a`, or a queue's name.

        Raises:
            ConfigurationException: there is none.
        """
        if not self.destination:
            raise ConfigurationException(
                "jms: option destination is missing", hint='load("queue://orders")'
            )
        return parse_destination(self.destination)


def read_options(options: Mapping[str, str], role: str) -> JmsOptions:
    """Read the options of a `source` or a `sink`.

    Raises:
        ConfigurationException: an option is unknown, missing, of the other role or not valid, or
            has no effect together with another one.
    """
    given: dict[str, Any] = {}
    for name, text in options.items():
        option = OPTIONS.get(name.lower())
        if name.lower() in _SPARKS_OWN:
            continue
        if option is None:
            near = nearest_name(name.lower(), OPTIONS)
            raise ConfigurationException(
                f"jms: unknown option {name}",
                hint=f"did you mean {OPTIONS[near].spelling}?" if near else
                "the options are " + ", ".join(o.spelling for o in OPTIONS.values()),
            )  # fmt: skip
        if option.role not in (role, _BOTH):
            raise ConfigurationException(
                f"jms: option {option.spelling} is for a {option.role}, but this is a {role}"
            )
        try:
            given[option.field] = option.read(text)
        except ValueError as error:
            raise ConfigurationException(f"jms: option {option.spelling} {error}") from None
    if not given.get("url"):
        raise ConfigurationException(
            "jms: option url is missing", hint='option("url", "tcp://localhost:61616")'
        )
    if given["url"].startswith("vm:"):
        raise ConfigurationException(
            "jms: option url is a vm:// URL, but Spark reads and writes in other processes",
            hint="give the broker a tcp:// connector, and set url to its URL",
        )
    made = JmsOptions(**given)
    if made.mode == "spool":
        check_starting_offset(made)
    return made


def check_starting_offset(options: JmsOptions) -> None:
    """Check that options for reading through a spool do not set a starting offset.

    Raises:
        ConfigurationException: they do; a spool starts with what is on the queue.
    """
    if options.starting_offset != "earliest":
        raise ConfigurationException(
            f"jms: startingOffset {options.starting_offset} has no effect through a spool, which "
            "starts with all messages on the queue",
            hint="remove it; only ranges, with a broker that serves them, can start elsewhere",
        )


@dataclass(frozen=True)
class _Option:
    """An option: its name, its field in `JmsOptions`, its parser, and its role."""

    spelling: str
    field: str
    read: Callable[[str], object]
    role: str


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


def _offset(text: str) -> str:
    if text.lower() not in {"earliest", "latest"} and not text.isdigit():
        raise ValueError("is not earliest, latest or a sequence number")
    return text.lower()


OPTIONS: Final[dict[str, _Option]] = {
    option.spelling.lower(): option
    for option in (
        _Option("url", "url", str, _BOTH),
        _Option("destination", "destination", str, _BOTH),
        _Option("path", "destination", str, _BOTH),  # set by load("NAME") and save("NAME")
        _Option("user", "user", str, _BOTH),
        _Option("password", "password", str, _BOTH),
        _Option("passwordEnv", "password_env", str, _BOTH),
        _Option("selector", "selector", str, SOURCE_ONLY),
        _Option("partitions", "partitions", _number(1), SOURCE_ONLY),
        _Option("maxMessagesPerTrigger", "max_messages_per_trigger", _number(1), SOURCE_ONLY),
        _Option("maxBytesPerTrigger", "max_bytes_per_trigger", _number(1), SOURCE_ONLY),
        _Option("startingOffset", "starting_offset", _offset, SOURCE_ONLY),
        _Option("pollTimeout", "poll_timeout", _seconds, SOURCE_ONLY),
        _Option("ackOn", "ack_on", _choice("finished", "commit"), SOURCE_ONLY),
        _Option("failOnDataLoss", "fail_on_data_loss", _boolean, SOURCE_ONLY),
        _Option("mode", "mode", _choice("auto", "ranges", "spool"), SOURCE_ONLY),
        _Option("spool", "spool", _folder, SOURCE_ONLY),
        _Option("owner", "owner", str, SOURCE_ONLY),
        _Option("clientId", "client_id", str, SOURCE_ONLY),
        _Option("subscription", "subscription", str, SOURCE_ONLY),
        _Option("exactlyOnce", "exactly_once", _choice("off", "ids", "epoch"), SINK_ONLY),
        _Option("idColumn", "id_column", str, SINK_ONLY),
        _Option("mapOnly", "map_only", _boolean, SINK_ONLY),
        _Option("queryId", "query_id", str, SINK_ONLY),
        _Option("batchId", "batch_id", _number(0), SINK_ONLY),
        _Option("checkpointLocation", "checkpoint_location", str, SINK_ONLY),
    )
}
assert {option.field for option in OPTIONS.values()} == {f.name for f in fields(JmsOptions)}
