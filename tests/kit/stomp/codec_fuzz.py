"""Random input for the STOMP codec: frames, damaged frames and noise, in any portions.

`python -m tests.kit.stomp.codec_fuzz 1000000 [SEED]` runs a million inputs.
"""

from __future__ import annotations

import random
import sys

from pyjms.wire.limits import FrameBudget, UnfinishedFrame
from pyjms.wire.stomp import VERSIONS, StompFormat

LIMIT = 2000
PARTS = [
    b"CONNECT", b"SEND", b"SUBSCRIBE", b"\n", b"\n\n", b"\r\n", b"\0", b":", b"\\", b"\\c", b"\\n",
    b"\\r", b"content-length:", b"content-length:3\n\n", b"destination:/queue/a", b"1", b"-1",
    b"99999999999", b"accept-version:1.2", b"\xff", "\u00fc".encode(), b"x" * 70,
]  # fmt: skip


def run(inputs: int, seed: int = 1) -> int:
    """Feed random inputs; return the number of frames. Fails if a limit is exceeded."""
    chance = random.Random(seed)
    budget = FrameBudget(1 << 20, 60.0, lambda: 0.0)
    found = 0
    for _ in range(inputs):
        codec = StompFormat(
            LIMIT, UnfinishedFrame(budget), version=chance.choice([None, *VERSIONS])
        )
        data = b"".join(chance.choices(PARTS, k=chance.randrange(60)))
        ended = False
        while data:
            size = chance.randrange(1, 40)
            portion, data = data[:size], data[size:]
            for frame in codec.receive_data(portion):
                assert not ended, "a frame behind a fault"
                assert len(frame.body) <= LIMIT
                ended = frame.fault is not None
                found += not ended
        codec.discard()
    assert budget.used == 0
    return found


if __name__ == "__main__":
    print(f"{run(int(sys.argv[1]), *map(int, sys.argv[2:3]))} frames, no failure")
