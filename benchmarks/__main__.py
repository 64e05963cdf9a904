"""All benchmarks in one table. Run: make bench, or python -m benchmarks [--quick] [--json FILE]."""

from __future__ import annotations

import argparse
import importlib.util
import json
from pathlib import Path

from benchmarks import codec, profile_layers, queue, spark, startup
from pyjms.runtime.distribution import install_command
from pyjms.wire.openwire.settings import WireFormatSettings


def codec_table(*, quick: bool) -> dict[str, float]:
    number = 50 if quick else 5000
    return codec.codec_rates("loose", WireFormatSettings(), number) | codec.other_rates(number)


def print_table(title: str, rows: dict[str, str]) -> None:
    print(f"\n{title}")
    for name, value in rows.items():
        print(f"  {name:52} {value:>40}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="to see that all works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    quick: bool = arguments.quick
    frames = codec_table(quick=quick)
    print_table("OpenWire codec", {name: f"{rate:.2f} us" for name, rate in frames.items()})
    messages = queue.measure(quick=quick)
    print_table(
        "Producer to queue to consumer, 1 KiB",
        {
            case: f"{result['msg_per_s']:.0f} msg/s, client {result['cpu_us_per_msg']:.1f} us/msg"
            for case, result in messages.items()
        },
    )
    start = startup.measure(quick=quick)
    print_table("Start-up", {name: f"{value:.1f} ms" for name, value in start.items()})
    layers = profile_layers.measure(quick=quick)
    for case, table in layers.items():
        print_table(
            f"Where a message's time goes: {case}",
            {layer: f"{value:.2f} us" for layer, value in table.items()},
        )
    tables: dict[str, spark.Rows] = {}
    if importlib.util.find_spec("pyspark") is None:
        print(f"\nSpark: not measured; {install_command('spark')}")
    else:
        tables = spark.measure(quick=quick)
    for title, rows in tables.items():
        print_table(title, rows)
    if arguments.json is not None:
        figures = {
            "codec_us": frames,
            "queue": messages,
            "startup_ms": start,
            "layers_us": layers,
            "spark": tables,
        }
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
