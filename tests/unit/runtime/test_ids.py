"""Generated ids."""

from __future__ import annotations

import subprocess
import sys

import pytest

FORK = """
import os
import time
from pyjms.runtime.ids import IdGenerator
inherited = IdGenerator()
print(inherited.generate(), flush=True)
time.sleep(0.002)
if os.fork() == 0:
    print(inherited.generate(), IdGenerator().generate(), flush=True)
    os._exit(0)
os.wait()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot fork")
def test_a_forked_process_has_its_own_time_in_its_ids() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True)
    parent, *children = (line.split("-") for line in done.stdout.split())
    assert len(children) == 2
    for child in children:  # else another child with the same process number has the same ids
        assert int(child[-2]) > int(parent[-2])
