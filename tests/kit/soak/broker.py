"""The broker of a soak: `pyjms broker start` on a disk that can fail.

python -m tests.kit.soak.broker CONFIG DATA; faults come from standard input, whose end stops it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from pyjms_broker.cli.start import Source, run
from tests.kit.soak.disk_faults import DiskFaults


def main() -> int:
    config, data = sys.argv[1:3]
    faults = DiskFaults()
    faults.install()

    def obey() -> None:
        for line in sys.stdin:
            faults.command(line)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=obey, daemon=True).start()
    source = Source(config=Path(config))
    return run(source, data=Path(data), ephemeral=False, openwire=None, name=None)


if __name__ == "__main__":
    sys.exit(main())
