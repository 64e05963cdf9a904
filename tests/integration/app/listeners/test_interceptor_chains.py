"""Interceptors of application, container factory, listener and YAML; around sends and replies."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest
from dependency_injector import providers

from pyjms import (
    ApplicationContainer,
    ConfigurationException,
    DefaultJmsListenerContainerFactory,
    HandlerInvocation,
    JmsApplication,
    Proceed,
    PyjmsSettings,
    SendInvocation,
    jms_listener,
    send_to,
)
from pyjms import ConnectionFactory as BlockingFactory
from pyjms import JmsTemplate as BlockingTemplate
from pyjms.aio import ConnectionFactory, JmsTemplate, SingleConnectionFactory
from pyjms.jms.message import TextMessage
from pyjms.listener.endpoint import SimpleJmsListenerEndpoint
from pyjms.testing.app import JmsTestApp
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.recipes import install, run_recipe

LOG: list[str] = []
TENANT: ContextVar[str] = ContextVar("tenant", default="none")


@pytest.fixture(autouse=True)
def empty_log() -> None:
    LOG.clear()


def named(name: str, *, blocking: bool = False) -> Callable[..., Any]:
    """Return an interceptor that logs its name before and after."""

    async def on_loop(invocation: HandlerInvocation, proceed: Proceed) -> object:
        LOG.append(name)
        result = await proceed()
        LOG.append(f"/{name}")
        return result

    def in_thread(invocation: HandlerInvocation, proceed: Proceed) -> object:
        LOG.append(name)
        result = proceed()
        LOG.append(f"/{name}")
        return result

    return in_thread if blocking else on_loop


from_yaml = named("yaml")


class FromYaml:
    """A class that YAML names."""

    async def __call__(self, invocation: HandlerInvocation, proceed: Proceed) -> object:
        LOG.append(f"class of {invocation.listener_id}")
        return await proceed()


NAME = f"{__name__}:from_yaml"


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or _this_module())


def _this_module() -> ModuleType:
    module = type(sys)(__name__)
    module.__dict__.update(globals())
    return module


# --- around handlers


@pytest.mark.parametrize("blocking", [False, True])
async def test_application_then_factory_then_listener(jms_app: JmsTestApp, blocking: bool) -> None:
    class Container(ApplicationContainer):
        interceptors = providers.List(providers.Object(named("container", blocking=blocking)))

    @jms_listener("in", interceptors=[named("listener", blocking=blocking), NAME])
    def handle(text: str) -> None:
        LOG.append(text)

    container = Container(settings=_settings(jms_app))
    options = container.jms_listener_container_factory().options
    options["interceptors"] = [named("factory", blocking=blocking)]
    await jms_app.start(
        handle,
        settings=_settings(jms_app),
        container=container,
        interceptors=[named("application", blocking=not blocking)],
    )
    await jms_app.template.convert_and_send("in", "handler")
    await jms_app.drained("in")
    order = ["container", "application", "factory", "listener", "yaml"]
    assert [*order, "handler", *(f"/{name}" for name in reversed(order))] == LOG


def _settings(jms_app: JmsTestApp, **sections: Any) -> PyjmsSettings:
    return PyjmsSettings.model_validate(sections).with_broker_url(jms_app.url)


async def test_yaml_names_them_for_all_listeners_and_for_one(jms_app: JmsTestApp) -> None:
    @jms_listener("in", id="orders", interceptors=[named("decorator")])
    async def handle(text: str) -> None: ...

    @jms_listener("other", id="others", interceptors=[named("decorator")])
    async def other(text: str) -> None: ...

    settings = _settings(
        jms_app,
        jms={"listener": {"interceptors": [f"{__name__}.FromYaml"]}},
        listeners={"orders": {"interceptors": [NAME]}},
    )
    await jms_app.start(handle, other, settings=settings)
    await jms_app.template.convert_and_send("in", "a")
    await jms_app.drained("in")
    assert LOG == ["class of orders", "yaml", "/yaml"]
    LOG.clear()
    await jms_app.template.convert_and_send("other", "a")
    await jms_app.drained("other")
    assert LOG == ["class of others", "decorator", "/decorator"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nowhere:x", "'nowhere:x' cannot be loaded: ModuleNotFoundError"),
        ("absent", "No installed packages have an interceptor 'absent'"),
        ("sys:path", "cannot be called"),
    ],
)
def test_wrong_names_are_found_by_the_check(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "application.yaml"
    path.write_text(f"listeners:\n  orders:\n    interceptors: [{name}]\n")

    @jms_listener("in", id="orders")
    async def handle(text: str) -> None: ...

    with pytest.raises(ConfigurationException, match=text) as caught:
        JmsApplication(handle, config=path).check()
    assert "application.yaml:3" in str(caught.value)

    @jms_listener("in", id="o", interceptors=[name])
    async def marked(text: str) -> None: ...

    with pytest.raises(ConfigurationException, match=text) as caught:
        JmsApplication(marked, settings=PyjmsSettings()).check()
    assert f"{Path(__file__).name}:" in str(caught.value)


def test_an_installed_package_adds_one_by_name(tmp_path: Path) -> None:
    program = """
        from pyjms import JmsApplication, PyjmsSettings, jms_listener
        import acme_audit

        @jms_listener("in", id="orders", interceptors=["audit"])
        async def handle(text): ...

        (endpoint,) = JmsApplication(handle, settings=PyjmsSettings()).endpoints()
        print([type(each).__name__ for each in endpoint.interceptors])
    """
    install(
        {
            "pyproject.toml": '[project]\nname = "acme"\nversion = "1"\n'
            '[project.entry-points."pyjms.interceptors"]\naudit = "acme_audit:Audit"\n',
            "acme_audit.py": "class Audit:\n"
            "    async def __call__(self, invocation, proceed):\n"
            "        return await proceed()\n",
            "program.py": "\n".join(line[8:] for line in program.splitlines()),
        },
        tmp_path,
    )
    assert run_recipe(tmp_path, "program.py").strip() == "['Audit']"


async def test_an_endpoint_made_in_code_has_them_too(jms_app: JmsTestApp) -> None:
    heard = anyio.Event()

    async def listen(message: Any) -> None:
        LOG.append("listener")
        heard.set()

    await jms_app.start(interceptors=[named("application")])
    application = jms_app.application
    endpoint = SimpleJmsListenerEndpoint(
        id="plain", destination="in", message_listener=listen, interceptors=[named("endpoint")]
    )
    factory = application.container.jms_listener_container_factory()
    await application.registry.register_and_start(endpoint, factory.create_listener_container)
    await jms_app.template.convert_and_send("in", "a")
    await heard.wait()
    await jms_app.drained("in")
    assert LOG == ["endpoint", "listener", "/endpoint"]


async def test_an_invocation_shows_destination_headers_and_properties(jms_app: JmsTestApp) -> None:
    seen: list[Any] = []

    async def look(invocation: HandlerInvocation, proceed: Proceed) -> object:
        message = invocation.message
        seen.extend(
            [str(invocation.destination), message.correlation_id, invocation.properties["tenant"]]
        )
        return await proceed()

    @jms_listener("in")
    def handle(text: str) -> None: ...

    await jms_app.start(handle, interceptors=[look])
    await jms_app.template.convert_and_send(
        "in", "a", correlation_id="c1", properties={"tenant": "t"}
    )
    await jms_app.drained("in")
    assert seen == ["queue://in", "c1", "t"]


# --- def interceptors


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_a_def_interceptor_shares_thread_and_context_with_the_handler(
    jms_app: JmsTestApp, kind: str
) -> None:
    threads: list[threading.Thread] = []
    tenants: list[str] = []

    def set_tenant(invocation: HandlerInvocation, proceed: Proceed) -> object:
        threads.append(threading.current_thread())
        token = TENANT.set("acme")
        try:
            result = proceed()
        finally:
            TENANT.reset(token)
        return result * 2

    async def note_result(invocation: HandlerInvocation, proceed: Proceed) -> object:
        result = await proceed()
        LOG.append(result)
        return result

    def in_thread(text: str) -> str:
        threads.append(threading.current_thread())
        tenants.append(TENANT.get())
        return text

    async def on_loop(text: str) -> str:
        tenants.append(TENANT.get())
        return text

    handler = jms_listener("in")(in_thread if kind == "def" else on_loop)
    await jms_app.start(send_to("out")(handler), interceptors=[note_result, set_tenant])
    await jms_app.template.convert_and_send("in", "ab")
    assert await jms_app.template.receive_and_convert("out") == "ab"
    await jms_app.drained("in")
    assert LOG == ["abab"]
    assert tenants == ["acme"]
    assert len(set(threads)) == 1
    assert threads[0] is not threading.main_thread()
    assert TENANT.get() == "none"


async def test_a_def_interceptor_may_retry_refuse_and_use_a_blocking_template(
    jms_app: JmsTestApp,
) -> None:
    attempts: list[str] = []

    def retry(invocation: HandlerInvocation, proceed: Proceed) -> object:
        BlockingTemplate.of(jms_app.application.template).convert_and_send("noted", "x")
        try:
            return proceed()
        except ValueError:
            return proceed()

    @jms_listener("in")
    def handle(text: str) -> None:
        attempts.append(text)
        if len(attempts) == 1:
            raise ValueError(text)
        if text == "bad":
            raise LookupError(text)

    await jms_app.start(handle, interceptors=[retry])
    await jms_app.template.convert_and_send("in", "a")
    await jms_app.drained("in")
    assert attempts == ["a", "a"]
    assert await jms_app.template.receive_and_convert("noted") == "x"
    await jms_app.template.convert_and_send("in", "bad")
    await jms_app.drained("in")
    (dead,) = await jms_app.dead_letters()
    assert "LookupError" in str(dead.properties["dlqDeliveryFailureCause"])


async def test_a_given_up_handler_ends_its_def_interceptor(jms_app: JmsTestApp) -> None:
    entered = anyio.Event()
    ended = threading.Event()
    tried_again: list[object] = []

    def hold(invocation: HandlerInvocation, proceed: Proceed) -> object:
        try:
            return proceed()
        except Exception as error:
            tried_again.append(error)
            return proceed()
        finally:
            ended.set()

    @jms_listener("in", id="slow")
    async def handle(text: str) -> None:
        entered.set()
        await anyio.sleep_forever()

    await jms_app.start(handle, interceptors=[hold])
    await jms_app.template.convert_and_send("in", "a")
    await entered.wait()
    await jms_app.stop(0)
    assert await anyio.to_thread.run_sync(ended.wait, 10)
    assert tried_again == []


async def test_proceed_belongs_to_the_interceptors_thread(jms_app: JmsTestApp) -> None:
    errors: list[BaseException] = []

    def hand_over(invocation: HandlerInvocation, proceed: Proceed) -> object:
        def elsewhere() -> None:
            try:
                proceed()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        return proceed()

    @jms_listener("in")
    def handle(text: str) -> None: ...

    await jms_app.start(handle, interceptors=[hand_over])
    await jms_app.template.convert_and_send("in", "a")
    await jms_app.drained("in")
    assert [type(error).__name__ for error in errors] == ["IllegalStateException"]
    assert "another thread" in str(errors[0])


# --- around sends


@pytest.mark.parametrize("blocking", [False, True])
async def test_sends_requests_and_replies_are_surrounded(
    jms_app: JmsTestApp, blocking: bool
) -> None:
    seen: list[Any] = []

    def note(sending: SendInvocation) -> None:
        seen.append((str(sending.destination), sending.is_reply, sending.listener_id))
        sending.set_property("tenant", "acme")

    async def on_loop(sending: SendInvocation, proceed: Proceed) -> object:
        note(sending)
        await proceed()
        seen.append(sending.message.message_id is not None)
        return None

    def in_thread(sending: SendInvocation, proceed: Proceed) -> object:
        note(sending)
        proceed()
        seen.append(sending.message.message_id is not None)
        return None

    @jms_listener("in", id="answers")
    async def handle(text: str) -> str:
        return text.upper()

    await jms_app.start(handle, send_interceptors=[in_thread if blocking else on_loop])
    template = jms_app.template
    await template.convert_and_send("other", "a")
    message = await template.receive("other")
    assert message is not None
    assert message.properties["tenant"] == "acme"
    assert seen == [("queue://other", False, None), True]
    seen.clear()
    reply = await template.send_and_receive("in", lambda s: s.create_text_message("b"))
    assert reply is not None
    assert reply.properties["tenant"] == "acme"
    places = [each for each in seen if each is not True]
    assert places[0] == ("queue://in", False, None)
    assert [where[1:] for where in places[1:]] == [(True, "answers")]


async def test_a_received_message_is_sent_on_with_another_property(jms_app: JmsTestApp) -> None:
    async def hop(sending: SendInvocation, proceed: Proceed) -> object:
        sending.set_property("hops", int(str(sending.properties.get("hops", 0))) + 1)
        return await proceed()

    await jms_app.start(send_interceptors=[hop])
    template = jms_app.template
    await template.convert_and_send("a", "text", properties={"kept": "yes"})
    await template.convert_and_send("b", await template.receive("a"))
    last = await template.receive("b")
    assert last is not None
    assert dict(last.properties) == {"kept": "yes", "hops": 2}
    assert isinstance(last, TextMessage)
    assert last.text == "text"


async def test_what_a_send_interceptor_raises_is_the_send_s_failure(jms_app: JmsTestApp) -> None:
    async def refuse(sending: SendInvocation, proceed: Proceed) -> object:
        raise LookupError(f"no right to send to {sending.destination}")

    await jms_app.start(send_interceptors=[refuse])
    with pytest.raises(LookupError, match="queue://a"):
        await jms_app.template.convert_and_send("a", "x")


async def test_yaml_and_a_template_of_the_container_have_send_interceptors(
    jms_app: JmsTestApp,
) -> None:
    class Container(ApplicationContainer):
        jms_template = providers.Singleton(
            JmsTemplate,
            ApplicationContainer.connection_factory,
            send_interceptors=[named("own")],
        )

    settings = _settings(jms_app, jms={"template": {"interceptors": [NAME]}})
    await jms_app.start(settings=settings, send_interceptors=[named("application")])
    await jms_app.template.convert_and_send("a", "x")
    assert LOG == ["application", "yaml", "/yaml", "/application"]
    await jms_app.stop()
    LOG.clear()
    await jms_app.start(
        settings=settings, container=Container, send_interceptors=[named("application")]
    )
    await jms_app.application.template.convert_and_send("a", "x")
    assert LOG == ["application", "own", "/own", "/application"]


async def test_a_template_made_by_hand(jms_broker: EmbeddedTestBroker) -> None:
    factory = SingleConnectionFactory(ConnectionFactory(jms_broker.url))
    template = JmsTemplate(factory, send_interceptors=[named("a"), named("b", blocking=True)])
    await template.convert_and_send("q", "x")
    assert LOG == ["a", "b", "/b", "/a"]
    LOG.clear()
    template.send_interceptors = [named("c")]
    await template.convert_and_send("q", "x")
    assert LOG == ["c", "/c"]
    template.send_interceptors = ()
    await template.convert_and_send("q", "x")
    assert LOG == ["c", "/c"]
    await factory.destroy()


def test_a_blocking_template_has_them() -> None:
    interceptors = [named("a"), named("b", blocking=True)]
    factory = BlockingFactory("vm://surrounded?broker.persistent=false")
    template = BlockingTemplate(factory, send_interceptors=interceptors)
    assert template.send_interceptors == tuple(interceptors)
    template.convert_and_send("q", "x")
    assert LOG == ["a", "b", "/b", "/a"]


async def test_a_container_factory_made_by_hand(jms_broker: EmbeddedTestBroker) -> None:
    heard = anyio.Event()

    async def listen(message: Any) -> None:
        heard.set()

    factory = SingleConnectionFactory(ConnectionFactory(jms_broker.url))
    containers = DefaultJmsListenerContainerFactory(factory, interceptors=[named("factory")])
    endpoint = SimpleJmsListenerEndpoint(
        id="x", destination="q", message_listener=listen, interceptors=[named("own", blocking=True)]
    )
    container = containers.create_listener_container(endpoint)
    await container.start()
    await JmsTemplate(factory).convert_and_send("q", "x")
    await heard.wait()
    await container.shutdown()
    await factory.destroy()
    assert LOG == ["factory", "own", "/own", "/factory"]
