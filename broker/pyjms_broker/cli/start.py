"""`pyjms broker start`: make the broker, say where it listens, wait for a signal, stop."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from pathlib import Path

import anyio

from pyjms._wakeup import loop_options, spawn
from pyjms.errors import ConfigurationException, IllegalStateException, JMSException
from pyjms_broker.service import BrokerService

__all__ = ["run", "serve"]

logger = logging.getLogger(__name__)

DEFAULT_OPENWIRE = "127.0.0.1:61616"
_ENVIRONMENT = "PYJMS_BROKER__"  # also in pyjms_broker.settings, which takes its time to import

# Objects between two looks at the young, looks at the young between two at the middle-aged,
# and those between two at all.
_COLLECTOR = (10_000, 20, 100)

CLEAN, FAILED, REFUSED = 0, 1, 2


def run(
    *,
    config: Path | None,
    data: Path | None,
    ephemeral: bool,
    openwire: str | None,
    name: str | None,
) -> int:
    """Run a broker to its end and return the exit code: 0 stopped, 1 failed, 2 refused."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        service = make_service(config, data, ephemeral, openwire, name)
    except ConfigurationException as error:
        return _complain(error, REFUSED)
    _look_for_garbage_seldom()
    try:
        anyio.run(serve, service, backend_options=loop_options())
    except ConfigurationException as error:
        return _complain(error, REFUSED)
    except JMSException as error:
        return _complain(error, FAILED)
    return FAILED if service.store_failed else CLEAN


def _look_for_garbage_seldom() -> None:
    """Have Python's collector leave a backlog alone: very many objects, none of them garbage."""
    gc.collect()
    gc.freeze()  # the modules
    gc.set_threshold(*_COLLECTOR)


def make_service(
    config: Path | None,
    data: Path | None,
    ephemeral: bool,
    openwire: str | None,
    name: str | None,
) -> BrokerService:
    """Make the broker that the options and the configuration file describe.

    Raises:
        ConfigurationException: the file or an option is wrong.

    """
    if data is not None and ephemeral:
        raise ConfigurationException(
            "--data and --ephemeral contradict each other", hint="leave one of them out"
        )
    if config is None and not any(name.startswith(_ENVIRONMENT) for name in os.environ):
        service = BrokerService()
    else:
        from pyjms_broker.settings import load_broker_settings

        service = BrokerService.from_settings(load_broker_settings(config))
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
    if openwire is not None or not service.connectors:
        service.connectors.clear()
        service.add_connector(f"tcp://{openwire or DEFAULT_OPENWIRE}", name="openwire")
    return service


async def serve(service: BrokerService) -> None:
    """Run `service` until SIGTERM or SIGINT, or until it is stopped from inside.

    A signal also ends the wait for another broker's lock. One that loses its lock begins
    anew, as a slave, where `restart_allowed` says so. (activemq-persistence H2)
    """
    stopping = False
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:

        async def stop_on_signal() -> None:
            nonlocal stopping
            async for received in signals:
                stopping = True
                logger.info("Stopping on %s", signal.Signals(received).name)
                await service.stop()
                return

        waiter = spawn(stop_on_signal, name="broker stop on signal")
        try:
            wanted = True
            while wanted:
                async with service:
                    _say_what_runs(service)
                    await service.wait_until_stopped()
                wanted = service.restart_requested and not stopping
        except IllegalStateException:
            if not stopping:
                raise
        finally:
            waiter.cancel()
            await waiter.wait()


def _say_what_runs(service: BrokerService) -> None:
    for connector in service.connectors:
        print(f"{connector.name} accepts connections at {connector.connect_uri}", flush=True)
    directory = service.stores.directory
    where = "in memory only" if directory is None else f"in {directory}"
    print(f"broker {service.broker_name} keeps its messages {where}", flush=True)


def _complain(error: JMSException, code: int) -> int:
    print(f"pyjms broker start: {error}", file=sys.stderr)
    return code
