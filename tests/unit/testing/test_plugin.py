"""The fixtures, as a user's project has them."""

from __future__ import annotations

import textwrap
import time
from contextlib import AbstractContextManager
from typing import Any

import anyio
import pytest

from pyjms import (
    IllegalStateException,
    InvalidDestinationException,
    JmsApplication,
    Message,
    PyjmsSettings,
    Queue,
    RequestTimeoutException,
    jms_listener,
)
from pyjms.aio import ConnectionFactory, JmsTemplate
from pyjms.jms.message import TextMessage
from pyjms.support.embedded_broker import EmbeddedBroker, embedded_broker
from pyjms.testing.app import JmsTestApp, with_redelivery_delay
from pyjms.testing.clock import VirtualClock
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.messages import text_of
from tests.kit.processes.forked_python import run_python

pytest_plugins = ["pytester"]


@jms_listener("in", id="in")
async def handler(text: str) -> None:
    if text == "bad":
        raise ValueError(text)


@pytest.fixture
def pyjms_broker_url(jms_broker: EmbeddedBroker) -> str:
    return f"{jms_broker.url}&jms.redeliveryPolicy.maximumRedeliveries=0"


class CountingClock(VirtualClock):
    """Counts the waits that tasks begin."""

    waits = 0

    async def sleep(self, seconds: float) -> None:
        self.waits += 1
        await super().sleep(seconds)

    def timeout(self, seconds: float | None) -> AbstractContextManager[anyio.CancelScope]:
        self.waits += 1
        return super().timeout(seconds)


@pytest.mark.fact("spring-jms 1.7.1")
async def test_a_day_of_virtual_time_has_few_timers_while_nothing_happens(
    jms_app: JmsTestApp,
) -> None:
    """An idle consumer wakes up once a minute, and the broker looks for expired messages twice."""
    async with CountingClock() as clock:
        await jms_app.start(handler)
        await clock.advance(60.0)
        clock.waits = 0
        await clock.advance(3600.0)
        assert clock.waits <= 3 * 60
        await jms_app.template.convert_and_send("in", "x")
        await jms_app.drained("in")
        assert len(jms_app.recorder.calls(handler)) == 1


async def test_the_broker_s_questions(
    jms_broker: EmbeddedTestBroker, jms_template: JmsTemplate
) -> None:
    with pytest.raises(
        InvalidDestinationException, match=r"There is no queue://q: nobody has sent"
    ):
        await jms_broker.drained("q")
    await jms_template.convert_and_send("q", "x")
    with pytest.raises(RequestTimeoutException, match="was not drained"):
        await jms_broker.drained("q", timeout=0)
    assert await jms_template.receive_and_convert("q") == "x"
    await jms_broker.drained("q")
    with pytest.raises(InvalidDestinationException, match=r"did you mean queue://q\?"):
        await jms_broker.drained("Q")
    assert await jms_broker.dead_letters() == []


async def test_an_unknown_queue_is_an_error_before_the_application_starts(
    jms_app: JmsTestApp,
) -> None:
    with pytest.raises(InvalidDestinationException, match=r"There is no queue://typo"):
        await jms_app.drained("typo")


async def test_the_template_works_before_the_application_starts(jms_app: JmsTestApp) -> None:
    await jms_app.template.convert_and_send("in", {"first": 1})
    received: list[object] = []

    @jms_listener("in", id="in")
    def keep(value: dict[str, int]) -> None:
        received.append(value)

    await jms_app.start(keep)
    await jms_app.template.convert_and_send("in", {"second": 2})
    await jms_app.drained("in")
    assert received == [{"first": 1}, {"second": 2}]


async def test_an_application_under_test(jms_app: JmsTestApp) -> None:
    with pytest.raises(IllegalStateException, match=r"await jms_app\.start"):
        jms_app.application  # noqa: B018
    application = await jms_app.start(handler)
    assert isinstance(application, JmsApplication)
    with pytest.raises(IllegalStateException, match="is running already"):
        await jms_app.start(handler)
    for text in ("good", "bad"):
        await jms_app.template.convert_and_send("in", text)
    await jms_app.drained("in")
    with pytest.raises(ValueError, match="bad"):
        await jms_app.drained("in", raise_errors=True)
    calls = jms_app.recorder.calls(handler)
    assert [(text_of(c.message), repr(c.error)) for c in calls] == [
        ("good", "None"),
        ("bad", "ValueError('bad')"),
    ]
    assert [text_of(m) for m in jms_app.recorder.messages(handler)] == ["good", "bad"]
    with pytest.raises(IllegalStateException, match=r"^stuck is not a handler of the running app"):
        jms_app.recorder.calls(stuck)
    with pytest.raises(InvalidDestinationException, match=r"did you mean queue://in\?"):
        await jms_app.drained("inn")
    (dead,) = await jms_app.dead_letters()
    assert isinstance(dead, Message)
    assert isinstance(dead, TextMessage)
    assert (dead.text, dead.destination) == ("bad", Queue("ActiveMQ.DLQ"))
    assert [text_of(m) for m in await jms_app.dead_letters("in")] == ["bad"]
    await jms_app.stop()
    assert not application.is_running


async def test_each_test_has_a_separate_broker(
    jms_broker: EmbeddedBroker, jms_app: JmsTestApp
) -> None:
    other = embedded_broker()
    await other.start()
    assert other.url != jms_broker.url
    await JmsTemplate(ConnectionFactory(other.url)).convert_and_send("q", "x")
    with pytest.raises(InvalidDestinationException):
        await jms_broker.drained("q")
    await other.stop()


async def test_time_stands_still(jms_clock: VirtualClock, jms_app: JmsTestApp) -> None:
    await jms_app.start(handler)
    before = jms_clock.now()
    await jms_clock.advance(3600)
    assert jms_clock.now() - before == pytest.approx(3600)


def test_a_broker_costs_little() -> None:
    """A test's broker may take 20 ms; the limit here allows for slow machines."""
    import anyio

    async def once() -> float:
        broker = embedded_broker()
        start = time.process_time()
        await broker.start()
        await broker.stop()
        return time.process_time() - start

    anyio.run(once)
    assert min(anyio.run(once) for _ in range(5)) < 0.02


USERS_TEST = """
import pytest
from pyjms import jms_listener

@jms_listener("orders")
def on_order(text: str) -> None:
    if text == "bad":
        raise ValueError("bad order")

async def test_handled(jms_app):
    await jms_app.start(on_order)
    await jms_app.template.convert_and_send("orders", "good")
    await jms_app.drained("orders", raise_errors=True)
    assert [m.text for m in jms_app.recorder.messages(on_order)] == ["good"]

async def test_template_and_broker(jms_template, jms_broker):
    await jms_template.convert_and_send("q", "x")
    assert await jms_template.receive_and_convert("q") == "x"
"""


def run_tests(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run the tests of the pytester's folder."""
    pytest_arguments = ("-m", "pytest", "-p", "no:cacheprovider", *arguments)
    done = run_python(*pytest_arguments, cwd=pytester.path)
    return pytest.RunResult(
        done.returncode, done.stdout.splitlines(), done.stderr.splitlines(), 0.0
    )


@pytest.mark.parametrize("backends", ["asyncio", "asyncio trio"])
def test_in_a_users_project(pytester: pytest.Pytester, backends: str) -> None:
    pytester.makeini("[pytest]\nanyio_mode = auto\nfilterwarnings = error\n")
    pytester.makeconftest(
        textwrap.dedent(f"""
        import pytest

        @pytest.fixture(params={backends.split()!r})
        def anyio_backend(request):
            return request.param
        """)
    )
    pytester.makepyfile(USERS_TEST)
    done = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    done.assert_outcomes(passed=2 * len(backends.split()))


def test_marks_do_instead_of_the_mode(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.anyio
        async def test_it(jms_template):
            await jms_template.convert_and_send("q", "x")
        """
    )
    done = run_tests(pytester, "-k", "asyncio")
    done.assert_outcomes(passed=1, deselected=1)


@jms_listener("stuck", id="stuck")
async def stuck(text: str) -> None:
    await anyio.Event().wait()


async def test_draining_gives_up_in_real_time(jms_clock: VirtualClock, jms_app: JmsTestApp) -> None:
    await jms_app.start(handler)
    before = jms_clock.now()
    await jms_app.template.convert_and_send("nobody.listens", "x")
    with pytest.raises(RequestTimeoutException, match=r"not drained within 0\.05 s: 1 messages"):
        await jms_app.drained("nobody.listens", timeout=0.05)
    assert jms_clock.now() == before


async def test_stopping_gives_up_in_real_time(jms_clock: VirtualClock, jms_app: JmsTestApp) -> None:
    application = await jms_app.start(stuck)
    await jms_app.template.convert_and_send("stuck", "x")
    await jms_clock.settle()
    await jms_app.stop(timeout=0.05)
    assert not application.is_running
    assert len(jms_app.recorder.calls(stuck)) == 1
    before = jms_clock.now()
    await jms_clock.advance(1)  # it is the test's clock again
    assert jms_clock.now() == before + 1


@pytest.mark.parametrize("url", ["vm://x?create=false", "vm://x"])
def test_redeliveries_come_at_once_unless_a_test_wants_otherwise(url: str) -> None:
    def delays(url: str, delay: float = 0.0) -> tuple[float, float]:
        policy = ConnectionFactory(with_redelivery_delay(url, delay)).redelivery_policy
        return policy.initial_redelivery_delay, policy.redelivery_delay

    assert delays(url) == (0, 0)
    assert delays(url, 2.5) == (2.5, 2.5)
    mark = "&" if "?" in url else "?"
    assert delays(f"{url}{mark}jms.redeliveryPolicy.maximumRedeliveries=1") == (0, 0)
    assert delays(f"{url}{mark}jms.redeliveryPolicy.redeliveryDelay=7") == (1, 0.007)
    assert delays("failover:(tcp://h:1?soTimeout=1,tcp://i:1)") == (0, 0)


async def test_a_bad_message_becomes_a_dead_letter_at_once(jms_broker: EmbeddedBroker) -> None:
    app = JmsTestApp(jms_broker, jms_broker.url)
    await app.start(handler)
    try:
        await app.template.convert_and_send("in", "bad")
        await app.drained("in")
        (dead,) = await app.dead_letters()
        assert isinstance(dead, TextMessage)
        assert dead.text == "bad"
        assert len(app.recorder.calls(handler)) == 7
    finally:
        await app.stop()


async def test_what_handlers_raised_is_reported(
    jms_clock: VirtualClock, jms_broker: EmbeddedBroker
) -> None:
    app = JmsTestApp(jms_broker, jms_broker.url)
    await app.start(handler, redelivery_delay=1.0)
    try:
        await app.template.convert_and_send("in", "bad")
        await jms_clock.advance(1)
        with pytest.raises(RequestTimeoutException) as caught:
            await app.drained("in", timeout=0)
    finally:
        await app.stop()
    assert "queue://in was not drained within 0 s: 1 messages" in str(caught.value)
    assert "handlers raised 2 times so far: ValueError('bad') 2 times" in str(caught.value)
    assert "virtual time stands still" in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_blocking_test(jms_blocking_app: Any) -> None:
    jms_blocking_app.start(blocking_handler)
    jms_blocking_app.template.convert_and_send("blocking", 1)
    jms_blocking_app.template.convert_and_send("blocking", "bad")
    jms_blocking_app.drained("blocking")
    jms_blocking_app.until(lambda calls: len(calls) == 2)
    assert [call.message.text for call in jms_blocking_app.recorder.calls(blocking_handler)] == [
        "1",
        "bad",
    ]
    assert [dead.text for dead in jms_blocking_app.dead_letters()] == ["bad"]
    with pytest.raises(RequestTimeoutException):
        jms_blocking_app.until(lambda calls: len(calls) == 3, timeout=0.01)


@jms_listener("blocking")
def blocking_handler(number: int) -> None:
    assert number == 1


async def test_receives_of_a_test_end(jms_app: JmsTestApp) -> None:
    await jms_app.start(handler)
    assert jms_app.template.receive_timeout == 5.0
    assert jms_app.application.template.receive_timeout is None
    assert jms_app.template is jms_app.template
    jms_app.template.receive_timeout = 0.01
    assert await jms_app.template.convert_send_and_receive("nobody.replies", "x") is None
    assert await jms_app.template.receive_and_convert("nothing.here") is None


async def test_the_settings_time_out_is_kept(jms_app: JmsTestApp) -> None:
    settings = PyjmsSettings.model_validate({"jms": {"template": {"receive_timeout": "7s"}}})
    await jms_app.start(settings=settings)
    assert jms_app.template.receive_timeout == 7.0


@pytest.mark.parametrize(("delay", "calls"), [(0.0, 3), (None, 1)])
async def test_delays_of_the_settings_do_not_slow_tests_down(
    delay: float | None, calls: int, jms_broker: EmbeddedBroker
) -> None:
    redelivery = {"maximum": 2, "initial_delay": "1h", "multiplier": 2, "jitter": 0.1}
    settings = PyjmsSettings.model_validate(
        {
            "activemq": {"redelivery": redelivery},
            "listeners": {"in": {"redelivery": {"initial_delay": "2h"}}},
        }
    )
    app = JmsTestApp(jms_broker, jms_broker.url)
    await app.start(handler, settings=settings, redelivery_delay=delay)
    await app.template.convert_and_send("in", "bad")
    await app.recorder.until(lambda made: len(made) == calls)
    if delay is not None:
        await app.drained("in")
    assert len(app.recorder.all_calls) == calls
    await app.stop()


@pytest.mark.parametrize(
    ("test", "hint"),
    [
        ("async def test_it(jms_app): ...", '*set anyio_mode = "auto" in the pytest section*'),
        ("async def test_it(jms_template): ...", "*or mark it with @pytest.mark.anyio*"),
        ("def test_it(jms_app): ...", "*or use jms_blocking_app, whose template blocks*"),
    ],
)
def test_a_test_that_runs_in_no_loop_has_a_hint(
    test: str, hint: str, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(test)
    done = run_tests(pytester)
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines([f"*test_it uses jms_*{hint}"])


def test_fixtures_have_a_prefix_unless_a_project_wants_short_names(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile("def test_it(): ...")
    shown = run_tests(pytester, "--fixtures").stdout.str()
    names = {
        line.split()[0] for line in shown.splitlines() if "plugin.py:" in line and "pyjms" in line
    }
    assert "jms_app" in names
    assert all(name.startswith(("jms_", "pyjms_")) for name in names)
