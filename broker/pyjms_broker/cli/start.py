"""`pyjms broker start`: create a broker and run it until a signal stops it.

The log of the command line is escaped: names chosen by clients cannot forge or hide log lines. The
loggers of pyjms and the broker escape the values in their records themselves; the formatter here
does so for the records of all other libraries.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from pyjms.cli.logs import LogOutput, log_levels
from pyjms.configuration.document import BROKER_PREFIX
from pyjms.errors import ConfigurationException, IllegalStateException, JMSException
from pyjms.runtime.event_loop import end_tasks, loop_options, spawn
from pyjms.runtime.logging import LogFormat, escape_control_characters, get_logger, indent
from pyjms_broker.service import BrokerService

if TYPE_CHECKING:
    from pyjms_broker.settings.model import BrokerLoggingSettings
    from pyjms_broker.web.configuration import WebConfiguration

logger = get_logger(__name__)

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"


def notify(state: str) -> None:
    """Send a state to the service manager that started this process, if there is one."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]  # Linux's abstract socket namespace
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect(address)
            sender.send(state.encode("ascii"))
    except OSError as error:
        logger.warning("The service manager could not be notified of %s: %s", state, error)


class LineFormatter(logging.Formatter):
    """Formats a message as one line with its control characters escaped.

    The lines of a traceback are indented, so that they cannot be mistaken for log lines.
    """

    def format(self, record: logging.LogRecord) -> str:
        if record.exc_info:
            record.exc_text = None  # may be cached by another formatter
        try:
            return super().format(record)
        finally:
            record.exc_text = None

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        record.message = escape_control_characters(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:  # noqa: N802 - logging's name
        return indent(super().formatException(ei))  # type: ignore[arg-type]


DEFAULT_OPENWIRE = "127.0.0.1:61616"
_LAST_PORT: Final = 65_535

GC_THRESHOLDS = (10_000, 2, 800)
"""Thresholds of Python's garbage collector (`gc.set_threshold`), far above its defaults.

The second collection goes through 30,000 objects, which takes 10 to 20 ms.
"""

CLEAN, FAILED, REFUSED = 0, 1, 2


@dataclass(frozen=True)
class Source:
    """The source of the configuration: a broker URI, a file, or neither."""

    uri: str | None = None
    config: Path | None = None
    define: list[str] | None = None
    """The NAME=VALUE pairs of `-D`, for a broker URI."""
    properties: list[Path] | None = None
    ignore_unsupported: bool = False


def run(
    source: Source,
    *,
    data: Path | None,
    ephemeral: bool,
    openwire: str | None,
    name: str | None,
    web: str | None = None,
    log_format: LogFormat | None = None,
    log_level: Sequence[str] = (),
) -> int:
    """Run a broker until it stops; return exit code 0 (stopped), 1 (failed) or 2 (bad options)."""
    text = LineFormatter("%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        log = LogOutput(text=text, log_format=log_format, levels=log_levels(log_level))
        log.hold()
        service = make_service(source, data, ephemeral, openwire, name, web, log=log)
        _apply_logging(service)
    except ConfigurationException as error:
        return _report(error, REFUSED)
    _tune_garbage_collection()
    try:
        service = anyio.run(serve, service, backend_options=loop_options())
    except ConfigurationException as error:
        return _report(error, REFUSED)
    except JMSException as error:
        return _report(error, FAILED)
    return FAILED if service.store_failed else CLEAN


def _tune_garbage_collection() -> None:
    """Collect garbage less often: a backlog consists of many objects, none of them garbage."""
    gc.freeze()  # modules never become garbage, and a collection would take as long as the start
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()


def make_service(
    source: Source,
    data: Path | None = None,
    ephemeral: bool = False,
    openwire: str | None = None,
    name: str | None = None,
    web: str | None = None,
    *,
    log: LogOutput | None = None,
) -> BrokerService:
    """Create the broker that the options and the configuration file describe.

    `log` is the log that a broker of this process may change.
    """
    given = (data, ephemeral, openwire, name, web)
    if data is not None and ephemeral:
        raise ConfigurationException(
            "--data and --ephemeral contradict each other", hint="leave one of them out"
        )
    service = _create_service(source)
    if data is not None and not service.persistent:
        raise ConfigurationException(
            "--data contradicts persistent: false in the configuration",
            hint="leave one of them out",
        )
    if name is not None:
        service.broker_name = name
    if ephemeral:
        service.persistent = False
    if data is not None:
        service.persistent = True
        service.data_directory = data
        persistence = service.persistence
        name = None if persistence is None else persistence.directory_name
        service.store_directory = None if name is None else data / name.lower()
    if openwire is not None or not (service.connectors or _says_connectors(source, service)):
        service.connectors.clear()
        service.add_connector(f"tcp://{openwire or DEFAULT_OPENWIRE}", name="openwire")
    if web is not None:
        service.web = _web_at(web, service.web)
    service.change_logging = None if log is None else partial(_change_logging, log)
    service.read_again = partial(make_service, source, *given, log=log)
    return service


def _change_logging(log: LogOutput, settings: BrokerLoggingSettings | None) -> None:
    if settings is None:
        log.apply_defaults()
        return
    from pyjms_broker.security.audit import logger as audit

    log.apply(settings, {audit.name: settings.audit})


def _apply_logging(service: BrokerService) -> None:
    """Write the log as the settings of the broker say, or their defaults."""
    settings = service.settings
    if service.change_logging is not None:
        service.change_logging(None if settings is None else settings.logging)


def _web_at(address: str, configured: WebConfiguration | None) -> WebConfiguration:
    """Return the configuration of the web server with the address `[HOST:]PORT`."""
    from pyjms_broker.web.configuration import WebConfiguration

    host, _, port = address.rpartition(":")
    if not port.isdecimal() or int(port) > _LAST_PORT:
        raise ConfigurationException(
            f"--web {address}: that is no address", hint="write a port, 8161, or HOST:PORT"
        )
    web = configured or WebConfiguration()
    return replace(web, enabled=True, host=host.strip("[]") or web.host, port=int(port))


def _says_connectors(source: Source, service: BrokerService) -> bool:
    """Return whether the configuration says which connectors there are, be it none."""
    settings = service.settings
    return source.uri is not None or (
        settings is not None and "connectors" in settings.model_fields_set
    )


def _create_service(source: Source) -> BrokerService:
    """Create the broker from the broker URI, or from the file and the environment."""
    config = source.config
    if source.uri is not None:
        if config is not None:
            raise ConfigurationException(
                f"the broker URI {source.uri} and --config contradict each other",
                hint="leave one of them out",
            )
        from pyjms_broker.cli.config import given_properties

        given = given_properties(source.define, source.properties)
        return service_from_uri(source.uri, given, ignore_unsupported=source.ignore_unsupported)
    # without a file the broker has a scheduler, which ActiveMQ's has not: a delay is no surprise
    if config is None and not any(name.startswith(BROKER_PREFIX) for name in os.environ):
        return BrokerService(scheduler_support=True)
    from pyjms_broker.settings import load_broker_settings

    settings = load_broker_settings(config)
    service = BrokerService.from_settings(settings)
    if config is None and "scheduler_support" not in settings.model_fields_set:
        service.scheduler_support = True
    return service


async def serve(service: BrokerService) -> BrokerService:
    """Run `service` until SIGTERM or SIGINT, or until it stops by itself; return the last run's.

    A signal also ends the wait for the store lock. A restart that was requested runs the broker
    of the configuration read again. A broker that loses its lock restarts as a
    slave if `restart_allowed` is set. SIGHUP reloads the configuration
    if the plug-in `runtime_configuration` is active.
    """
    stopping = False
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:

        async def stop_on_signal() -> None:
            nonlocal stopping
            async for received in signals:
                if received == signal.SIGHUP:
                    await _update(service)
                    continue
                stopping = True
                notify(STOPPING)
                logger.info("Stopping on %s", signal.Signals(received).name)
                await service.stop()
                return

        waiter = spawn(stop_on_signal, name="broker stop on signal")
        try:
            restart = True
            while restart:
                async with service:
                    _print_addresses(service)
                    notify(READY)
                    await service.wait_until_stopped()
                restart = service.restart_requested and not stopping
                if restart and service.successor is not None:
                    service = service.successor
                    _apply_logging(service)
        except IllegalStateException:
            if not stopping:
                raise
        finally:
            await end_tasks(waiter)
    return service


async def _update(service: BrokerService) -> None:
    """Reload the configuration."""
    configuration = service.updates
    if configuration is None or not service.started:
        logger.warning(
            "SIGHUP: the configuration was not reloaded: %s",
            "the broker has not started"
            if not service.started
            else "add the plug-in runtime_configuration, which applies changes of the file",
        )
        return
    try:
        await configuration.update(read_users=True)
    except ConfigurationException as error:
        logger.error("SIGHUP: the changed configuration was not applied: %s", error)
    except Exception:
        logger.exception("SIGHUP: the changed configuration could not be applied")


def _print_addresses(service: BrokerService) -> None:
    for connector in service.connectors:
        print(f"{connector.name} accepts connections at {connector.connect_uri}", flush=True)
    if service.website.url is not None:
        print(f"the web console is at {service.website.url}", flush=True)
    directory = service.stores.directory
    where = "in memory only" if directory is None else f"in {directory}"
    print(f"broker {service.broker_name} keeps its messages {where}", flush=True)


def _report(error: JMSException, code: int) -> int:
    print(f"pyjms broker start: {error}", file=sys.stderr)
    return code


def service_from_uri(
    uri: str, given: Mapping[str, str], *, ignore_unsupported: bool = False
) -> BrokerService:
    """Create the broker that a URI describes; blocking."""
    if uri.startswith("xbean:"):
        from pyjms_broker.conversion.broker import from_xml

        return from_xml(uri, given, ignore_unsupported=ignore_unsupported)
    from pyjms_broker.service.factories import create_broker

    return create_broker(uri, given)


def store_directory_of(config: str) -> Path:
    """Return the message store's directory in a configuration; blocking."""
    scheme = config.partition(":")[0]
    if scheme in {"xbean", "properties", "broker"}:
        service = service_from_uri(config, {}, ignore_unsupported=True)
    elif config.lower().endswith(".xml"):
        service = service_from_uri(f"xbean:{config}", {}, ignore_unsupported=True)
    else:
        from pyjms_broker.settings import load_broker_settings

        service = BrokerService.from_settings(load_broker_settings(Path(config)))
    directory = service.stores.directory
    if directory is None:
        raise ConfigurationException(
            f"The broker of {config} has no message store in a directory",
            hint="export from a running broker with --url",
        )
    return directory
