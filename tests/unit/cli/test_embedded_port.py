"""`pyjms run` without a configured broker: its own one can be reached, and the log says where."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from pyjms import ConnectionFactory, JmsTemplate
from tests.kit.processes.forked_python import ForkedPython
from tests.kit.processes.user_programs import Running

MODULE = """
from pyjms import jms_listener

@jms_listener("orders.new", id="orders")
def on_order(text: str) -> None:
    print("handled", text, flush=True)
"""


def test_the_embedded_broker_of_a_run_listens_at_the_next_free_port(tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text(MODULE)
    with socket.socket() as taken:
        with suppress(OSError):  # another program has it: as well
            taken.bind(("127.0.0.1", 61616))
            taken.listen()
        with ForkedPython(
            ["-m", "pyjms", "run", "orders"],
            cwd=tmp_path,
            env=dict(os.environ),
            stderr=subprocess.STDOUT,
        ) as process:
            child = Running(process)
            try:
                child.expect("orders.new TEXT")
                (url,) = re.findall(r"pyjms send --url (\S+) orders.new TEXT", child.written)
                assert 61616 < int(url.rsplit(":", 1)[1]) < 61716
                factory = ConnectionFactory(url)
                JmsTemplate(factory).convert_and_send("orders.new", "hello")
                child.expect("handled hello")
                child.end(signal.SIGINT)
            finally:
                process.kill()
