"""The account of a soak notices every broken promise, and permits what is permitted."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from tests.kit.soak.account import Account
from tests.kit.soak.attacks import ATTACKS
from tests.kit.soak.configuration import memory_bound
from tests.kit.soak.events import Event, EventLog, read_events
from tests.kit.soak.flows import FLOWS as SOAK_FLOWS
from tests.kit.soak.flows import Endpoint, Flow, Reader
from tests.kit.soak.outcome import idleness_failures, memory_failures
from tests.kit.soak.plan import DISTURBANCES, Disturbance, plan, timely
from tests.kit.soak.report import RESTART, Rounds, up_part

STRICT = Endpoint("strict", ordered=True)
WEAK = Endpoint("weak", flagged=False)
LOSSY = Endpoint("lossy", lossy=True)
MORTAL = Endpoint("mortal")
UNANSWERED = Endpoint("unanswered", refuses_duplicates_only=True)
DEAD = Endpoint("mortal-dead", dead_letters_of="mortal")
FLOWS = [
    Flow(end.name, f"queue://{end.name}", (Reader(end, f"queue://{end.name}"),))
    for end in (STRICT, WEAK, LOSSY)
]
DUPLICATES = Endpoint("unanswered-dead", dead_letters_of="unanswered")
FLOWS += [
    Flow(
        end.name,
        f"queue://{end.name}",
        (Reader(end, f"queue://{end.name}"), Reader(dead, "queue://d")),
    )
    for end, dead in ((MORTAL, DEAD), (UNANSWERED, DUPLICATES))
]


def judge(story: str) -> Account:
    """Account for events, one a line, a second apart; `N s` lets time pass.

    The connections of consumers were made before the first event, or at the time that ends a line.
    """
    events: list[Event] = []
    now = 0.0
    for line in filter(None, map(str.strip, story.splitlines())):
        kind, *fields = line.split()
        if kind == "pause":
            events.append(Event(now, "disturb", (f"pause {fields[0]}", "1.0")))
            continue
        if kind.isdigit():
            now += float(kind)
            continue
        now += 1
        if kind in {"got", "open"} and len(fields) == 4:
            fields.append("whole")
        events.append(Event(now, kind, tuple(fields), "steady"))
    account = Account(FLOWS)
    account.take(events)
    account.close()
    return account


def sent(flow: str, *numbers: int) -> str:
    return "\n".join(f"try {flow}/s {n}\nok {flow}/s {n}" for n in numbers)


BROKEN = {
    "lost": sent("strict", 0),
    "lost after a rollback": f"""{sent("strict", 0)}
        open strict strict/s 0 first
        back strict strict/s 0""",
    "lost with its consumer": f"""{sent("strict", 0)}
        open strict strict/s 0 first""",
    "lost behind an acknowledgement in doubt, another paused": f"""{sent("strict", 0)}
        open strict strict/s 0 first
        end strict strict/s 0
        pause mortal
        open strict strict/s 0 again""",
    "lost behind an acknowledgement in doubt, over a new connection": f"""{sent("strict", 0)}
        open strict strict/s 0 first
        end strict strict/s 0
        down
        open strict strict/s 0 again whole 5.5""",
    "lost by a rollback behind an acknowledgement in doubt": f"""{sent("strict", 0)}
        open strict strict/s 0 first
        end strict strict/s 0
        down
        open strict strict/s 0 again whole 5.5
        back strict strict/s 0 5.5""",
    "lost behind an acknowledgement in doubt, with JMSRedelivered": f"""{sent("unanswered", 0)}
        open unanswered unanswered/s 0 first
        end unanswered unanswered/s 0
        open unanswered unanswered/s 0 again
        failed reader/unanswered-steady-0 ConnectionFailedException""",
    "lost behind an acknowledgement in doubt, by another's failure": f"""{sent("unanswered", 0)}
        open unanswered unanswered/s 0 again
        end unanswered unanswered/s 0
        open unanswered unanswered/s 0 first
        failed reader/mortal-steady-0 ConnectionFailedException""",
    "lost behind an acknowledgement in doubt, long before a failure": f"""{sent("unanswered", 0)}
        open unanswered unanswered/s 0 again
        end unanswered unanswered/s 0
        open unanswered unanswered/s 0 first
        20 s
        failed reader/unanswered-steady-0 ConnectionFailedException""",
    "acknowledged, and a dead letter, after a restart": f"""{sent("mortal", 0)}
        down
        got mortal-dead mortal/s 0 first
        open mortal mortal/s 0 again
        end mortal mortal/s 0
        done mortal mortal/s 0""",
    "lost behind an acknowledgement in doubt, long after a pause": f"""{sent("strict", 0)}
        open strict strict/s 0 first
        end strict strict/s 0
        pause steady
        resumed steady
        20 s
        open strict strict/s 0 again""",
    "refused, and no duplicate": f"""{sent("unanswered", 0)}
        open unanswered unanswered/s 0 first
        back unanswered unanswered/s 0
        got unanswered-dead unanswered/s 0 first""",
    "delivered again after its acknowledgement, over a new connection": f"""{sent("strict", 0)}
        open strict strict/s 0 first
        end strict strict/s 0
        done strict strict/s 0
        down
        open strict strict/s 0 again whole 6.5""",
    "doubled without JMSRedelivered": f"""{sent("strict", 0)}
        got strict strict/s 0 first
        got strict strict/s 0 first""",
    "doubled without JMSRedelivered, over a restart": f"""{sent("strict", 0)}
        got strict strict/s 0 first
        down
        got strict strict/s 0 first""",
    "doubled without JMSRedelivered, long after one": f"""{sent("weak", 0)}
        down
        100 s
        got weak weak/s 0 first
        got weak weak/s 0 first""",
    "delivered again after its acknowledgement, another paused": f"""{sent("strict", 0)}
        open strict strict/s 0 again
        end strict strict/s 0
        done strict strict/s 0
        pause mortal
        open strict strict/s 0 first""",
    "delivered again after its acknowledgement": f"""{sent("strict", 0)}
        open strict strict/s 0 first
        end strict strict/s 0
        done strict strict/s 0
        open strict strict/s 0 again""",
    "out of order": f"""{sent("strict", 0, 1)}
        got strict strict/s 1 first
        got strict strict/s 0 first""",
    "damaged": f"""{sent("strict", 0)}
        got strict strict/s 0 first damaged""",
    "never sent": "got strict strict/s 0 first",
    "delivered though rolled back": """try strict/s 0
        never strict/s 0
        got strict strict/s 0 first""",
    "half a transaction": """try strict/s 0
        try strict/s 1
        batch strict/s 0 1
        got strict strict/s 0 first""",
    "lost by a connected subscriber": f"""{sent("lossy", 0, 1, 2)}
        got lossy lossy/s 0 first
        got lossy lossy/s 2 first""",
    "acknowledged, and a dead letter": f"""{sent("mortal", 0)}
        open mortal mortal/s 0 first
        end mortal mortal/s 0
        done mortal mortal/s 0
        got mortal-dead mortal/s 0 first""",
}


@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_promise_is_found(rule: str) -> None:
    (finding,) = judge(BROKEN[rule]).findings
    assert rule.startswith(finding.rule)


PERMITTED = {
    "delivered": f"""{sent("strict", 0)}
        got strict strict/s 0 first""",
    "redelivered": f"""{sent("strict", 0)}
        open strict strict/s 0 first
        back strict strict/s 0
        got strict strict/s 0 again""",
    "handled late by a paused client": f"""{sent("strict", 0)}
        open strict strict/s 0 again
        end strict strict/s 0
        done strict strict/s 0
        pause steady
        open strict strict/s 0 first""",
    "received late by a paused client, behind an acknowledgement in doubt": f"""{sent("strict", 0)}
        open strict strict/s 0 again
        end strict strict/s 0
        pause steady
        open strict strict/s 0 first""",
    "received late by a client that was resumed late": f"""{sent("strict", 0)}
        pause steady
        open strict strict/s 0 again
        end strict strict/s 0
        100 s
        resumed steady
        open strict strict/s 0 first""",
    "received late, over the connection to a broker that is down": f"""{sent("strict", 0)}
        down
        open strict strict/s 0 again whole 3.5
        end strict strict/s 0 3.5
        open strict strict/s 0 first whole 0.5""",
    "rolled back late, over the connection to a broker that is down": f"""{sent("strict", 0)}
        open strict strict/s 0 first whole 0.5
        down
        open strict strict/s 0 again whole 4.5
        end strict strict/s 0 4.5
        back strict strict/s 0 0.5""",
    "received late, behind an acknowledgement that was answered": f"""{sent("strict", 0)}
        down
        open strict strict/s 0 again whole 3.5
        end strict strict/s 0 3.5
        done strict strict/s 0 3.5
        open strict strict/s 0 first whole 0.5""",
    "a duplicate that its consumer refused": f"""{sent("unanswered", 0)}
        open unanswered unanswered/s 0 first
        end unanswered unanswered/s 0
        down
        open unanswered unanswered/s 0 again whole 5.5
        back unanswered unanswered/s 0 5.5
        got unanswered-dead unanswered/s 0 first""",
    "rolled back late by a paused client, behind an acknowledgement in doubt": f"""{sent("strict", 0)}
        open strict strict/s 0 first
        open strict strict/s 0 again
        end strict strict/s 0
        pause steady
        back strict strict/s 0""",
    "in doubt, and lost": "try strict/s 0",
    "in doubt, and doubled": """try strict/s 0
        doubt strict/s 0
        got strict strict/s 0 first
        got strict strict/s 0 first""",
    "doubled over a restart": f"""{sent("weak", 0)}
        got weak weak/s 0 first
        down
        got weak weak/s 0 first""",
    "an acknowledgement without an answer": f"""{sent("strict", 0)}
        open strict strict/s 0 first
        end strict strict/s 0
        got strict strict/s 0 again""",
    "a subscriber that was away": f"""{sent("lossy", 0, 1, 2)}
        got lossy lossy/s 0 first
        cut lossy
        got lossy lossy/s 2 first""",
    "a transaction in doubt": """try strict/s 0
        try strict/s 1
        batch strict/s 0 1
        got strict strict/s 0 first
        got strict strict/s 1 first""",
    "received late, over a connection that the broker had ended": f"""{sent("unanswered", 0)}
        open unanswered unanswered/s 0 again
        end unanswered unanswered/s 0
        open unanswered unanswered/s 0 first
        failed reader/unanswered-steady-0 ConnectionFailedException""",
    "a dead letter that a failing broker had not stored": f"""{sent("mortal", 0)}
        open mortal mortal/s 0 first
        back mortal mortal/s 0
        got mortal-dead mortal/s 0 first
        down
        open mortal mortal/s 0 again
        end mortal mortal/s 0
        done mortal mortal/s 0""",
    "a dead letter": f"""{sent("mortal", 0)}
        open mortal mortal/s 0 first
        back mortal mortal/s 0
        got mortal-dead mortal/s 0 first""",
}


@pytest.mark.parametrize("story", PERMITTED)
def test_what_is_permitted_is_not_a_finding(story: str) -> None:
    assert judge(PERMITTED[story]).findings == []


def test_dead_letters_are_consumed_where_acknowledgements_are_not_answered() -> None:
    readers = [reader for flow in SOAK_FLOWS for reader in flow.readers]
    unanswered = {each.endpoint.name for each in readers if not each.waits}
    assert unanswered
    assert unanswered <= {each.endpoint.dead_letters_of for each in readers}


def test_memory_above_the_bound_is_found() -> None:
    assert memory_failures(memory_bound()) == []
    (failure,) = memory_failures(memory_bound() + 1)
    assert "its limits allow" in failure


def test_a_broker_that_was_hardly_up_proves_nothing() -> None:
    kinds = [(0, "up"), (10, "ready"), (40, "disturb"), (70, "down"), (90, "ready"), (100, "x")]
    part = up_part(Event(time, kind, ()) for time, kind in kinds)
    assert part == pytest.approx(0.7)
    assert idleness_failures(part) == []
    (failure,) = idleness_failures(0.09)
    assert "9% of the time only" in failure


def test_the_plan_follows_from_the_seed_and_has_every_disturbance() -> None:
    plans = [list(islice(plan(seed, sorted(ATTACKS)), 400)) for seed in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]
    times = [each.time for each in plans[0]]
    assert times == sorted(times)
    assert {each.kind for each in plans[0]} == {
        *DISTURBANCES, *(f"attack {name}" for name in ATTACKS)
    }  # fmt: skip


def test_disturbances_that_are_late_are_left_out() -> None:
    passed = [0.0]
    made = []
    planned = (Disturbance(float(time), "kill", 1.0, 0) for time in range(0, 1000, 5))
    for disturbance in timely(planned, 100.0, lambda: passed[0]):
        made.append(disturbance.time)
        restart = 60.0 if disturbance.time == 20 else 0.0
        passed[0] = max(passed[0], disturbance.time) + restart
    assert made == [0, 5, 10, 15, 20, 70, 75, 80, 85, 90, 95]


def test_a_round_trip_knows_what_went_on_meanwhile() -> None:
    events = [
        Event(10, "disturb", ("pause broker", "5.0")),
        Event(15, "round", ("6.0",)),
        Event(30, "disturb", ("attack garbage", "2.0")),
        Event(31, "round", ("0.5",)),
        Event(40, "down", ("kill",)),
        Event(44, "ready", ()),
        Event(45, "round", ("4.5",)),
        Event(60, "round", ("0.1",)),
    ]
    rounds = Rounds(events)
    assert [each.during for each in rounds.all] == ["", "attack garbage", RESTART, "pause broker"]
    assert rounds.percentile(0.5) == rounds.all[2].seconds == 4.5
    slowest = rounds.slowest((*DISTURBANCES, RESTART))
    assert slowest is not None
    assert slowest.seconds == 0.5


def test_events_of_all_processes_come_in_the_order_of_their_times(tmp_path: Path) -> None:
    logs = [EventLog(tmp_path / name) for name in "ab"]
    for number in range(6):
        logs[number % 2].write("try", "p", number)
    for log in logs:
        log.close()
    numbers = [event.fields[1] for event in read_events(sorted(tmp_path.iterdir()))]
    assert numbers == [str(number) for number in range(6)]
