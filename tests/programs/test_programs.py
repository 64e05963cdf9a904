"""Applications as a newcomer writes them from README.md and docs/, run as such on each Python.

Each folder here is one: a module that `pyjms run` runs, a plain script that sends and checks what
it gets, settings, and `checks.py` for pytest. They are copied, so that nothing of the checkout is
beside them.
"""

from __future__ import annotations

import pytest

from tests.kit.processes.python_environments import VERSIONS
from tests.kit.processes.user_programs import Make

pytestmark = [pytest.mark.pythons, pytest.mark.parametrize("version", VERSIONS)]


def test_a_producer_and_a_listener_with_yaml(program: Make) -> None:
    app = program("listener")
    with app.running("orders") as child:
        app.script("producer")
        child.expect("order 0: 0.0", "order 1: 1.5", "order 2: 3.0")


def test_a_slow_handler_with_three_to_ten_consumers(program: Make) -> None:
    app = program("growing")
    with app.running("slow") as child:
        app.script("send")
        child.expect(*(f"done {n}\n" for n in range(100)))


def test_a_failing_handler_and_its_dead_letter_moved_back(program: Make) -> None:
    app = program("redrive")
    with app.running("printing") as child:
        app.script("send")
        child.expect("attempt 1 of 3", "becomes a dead letter", "printed 1", "printed 3")
        child.expect("printed 2")


def test_requests_and_replies(program: Make) -> None:
    app = program("prices")
    with app.running("prices"):
        app.script("ask")


def test_a_durable_subscription_receives_what_was_published_meanwhile(program: Make) -> None:
    app = program("news")
    with app.running("news"):
        pass
    app.script("publish", "one")
    with app.running("news") as child:
        child.expect("archived one")
        app.script("publish", "two")
        child.expect("archived two", "ticker two")


def test_sender_and_listener_have_models_of_one_shape(program: Make) -> None:
    app = program("models")
    with app.running("receiver") as child:
        app.script("sender")
        child.expect("NewOrder(id=1, amount=2.5)")


def test_messages_as_spring_boot_writes_them(program: Make) -> None:
    app = program("spring_boot")
    with app.running("orders") as child:
        app.script("spring_boot")
        child.expect(
            "order Order(id=7, amount=9.5)",
            "any Order(id=7, amount=9.5)",
            "any {'id': 7, 'amount': 9.5}",
        )


def test_services_of_an_application_are_injected(program: Make) -> None:
    app = program("services")
    with app.running("shop") as child:
        app.script("send")
        child.expect("saved id=1 total=9.5")


@pytest.mark.parametrize("name", ["services", "clock"])
def test_checks_with_pytest(name: str, program: Make) -> None:
    program(name).checks("checks.py")


def test_fastapi(program: Make) -> None:
    app = program("fastapi")
    app.require("fastapi", "httpx")
    app.write_recipe("FastAPI")
    assert app.pyjms("check", "web") == "No problems found in web.\n"
    app.checks("test_web.py")
