"""The location of a pipeline: its broker, and the folder of its checkpoint, spool and status.

The broker is one that Spark's processes can reach, so never `vm://`. For trying pipelines out,
`--once` with `activemq.embedded.enabled: true` starts an in-memory broker on a free port; it is
found through the entry points `pyjms.embedded_brokers`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import anyio

from pyjms.client.factory import ConnectionFactory
from pyjms.errors import ConfigurationException, UnsupportedOperationException
from pyjms.runtime.logging import get_logger
from pyjms.settings import ActiveMQSettings, PyjmsSettings
from pyjms.spark.pipeline.definition import Pipeline
from pyjms.support.embedded_broker import embedded_broker
from pyjms.transport.registry import create_transport
from pyjms.transport.uri import TransportURI

__all__ = [
    "BrokerLocation",
    "PipelineLocation",
    "broker_of",
    "running_embedded_broker",
    "uses_embedded_broker",
]

_VARIABLE_OPTION: Final = "passwordEnv"


@dataclass(frozen=True, kw_only=True)
class PipelineLocation:
    """The broker of a pipeline and its folder, which all machines of a cluster have to reach.

    With `password_env`, the name of an environment variable, the password stays out of Spark's
    plans; the variable has to be set for driver and executors before Spark starts.
    """

    url: str
    folder: Path
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    password_env: str | None = None

    @property
    def checkpoint(self) -> Path:
        """Spark's checkpoint: offsets, commits, state."""
        return self.folder / "checkpoint"

    @property
    def fingerprint(self) -> Path:
        """The file that identifies the pipeline of the checkpoint."""
        return self.folder / "pyjms-pipeline.json"

    def spool(self, source: str) -> Path:
        """Return the spool folder of a source, for a broker that does not serve ranges."""
        return self.folder / "spool" / source

    def options(self, pipeline: Pipeline) -> dict[str, str]:
        """Return the options for connecting; a pipeline may set its own passwordEnv."""
        own = pipeline.options_of_source.items()
        variable = next((v for k, v in own if k.lower() == _VARIABLE_OPTION.lower()), None)
        variable = variable or self.password_env
        given = {
            "url": self.url,
            "user": self.user,
            _VARIABLE_OPTION: variable,
            "password": self.password if variable is None else None,
        }
        return {key: text for key, text in given.items() if text is not None}

    def source_options(self, pipeline: Pipeline, source: str, owner: str) -> dict[str, str]:
        """Return the options of one source of a pipeline."""
        limit = pipeline.max_messages_per_trigger
        return {
            **pipeline.options_of_source,
            **self.options(pipeline),
            "partitions": str(pipeline.partitions),
            "owner": owner,
            "spool": str(self.spool(source).absolute()),
            **({} if limit is None else {"maxMessagesPerTrigger": str(limit)}),
        }


logger: Final = get_logger(__name__)


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

    Raises:
        ConfigurationException: the name is unknown, the client does not support its URL, or
            Spark's processes cannot reach the broker.
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


@asynccontextmanager
async def running_embedded_broker() -> AsyncIterator[str]:
    """Run an in-memory broker while the block runs; yields its tcp:// URL.

    Raises:
        ResourceAllocationException: no embedded broker is installed.
    """
    broker = embedded_broker()
    await broker.start()
    try:
        url = await broker.tcp_url()
        logger.warning(
            "Running on an empty in-memory broker, %s; its messages are lost at the end", url
        )
        yield url
    finally:
        with anyio.CancelScope(shield=True):
            await broker.stop()


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
