"""Every operation of the web site times every role: Jolokia, messages, metrics, events, console.

The connectors' matrices: tests/integration/security/test_access_matrix.py (OpenWire) and
test_stomp_access_matrix.py.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import httpx
import pytest

from pyjms.aio import ConnectionFactory
from pyjms.jms.destination import Queue, Topic
from pyjms_broker.console.actions import ACTIONS
from pyjms_broker.console.pages import _PAGES
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import load_broker_settings
from pyjms_broker.settings.security import AuthorizationSettings
from tests.kit.brokers.security import simple, user
from tests.kit.waiting import until
from tests.kit.web.sites import WebBroker, web_broker

DOMAIN = "org.apache.activemq"
NOBODY, USER, READER, ADMIN = "nobody", "joe", "rita", "ann"
ROLES = {NOBODY: 401, USER: 403, READER: 403, ADMIN: None}
"""How each is refused what only administrators may do; None: it is not."""
READS = {NOBODY: 401, USER: 403, READER: None, ADMIN: None}
OPEN = dict.fromkeys(ROLES)

SITE = f"""
broker_name: matrix
persistent: false
scheduler_support: true
connectors: [{{name: openwire, uri: "tcp://127.0.0.1:0"}}]
policies:
  - {{destination: orders, slow_consumer_strategy: {{type: abort_slow}}}}
network_connectors:
  - {{name: to-remote, uri: "static:(vm://matrix-remote?create=false)", user_name: {ADMIN}, password: secret}}
plugins:
  - type: simple_authentication
    users:
      - {{username: {USER}, password: secret, groups: users}}
      - {{username: {READER}, password: secret, groups: readers}}
      - {{username: {ADMIN}, password: secret, groups: admins}}
  - runtime_configuration
  - destinations
web: {{port: 0, reader_groups: [readers]}}
"""
MESSAGE_ROLES = {
    "stranger": "", "reader": "r", "writer": "w", "admin": "a",
    "subscriber": "ra", "publisher": "wa", "both": "rw", "root": "rwa",
}  # fmt: skip
"""Users of /api/message, with their rights: to read, to write, to create."""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"  # uvicorn has no other


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WebBroker]:
    tmp_path = tmp_path_factory.mktemp("matrix")
    file = tmp_path / "broker.yaml"
    file.write_text(f"{SITE}data_directory: {tmp_path}\n", encoding="utf-8")
    service = BrokerService.from_settings(load_broker_settings(file, environ={}))
    async with BrokerService("matrix-remote", persistent=False), service:
        yield WebBroker(service)


@pytest.fixture(scope="module")
async def clients(site: WebBroker) -> AsyncIterator[dict[str, httpx.AsyncClient]]:
    async with AsyncExitStack() as stack:
        yield {
            role: await stack.enter_async_context(site.client(None if role == NOBODY else role))
            for role in ROLES
        }


def refusal(status: int) -> int | None:
    return status if status in (401, 403) else None


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        *(("GET", path, OPEN) for path in ("/health/live", "/health/ready")),
        ("GET", "/admin/login", OPEN),
        *(("GET", path, READS) for path in ("/metrics", "/api/jolokia/version")),
        ("GET", "/api/jolokia/list?maxDepth=1", READS),
        ("GET", "/api/jolokia/read/org.apache.activemq:type=Broker,brokerName=matrix/Queues", READS),
        ("GET", "/api/jolokia/search/*:*", READS),
        *(
            (method, f"/admin{path.replace('{action}', action)}", ROLES if method == "POST" else READS)
            for method, path in _PAGES
            if "log" not in path
            for action in (sorted(ACTIONS) if "{action}" in path else [""])
        ),
    ],
)  # fmt: skip
async def test_each_part_of_the_site(
    clients: dict[str, httpx.AsyncClient], method: str, path: str, expected: dict[str, int | None]
) -> None:
    found = {}
    for role, client in clients.items():
        fields = {}
        if method == "POST" and role == ADMIN:
            page = await client.get("/admin/send")
            match = re.search(r'name="token" value="([^"]+)"', page.text)
            assert match is not None
            fields = {"token": match[1]}
        response = await client.request(method, path, data=fields or None)
        found[role] = refusal(response.status_code)
    assert found == expected


async def test_events_are_for_readers(clients: dict[str, httpx.AsyncClient]) -> None:
    found = {}
    for role, client in clients.items():
        async with client.stream("GET", "/api/events") as response:
            found[role] = refusal(response.status_code)
    assert found == READS


async def test_every_operation_and_attribute_of_jolokia_is_the_administrators(
    site: WebBroker, clients: dict[str, httpx.AsyncClient]
) -> None:
    """Those of every kind of view; administrators get as far as the arguments' number."""
    management = site.service.management
    factory = ConnectionFactory(f"{site.service.vm_uri}?create=false")
    connection = await factory.create_connection(ADMIN, "secret")
    await connection.set_client_id("shop")
    session = await connection.create_session()
    await (await session.create_durable_subscriber(Topic("news"), "nightly")).close()
    await session.create_durable_subscriber(Topic("news"), "daily")
    await session.create_consumer(Topic("news"))
    await session.create_consumer(Queue("orders"))
    await session.create_producer(Queue("orders"))
    await until(lambda: site.service.networks.bridges)
    kinds = {id(view.kind): view for view in management.find("*:*")}
    classes = {each.kind.java_class.rpartition(".")[2] for each in kinds.values()}
    for name in (
        *("BrokerView", "QueueView", "TopicView", "ConnectorView", "ConnectionView"),
        *("SubscriptionView", "TopicSubscriptionView", "DurableSubscriptionView"),
        *("InactiveDurableSubscriptionView", "ProducerView", "JobSchedulerView", "HealthView"),
        *("NetworkConnectorView", "NetworkBridgeView", "AbortSlowConsumerStrategyView"),
        *("RuntimeConfigurationView", "PersistenceAdapterView"),
    ):
        assert name in classes, classes
    requests = [
        *(
            {"type": "exec", "mbean": str(view.name), "operation": f"{name}(nothing)"}
            for view in kinds.values()
            for name in view.kind.operations
        ),
        *(
            {"type": "write", "mbean": str(view.name), "attribute": name, "value": {}}
            for view in kinds.values()
            for name in view.kind.attributes
        ),
    ]
    assert len(requests) > 80
    found = {}
    for role, client in clients.items():
        response = await client.post("/api/jolokia", json=requests)
        if response.status_code == 200:
            found[role] = {answer["status"] for answer in response.json()}
        else:
            found[role] = {response.status_code}
    await connection.close()
    assert found == {NOBODY: {401}, USER: {403}, READER: {403}, ADMIN: {400, 404}}


OPERATIONS = {
    "send to a queue": ("POST", "/api/message/M/q?type=queue", "w"),
    "send to a new queue": ("POST", "/api/message/M/new/{}?type=queue", "wa"),
    "send to a topic": ("POST", "/api/message/M/t?type=topic", "w"),
    "send to a new topic": ("POST", "/api/message/M/new/{}?type=topic", "wa"),
    "send to a composite": ("POST", "/api/message?destination=queue://open,M.q", "w"),
    "take from a queue": ("GET", "/api/message/M/q?type=queue&readTimeout=1", "r"),
    "take by DELETE": ("DELETE", "/api/message/M/q?type=queue&readTimeout=1", "r"),
    "take from a new queue": ("GET", "/api/message/M/taken/{}?type=queue&readTimeout=1", "ra"),
    "take from a topic": ("GET", "/api/message/M/t?type=topic&readTimeout=1", "r"),
    "send where no entry matches": ("POST", "/api/message/other?type=queue", "x"),
    "take where no entry matches": ("GET", "/api/message/other?type=queue&readTimeout=1", "x"),
    "send to what is open": ("POST", "/api/message/open?type=queue", ""),
}
"""Method and path, and the rights that it needs; x: nobody has it."""


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_messages_need_the_rights_on_their_destination(operation: str) -> None:
    method, path, needs = OPERATIONS[operation]
    group = {right: [n for n, has in MESSAGE_ROLES.items() if right in has] for right in "rwa"}
    entries = [
        {"destination": f"{kind}M.>", "read": group["r"], "write": group["w"], "admin": group["a"]}
        for kind in ("", "topic://")
    ]
    opened = {"destination": "open", "read": "*", "write": "*", "admin": "*"}
    advisories = {**opened, "destination": "topic://ActiveMQ.Advisory.>"}
    rights = AuthorizationSettings.model_validate({"entries": [*entries, opened, advisories]})
    users = simple(*(user(name, name) for name in MESSAGE_ROLES))
    async with web_broker(users, rights) as broker:
        for kind, name in (
            ("Queue", "M.q"),
            ("Topic", "M.t"),
            ("Queue", "other"),
            ("Queue", "open"),
        ):
            (view,) = broker.service.management.find("*:type=Broker,brokerName=*")
            await view.invoke(f"add{kind}", name)
        found = {}
        for role in (NOBODY, *MESSAGE_ROLES):
            async with broker.client(None if role == NOBODY else role) as client:
                body = {"body": "x"} if method == "POST" else None
                response = await client.request(method, path.format(role), data=body)
                found[role] = refusal(response.status_code)
    expected = {
        role: None if set(needs) <= set(has) else 403 for role, has in MESSAGE_ROLES.items()
    }
    assert found == {NOBODY: 401, **expected}
