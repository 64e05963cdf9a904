"""Where a message's microseconds go, layer by layer. Run: python -m benchmarks.profile_layers.

Client and broker run in one process (TCP: over a socket to itself), so that one profile
sees all. What a built-in function takes counts for its caller's layer. A profiler makes
calls dearer: the same run without it says by how much, and that is taken off, in proportion
to each layer's calls. All times are processor time.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import anyio

from benchmarks import queue

ROOT = Path(__file__).resolve().parent.parent
LAYERS = {
    "benchmarks": "benchmark",
    "pyjms/listener": "listener",
    "pyjms/connection": "listener",
    "pyjms/template": "listener",
    "pyjms/client": "client",
    "pyjms/jms": "client",
    "pyjms/transport": "transport",
    "pyjms/runtime": "transport",
    "pyjms/wire": "wire",
    "broker/pyjms_broker/connector": "connector",
    "broker/pyjms_broker/region": "region",
    "broker/pyjms_broker/cursor": "region",
    "broker/pyjms_broker/policy": "region",
    "broker/pyjms_broker/store": "region",
    "broker/pyjms_broker": "chain",
    "pyjms": "client",
}
"""Path to layer; the first that fits."""
LOOP = "event loop, sockets"
ORDER = ("listener", "client", "wire", "transport", "connector", "chain", "region", LOOP)
CASES = {
    "vm, listener": (False, queue.with_listener),
    "tcp, listener": (True, queue.with_listener),
    "vm, transacted container": (False, queue.with_container),
}

Spent = dict[str, tuple[float, int]]


def layer_of(file: str) -> str:
    """Return the layer of a source file; what is not ours is the loop's."""
    if not file.startswith(f"{ROOT}/"):
        return LOOP
    path = file.removeprefix(f"{ROOT}/")
    return next((layer for start, layer in LAYERS.items() if path.startswith(start)), LOOP)


def spent_by_layer(profile: cProfile.Profile) -> Spent:
    """Return seconds and calls of each layer, built-in functions with their callers."""
    seconds: dict[str, float] = defaultdict(float)
    calls: dict[str, int] = defaultdict(int)
    for entry in profile.getstats():
        layer = LOOP if isinstance(entry.code, str) else layer_of(entry.code.co_filename)
        seconds[layer] += entry.inlinetime
        calls[layer] += entry.callcount
        for called in entry.calls or ():
            if layer != LOOP and isinstance(
                called.code, str
            ):  # from the loop, where it was or will be counted
                seconds[layer] += called.inlinetime
                calls[layer] += called.callcount
                seconds[LOOP] -= called.inlinetime
                calls[LOOP] -= called.callcount
    return {layer: (seconds[layer], calls[layer]) for layer in seconds}


def without_overhead(spent: Spent, plain: float) -> dict[str, float]:
    """Return each layer's seconds when the profiler's share, by calls, is taken off."""
    total = sum(seconds for seconds, _ in spent.values())
    calls = sum(count for _, count in spent.values())
    dearer = max(total - plain, 0.0) / calls
    cheap = {layer: max(seconds - dearer * count, 0.0) for layer, (seconds, count) in spent.items()}
    scale = plain / sum(cheap.values())
    return {layer: seconds * scale for layer, seconds in cheap.items()}


async def run(case: str, count: int, profile: cProfile.Profile | None) -> float:
    """Run `case` warm, under `profile` if there is one, and return its processor seconds."""
    from pyjms_broker import BrokerService

    tcp, scenario = CASES[case]
    async with BrokerService(persistent=False) as broker:
        url = str(broker.vm_uri)
        if tcp:
            url = await _tcp_url(broker)
        await scenario(url, max(count // 10, 1))
        gc.collect()
        start = time.process_time()
        if profile is not None:
            profile.enable()
        try:
            await scenario(url, count)
        finally:
            if profile is not None:
                profile.disable()
        return time.process_time() - start


async def _tcp_url(broker: Any) -> str:
    connector = broker.add_connector("tcp://127.0.0.1:0")
    await connector.start()
    return str(connector.connect_uri)


def microseconds(case: str, count: int) -> dict[str, float]:
    """Return each layer's microseconds a message, and their sum as `total`."""
    options = queue.loop_options()
    plain = min(anyio.run(run, case, count, None, backend_options=options) for _ in range(3))
    profile = cProfile.Profile(time.process_time)
    anyio.run(run, case, count, profile, backend_options=options)
    layers = without_overhead(spent_by_layer(profile), plain)
    own = layers.pop("benchmark", 0.0)
    figures = {layer: round(layers.get(layer, 0.0) / count * 1e6, 2) for layer in ORDER}
    return {**figures, "total": round((plain - own) / count * 1e6, 2)}


def measure(*, quick: bool = False) -> dict[str, dict[str, float]]:
    """Return the table: case, layer, microseconds a message."""
    count = 300 if quick else 4000
    return {case: microseconds(case, count) for case in CASES}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="a few messages only")
    arguments = parser.parse_args()
    table = measure(quick=arguments.quick)
    if arguments.json:
        print(json.dumps(table))
        return
    print(f"{'us a message':22}" + "".join(f"{case:>26}" for case in table))
    for layer in (*ORDER, "total"):
        print(f"{layer:22}" + "".join(f"{table[case][layer]:26.2f}" for case in table))


if __name__ == "__main__":
    main()
