"""A whole soak: it is run, accounted for, and its figures are put together."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.kit.processes.children import environment
from tests.kit.soak.account import Account
from tests.kit.soak.configuration import memory_bound
from tests.kit.soak.events import read_events
from tests.kit.soak.flows import FLOWS
from tests.kit.soak.plan import DISTURBANCES
from tests.kit.soak.report import RESTART, Rounds, table, up_part
from tests.kit.soak.supervisor import Soak

__all__ = ["Outcome", "account_for", "run_soak"]

UP: Final = 0.5
"""The part of the time in which a broker must have been up for a soak to say anything."""
SHOWN: Final = 30
"""Broken promises that a report lists."""


@dataclass
class Outcome:
    """What came of a soak."""

    report: str
    failures: list[str]


def run_soak(folder: Path, seed: int, seconds: float) -> Outcome:
    """Run a soak for `seconds` and account for it. Blocks until everything is delivered."""
    soak = Soak(folder, seed, seconds)
    soak.run()
    failures = [*soak.problems, *memory_failures(soak.highest), *_store_failures(soak)]
    return account_for(soak, failures)


def account_for(soak: Soak, failures: list[str]) -> Outcome:
    """Judge the events of a soak that has ended; `failures` are known already."""
    files = sorted(soak.events.iterdir())
    account = Account(FLOWS)
    account.take(read_events(files))
    account.close()
    failures += _broken_attacks(files)
    failures += [f"{finding.rule}: {finding.where}" for finding in account.findings[:SHOWN]]
    if len(account.findings) > SHOWN:
        failures.append(f"and {len(account.findings) - SHOWN} findings more")
    rounds = Rounds(read_events(path for path in files if path.name in {"canary", "supervisor"}))
    up = up_part(read_events(path for path in files if path.name == "supervisor"))
    failures += idleness_failures(up)
    return Outcome(_report(soak, account.counts, rounds, up), failures)


def idleness_failures(up: float) -> list[str]:
    if up >= UP:
        return []
    return [f"the broker was up for {up:.0%} of the time only: the machine is too busy for a soak"]


def _broken_attacks(files: list[Path]) -> list[str]:
    """Return the attacks that failed because of errors in their own code."""
    events = read_events(path for path in files if path.name == "hostile")
    broken = {
        f"attack {event.fields[0]}, {event.fields[1]}"
        for event in events
        if event.kind == "attacked" and event.fields[1].startswith("broken")
    }
    return sorted(broken)


def memory_failures(highest: int) -> list[str]:
    bound = memory_bound()
    if highest <= bound:
        return []
    return [f"the broker had {highest >> 20} MiB of memory; its limits allow {bound >> 20}"]


def _store_failures(soak: Soak) -> list[str]:
    """Check the store that was left, with the tool that users have."""
    store = soak.broker.data / "kahadb"
    command = [sys.executable, "-m", "pyjms_broker", "journal", "verify", str(store)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment(), timeout=300, check=False
    )
    if done.returncode == 0:
        return []
    return [f"journal verify: exit status {done.returncode}: {done.stdout[-2000:]}{done.stderr}"]


def _report(soak: Soak, counts: Counter[str], rounds: Rounds, up: float) -> str:
    attacks = sorted(kind for kind in rounds.counts if kind.startswith("attack "))
    quiet = rounds.slowest((*DISTURBANCES, RESTART))
    rows: list[tuple[str, object]] = [
        ("seed", soak.seed),
        ("minutes", f"{soak.seconds / 60:g}"),
        *((kind, rounds.counts[kind]) for kind in DISTURBANCES),
        *((kind, rounds.counts[kind]) for kind in attacks),
        *((f"messages: {name}", count) for name, count in sorted(counts.items())),
        ("messages: lost", counts["lost"]),
        ("broker: up", f"{up:.0%} of the time"),
        ("memory of the broker, highest", f"{soak.highest >> 20} MiB of {memory_bound() >> 20}"),
        ("canary: round trips", len(rounds.all)),
        ("canary: p50", f"{1000 * rounds.percentile(0.5):.1f} ms"),
        ("canary: p99", f"{1000 * rounds.percentile(0.99):.1f} ms"),
    ]
    if rounds.all:
        slowest = rounds.all[-1]
        rows.append(("canary: slowest", f"{slowest.seconds:.2f} s, during: {slowest.during}"))
    if quiet is not None:
        rows.append(("canary: slowest of attacks alone", f"{quiet.seconds:.2f} s, {quiet.during}"))
    return table(dict(rows).items())
