"""The `jms.*` options of broker URLs, and the keywords of a ConnectionFactory: one table.

Durations are milliseconds in the URL and seconds here. Options of ActiveMQ that do not apply to
this client are accepted and logged once at INFO; an unknown name is an error. (activemq-edges 2)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeVar, cast

from pyjms.client.policies import (
    BlobTransferPolicy,
    PrefetchPolicy,
    RedeliveryPolicy,
    RedeliveryPolicyMap,
    upload_url,
)
from pyjms.errors import ConfigurationException
from pyjms.runtime.clock import FOR_EVER, check_seconds
from pyjms.runtime.keywords import refuse_unknown_keywords
from pyjms.runtime.logging import get_logger
from pyjms.transport.options import at_least, boolean, camel_case, integer
from pyjms.transport.uri import did_you_mean, is_secret

logger: Final = get_logger(__name__)

T = TypeVar("T")


@dataclass
class ClientOptions:
    """The options of a ConnectionFactory; each connection has a copy, made on creation.

    The policies are not copied: changing them affects all connections. Durations are seconds.
    (activemq-broker R7)
    """

    client_id: str | None = None
    """The client id; None: generated on first use. No two connections can have the same one."""
    client_id_prefix: str | None = None
    connection_id_prefix: str | None = None

    always_session_async: bool = True
    """False: the listeners of all sessions of a connection are called one at a time."""
    always_sync_send: bool = False
    """Every send waits for the broker."""
    use_async_send: bool = False
    """No send waits, not even persistent ones: messages that the broker refuses are lost."""
    send_timeout: float | None = None
    """If set, every send waits for the broker, at most this long; None: no limit."""
    close_timeout: float | None = 15.0
    """How long closing a connection waits for the broker."""
    connect_response_timeout: float | None = 30.0
    """How long the start of a connection waits for a broker's answers; None: for ever."""
    copy_message_on_send: bool = True
    """False: a message becomes read-only when it is sent, as in ActiveMQ, which shares it."""
    disable_time_stamps_by_default: bool = False
    nested_map_and_list_enabled: bool = True
    use_compression: bool = False
    producer_window_size: int = 0
    """Bytes that a producer may have sent asynchronously without a ProducerAck; 0: no limit."""

    watch_topic_advisories: bool = True
    """Track temporary destinations, so that sending to a deleted one fails at once."""
    check_for_duplicates: bool = True
    audit_depth: int = 2048
    audit_maximum_producer_number: int = 64
    consumer_expiry_check_enabled: bool = True
    consumer_failover_redelivery_wait_period: float = 0.0
    """How long a commit waits for the redelivery of messages that were delivered before a
    reconnection."""
    dispatch_async: bool = True
    exclusive_consumer: bool = False
    max_inflated_data_size_ratio: int = 10
    """The maximum size of an inflated body, as a multiple of the largest frame
    (`wireFormat.maxFrameSize`); at most 100 MiB."""
    use_retroactive_consumer: bool = False
    message_priority_supported: bool = False
    """Sort prefetched messages by priority."""
    non_blocking_redelivery: bool = False
    """Deliver later messages while a redelivery is delayed."""
    optimize_acknowledge: bool = False
    """AUTO sessions acknowledge in ranges, at 65 % of the prefetch."""
    optimize_acknowledge_time_out: float = 0.3
    """Acknowledge also if a message arrives this long after the last acknowledgement; 0: never."""
    optimized_ack_scheduled_ack_interval: float = 0.0
    """The interval of a timer that also acknowledges; 0: no timer."""
    optimized_message_dispatch: bool = True
    """Durable subscribers of AUTO sessions use `optimize_durable_topic_prefetch`."""
    rm_id_from_connection_id: bool = False
    """XA resources are the same only if they share a connection; False: if they share a broker."""
    send_acks_async: bool = True
    """False: acknowledgements outside transactions wait for the broker."""
    stats_enabled: bool = False
    """Connections, and what they create, have statistics (`connection.stats`)."""
    transacted_individual_ack: bool = False
    warn_about_unstarted_connection_timeout: float = 0.5
    """Warn if a message arrives this long after an unstarted session was created; <= 0: never."""

    blob_transfer_policy: BlobTransferPolicy = field(default_factory=BlobTransferPolicy)
    prefetch_policy: PrefetchPolicy = field(default_factory=PrefetchPolicy)
    redelivery_policy_map: RedeliveryPolicyMap = field(default_factory=RedeliveryPolicyMap)

    def check(self) -> None:
        """Check the types of all options, and the range of those that are numbers.

        Raises:
            TypeError: one has the wrong type: the text "false" would count as true.
            ValueError: a duration is not finite, or negative where that has no meaning; a ratio is
                less than 1.
        """
        for name, kind in _TYPES.items():
            value = getattr(self, name)
            # a bool is an int as well
            if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
                expected = "str or None" if name in _TEXTS else cast("type", kind).__name__
                raise TypeError(f"{name} must be {expected}, not {type(value).__name__}")
        if self.max_inflated_data_size_ratio < 1:
            raise ValueError(
                "max_inflated_data_size_ratio must be 1 or more, not "
                f"{self.max_inflated_data_size_ratio}"
            )
        for name in _DURATIONS:
            value = getattr(self, name)
            optional = name in _OPTIONAL_DURATIONS
            if value is not None or not optional:
                least = None if name == "warn_about_unstarted_connection_timeout" else 0.0
                check_seconds(name, value, least=least, otherwise=FOR_EVER if optional else "")


_TEXTS: Final = {f.name for f in fields(ClientOptions) if f.type == "str | None"}
_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    **dict.fromkeys(_TEXTS, (str, type(None))),
    **{f.name: bool for f in fields(ClientOptions) if f.type == "bool"},
    **{f.name: int for f in fields(ClientOptions) if f.type == "int"},
    "blob_transfer_policy": BlobTransferPolicy,
    "prefetch_policy": PrefetchPolicy,
    "redelivery_policy_map": RedeliveryPolicyMap,
}
_DURATIONS: Final = {f.name for f in fields(ClientOptions) if str(f.type).startswith("float")}
_OPTIONAL_DURATIONS: Final = {f.name for f in fields(ClientOptions) if f.type == "float | None"}


Parser = Callable[[str], object]


def _seconds(text: str) -> float:
    return int(text) / 1000


def _seconds_or_never(text: str) -> float | None:
    return int(text) / 1000 if int(text) > 0 else None


def _seconds_or_unlimited(text: str) -> float | None:
    return int(text) / 1000 if int(text) >= 0 else None


_positive: Final = at_least(1, "write a number, 1 at least")
_PARSERS: Final[dict[str, Parser]] = {
    "send_timeout": _seconds_or_never,
    "close_timeout": _seconds_or_never,
    "connect_response_timeout": _seconds_or_never,
    "consumer_failover_redelivery_wait_period": _seconds,
    "optimize_acknowledge_time_out": _seconds,
    "optimized_ack_scheduled_ack_interval": _seconds,
    "warn_about_unstarted_connection_timeout": _seconds,
    "initial_redelivery_delay": _seconds,
    "redelivery_delay": _seconds,
    "maximum_redelivery_delay": _seconds_or_unlimited,
    "back_off_multiplier": float,
    "upload_url": upload_url,
    "broker_upload_url": upload_url,
    "default_upload_url": upload_url,
    "buffer_size": _positive,
    "max_inflated_data_size_ratio": _positive,
}
_BY_TYPE: Final[dict[str, Parser]] = {"bool": boolean, "int": integer, "str | None": str}
_SPELLINGS: Final = {
    "client_id": "clientID",
    "client_id_prefix": "clientIDPrefix",
    "connection_id_prefix": "connectionIDPrefix",
}

_THREADS = "listeners run on the event loop, those of the blocking API in a thread each"
_JAVA_OBJECTS = "serialized Java objects are passed as bytes, and never deserialized"
IGNORED: Final[Mapping[str, str]] = {
    "maxThreadPoolSize": _THREADS,
    "objectMessageSerializationDefered": _JAVA_OBJECTS,
    "trustAllPackages": _JAVA_OBJECTS,
    "trustedPackages": _JAVA_OBJECTS,
    "useDedicatedTaskRunner": _THREADS,
}
"""Options of ActiveMQ that do not apply to this client, and why. They are logged when given."""

ONLY_IN_ACTIVEMQ: Final[Mapping[str, str]] = {
    "dispatchAsync": "it selects a thread of ActiveMQ's broker; the bundled one has an event loop",
}
"""Options that are sent, but only affect brokers in Java, and why. They are logged as well."""


def _camel(name: str) -> str:
    return _SPELLINGS.get(name) or camel_case(name)


def _table(kind: Any, prefix: str = "", path: str = "") -> dict[str, tuple[str, Parser]]:
    """Return the fields of a dataclass by their URL names, with path and parser."""
    return {
        prefix + _camel(f.name): (path + f.name, _PARSERS.get(f.name) or _BY_TYPE[str(f.type)])
        for f in fields(kind)
        if f.name in _PARSERS or str(f.type) in _BY_TYPE
    }


JMS_OPTIONS: Final[dict[str, tuple[str, Parser]]] = {
    "userName": ("user_name", str),
    "password": ("password", str),
    "prefetchPolicy.all": ("prefetch_policy.all", integer),
    **_table(ClientOptions),
    **_table(BlobTransferPolicy, "blobTransferPolicy.", "blob_transfer_policy."),
    **_table(PrefetchPolicy, "prefetchPolicy.", "prefetch_policy."),
    **_table(RedeliveryPolicy, "redeliveryPolicy.", "redelivery_policy."),
}
"""By URL name without `jms.`: the path of the attribute, and the parser of the text."""


def refuse_unknown(
    given: Mapping[str, str], known: Collection[str], kind: str, class_name: str, owner: str
) -> None:
    """Check that all options are known.

    Raises:
        ConfigurationException: some are not; the text is ActiveMQ's.
    """
    unknown = {name: text for name, text in given.items() if name not in known}
    if unknown:
        listed = ", ".join(
            f"{name}={'***' if is_secret(name) else text}" for name, text in unknown.items()
        )
        raise ConfigurationException(
            f"There are {len(unknown)} {kind} that couldn't be set on the {class_name}."
            " Check the options are spelled correctly."
            f" Unknown parameters=[{{{listed}}}]. This {owner} cannot be started.",
            hint=did_you_mean(unknown, known),
        )


def apply_options(given: Mapping[str, str], options: ClientOptions) -> dict[str, str]:
    """Set the options `given` (names without `jms.`); return `user_name` and `password`, if given.

    Raises:
        ConfigurationException: a name is unknown, or a value invalid. (activemq-edges N1)
    """
    refuse_unknown(given, _KNOWN, "jms options", "ConnectionFactory", "connection factory")
    credentials: dict[str, str] = {}
    for name in JMS_OPTIONS.keys() & given.keys():
        path, read = JMS_OPTIONS[name]
        _set(options, credentials, path, read_option(f"jms.{name}", given[name], read))
    _log_without_effect(given)
    return credentials


def apply_keywords(given: Mapping[str, object], options: ClientOptions) -> None:
    """Set the options `given` as keywords.

    Raises:
        TypeError: one is not an option, or has the wrong type.
        ValueError: one is out of range.
    """
    known = ("user", "password", "redelivery_policy", *(f.name for f in fields(ClientOptions)))
    refuse_unknown_keywords("ConnectionFactory", given, known)
    for name, value in given.items():
        setattr(options, name, value)
    options.check()
    _log_without_effect(map(_camel, given))


def _log_without_effect(given: Iterable[str]) -> None:
    ignored = {**IGNORED, **ONLY_IN_ACTIVEMQ}
    if names := sorted(ignored.keys() & {*given}):
        reasons = ", ".join(f"{name} ({ignored[name]})" for name in names)
        logger.info("jms options accepted without effect here: %s", reasons)


_KNOWN: Final = JMS_OPTIONS.keys() | IGNORED.keys()


def read_option(name: str, text: str, read: Callable[[str], T]) -> T:
    """Return what `read` makes of the text of an option.

    Raises:
        ConfigurationException: it raises a ValueError.
    """
    try:
        return read(text)
    except ValueError as error:
        raise ConfigurationException(
            f"Invalid value '{text}' of the option {name}", hint=str(error)
        ) from error


def _set(options: ClientOptions, credentials: dict[str, str], path: str, value: Any) -> None:
    policy, dot, name = path.partition(".")
    if path in ("user_name", "password"):
        credentials[path] = value
    elif not dot:
        setattr(options, path, value)
    elif path == "prefetch_policy.all":
        options.prefetch_policy.set_all(value)
    elif policy in ("prefetch_policy", "blob_transfer_policy"):
        setattr(getattr(options, policy), name, value)
    else:
        setattr(options.redelivery_policy_map.default_entry, name, value)
