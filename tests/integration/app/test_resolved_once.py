"""An application resolves its target once: modules and providers have no effects twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kit.processes.forked_python import run_python

MODULE = """
print("imported", flush=True)
import os, signal
from dependency_injector import providers
from pyjms import ApplicationContainer, JmsApplication, jms_listener, on_startup
from pyjms.listener.endpoint import DefaultJmsListenerContainerFactory

def made(factory):
    print("factory", flush=True)
    return DefaultJmsListenerContainerFactory(factory)

class Services(ApplicationContainer):
    mine = providers.Factory(made, ApplicationContainer.connection_factory)

@jms_listener("orders", id="orders", container_factory="mine")
def on_order(text: str): ...

@on_startup
def begin():
    print("started", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

app = JmsApplication(__import__("sys").modules[__name__], container=Services)
"""


@pytest.mark.parametrize("target", ["once", "once:app", "once.py"])
def test_run_imports_the_module_and_calls_providers_once(tmp_path: Path, target: str) -> None:
    (tmp_path / "once.py").write_text(MODULE)
    main = "from pyjms.cli.main import main; main()"
    url = "vm://localhost?broker.persistent=false"
    env = os.environ | {"PYJMS_ACTIVEMQ__BROKER_URL": url}
    done = run_python("-c", main, "run", target, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["imported", "factory", "started"]
