"""Every benchmark runs to its end with a handful of messages and prints what it promises."""

from __future__ import annotations

import cProfile
import gc
import importlib
import json
import sys
from abc import ABCMeta
from pathlib import Path

import pytest

from benchmarks import codec, compiled, growth, profile_layers, queue, scale, startup
from pyjms.jms.api import Closeable
from pyjms.wire.openwire.settings import WireFormatSettings
from tests.kit.processes.forked_python import run_python

ROOT = Path(__file__).resolve().parents[2]


def run_module(name: str, *arguments: str) -> str:
    done = run_python("-m", name, *arguments, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_codec_measures_every_command() -> None:
    rates = codec.codec_rates("loose", WireFormatSettings(), 3) | codec.other_rates(50)
    for what in codec.commands():
        assert rates[f"loose: decode {what}"] > 0
        assert rates[f"loose: encode {what}"] > 0


QUICK_CASES = ("vm blocking receive", "tcp transacted container", "ssl listener")
"""Each transport and each kind of API; `make compiled` runs those of its own."""


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[] if case in QUICK_CASES else pytest.mark.nightly)
        for case in queue.CASES
    ],
)
def test_every_message_of_a_queue_run_arrives(case: str) -> None:
    result = json.loads(run_module("benchmarks.queue", "--case", case, "--count", "20"))
    assert result["msg_per_s"] > 0
    assert result["cpu_us_per_msg"] > 0


@pytest.mark.nightly
def test_every_message_of_an_mqtt_run_arrives() -> None:
    printed = run_module("benchmarks.mqtt", "--count", "100", "--runs", "1", "--json")
    assert {
        case: rates["msg_per_s"] > 0 for case, rates in json.loads(printed)["pyjms"].items()
    } == {
        "QoS 0": True,
        "QoS 1": True,
        "QoS 2": True,
    }


@pytest.mark.nightly
def test_every_message_of_an_amqp_run_arrives() -> None:
    printed = run_module("benchmarks.amqp", "--count", "100", "--runs", "1", "--json")
    rates = json.loads(printed)["pyjms"]
    assert rates["settled"]["msg_per_s"] > 0
    assert rates["unsettled"]["msg_per_s"] > 0


async def test_a_window_holds_the_producer_back() -> None:
    window = queue.Window(queue.WINDOW + 1)
    await window.room_for(queue.WINDOW - 1)
    for _ in range(queue.WINDOW):
        window.arrived()
    assert not window.done.is_set()
    window.arrived()
    assert window.done.is_set()


def test_compare_takes_the_median_of_each_tree() -> None:
    table = queue.compare({"here": ROOT}, ("vm receive",), 10, 1)
    assert table["here"]["vm receive"]["msg_per_s"] > 0


@pytest.mark.parametrize(
    "figure", ["import pyjms", "pyjms --help", "process start to first message handled"]
)
def test_startup_figures_are_times(figure: str) -> None:
    assert 0 < startup.FIGURES[figure]() < 60_000


def test_startup_reads_the_embedded_brokers_times() -> None:
    assert startup.embedded_ms(0, again=False) > 0
    assert startup.embedded_ms(1, again=True) > 0


def test_the_layers_add_up_to_the_whole() -> None:
    gc.freeze()  # each run collects garbage: among all objects of the tests before, for seconds
    table = profile_layers.microseconds("vm, listener", 200)
    parts = sum(table[layer] for layer in profile_layers.ORDER)
    assert parts == pytest.approx(table["total"], rel=0.05)
    assert table["client"] > 0
    assert table["region"] > 0


def test_builtin_functions_count_for_their_callers_layer() -> None:
    profile = cProfile.Profile()
    profile.enable()
    codec.text_message()
    profile.disable()
    spent = profile_layers.spent_by_layer(profile)
    assert spent["wire"][0] > 0
    assert spent["benchmark"][1] == 1
    assert all(calls >= 0 for _, calls in spent.values())


def test_the_profilers_share_goes_by_calls() -> None:
    spent = {"wire": (6.0, 3), "region": (2.0, 1)}
    assert profile_layers.without_overhead(spent, 4.0) == {"wire": 3.0, "region": 1.0}


def test_a_file_belongs_to_one_layer() -> None:
    assert profile_layers.layer_of(str(ROOT / "pyjms/wire/openwire/format.py")) == "wire"
    assert profile_layers.layer_of(str(ROOT / "broker/pyjms_broker/region/queue.py")) == "region"
    assert profile_layers.layer_of(str(ROOT / "broker/pyjms_broker/api/broker.py")) == "chain"
    assert profile_layers.layer_of("/usr/lib/python3/asyncio/events.py") == profile_layers.LOOP


def test_the_compiled_modules_are_the_hot_ones() -> None:
    modules = compiled.sources()
    assert "pyjms/wire/openwire/fast_reader.py" in modules
    assert "pyjms_broker/region/queue.py" in modules
    assert "pyjms_broker/api/destination.py" not in modules  # derived from by interpreted classes
    folders = (ROOT, ROOT / "broker")
    assert [name for name in modules if not any((f / name).exists() for f in folders)] == []


def test_compiled_classes_have_no_abc_meta_or_caches_of_their_own() -> None:
    # They would share the caches of their first abstract class, so that in interpreted modules
    # `isinstance(queue, Topic)` made the same question with BaseDestination answer False. Classes
    # of the client get caches of their own from `Closeable`.
    names = [name.removesuffix(".py").replace("/", ".") for name in compiled.sources()]
    classes = {
        each
        for name in names
        for each in vars(importlib.import_module(name)).values()
        if type(each) is ABCMeta
    }
    sharing = {each for each in classes if not issubclass(each, Closeable)}
    assert {each for each in sharing if each.__module__ in names} == set()


def test_compiling_is_skipped_without_a_compiler(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setattr(sys, "argv", ["compiled"])
    compiled.main()
    assert "skipped" in capsys.readouterr().out


def test_an_attack_is_measured_at_the_broker_and_at_a_client_beside_it() -> None:
    (*_, row) = run_module("benchmarks.limits", "minus", "--patience", "20").splitlines()
    name, memory, blocked, canary, refused = (each.strip() for each in row.split("|")[1:-1])
    assert name == "60,000 minus signs"
    assert memory.endswith("MB")
    assert float(blocked.split()[0]) > 0
    assert float(canary.split()[0]) > 0
    assert refused == "1"


def test_scale_measures_each_duty() -> None:
    rows = scale.measure(quick=True)
    assert {"start", "scan for expired messages", "as many connections die", "metrics"} <= set(rows)
    assert all(row.startswith("held") for row in rows.values())
    assert "p99" in rows["sends during a search"]


def test_growth_sends_kills_and_drains(tmp_path: Path) -> None:
    rows = growth.measure_messages(tmp_path, 1000, step=500)
    assert list(rows) == [
        "sent 500",
        "sent 1,000",
        "first message after SIGKILL",
        "drained 500",
        "drained 1,000",
    ]


@pytest.mark.nightly
def test_growth_measures_queues_and_bodies(tmp_path: Path) -> None:
    assert "one of 20 queues" in growth.measure_queues(tmp_path / "queues", 20, count=500)
    bodies = growth.measure_bodies(tmp_path / "bodies", None, volume=1 << 20)
    assert list(bodies) == [f"bodies of {size:,} bytes" for size in growth.BODIES]
