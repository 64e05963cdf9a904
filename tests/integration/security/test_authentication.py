"""Who may connect: users, passwords, guests. (activemq-edges 6)"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyjms.aio import ConnectionFactory, JmsTemplate
from pyjms.errors import JMSException, JMSSecurityException
from pyjms.jms.destination import Queue
from pyjms.runtime import clock as _clock
from pyjms.testing.clock import VirtualClock
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import ConnectionInfo, SessionInfo
from pyjms_broker.security.passwords import ScryptHash, hash_password
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import load_broker_settings
from pyjms_broker.settings.security import PropertiesAuthenticationSettings
from tests.kit.brokers.security import StartSecured, simple, user
from tests.kit.clients.raw import RawClient
from tests.kit.processes.forked_python import run_python
from tests.kit.waiting import until

CHEAP = "$scrypt$ln=4,r=8,p=1$c29kaXVtY2hsb3JpZGU$FxK+ZX5IjhjMy3VeWhZ/hhGeYSSFDP5V82fL2UZhdsY"
"""A hash of `secret` that takes no time."""
REFUSED = r"User name \[{}\] or password is invalid\."


@pytest.mark.fact("activemq-edges SE1")
@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("alice", "wrong"),
        ("alice", ""),
        ("alice", None),
        ("nobody", "secret"),
        ("", ""),
        (None, None),
        ("alice", "secret "),
    ],
)
async def test_only_users_with_their_password_connect(
    secured: StartSecured, name: str | None, password: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with secured(simple(user("alice", "admins, users"))) as broker:
        await broker.client("alice", "secret")
        assert broker.logins == [("alice", frozenset({"admins", "users"}))]
        shown = "null" if name is None else name
        with pytest.raises(JMSSecurityException, match=REFUSED.format(shown)):
            await broker.client(name, password)
        assert len(broker.logins) == 1
    lines = [r.getMessage() for r in caplog.records if "log in at" in r.getMessage()]
    assert len(lines) == 1
    assert f"{shown!r} from vm://" in lines[0]
    assert "secret" not in caplog.text
    assert "wrong" not in caplog.text


@pytest.mark.fact("activemq-edges SE1")
async def test_guests_have_neither_user_nor_password(secured: StartSecured) -> None:
    guests = simple(
        user("alice"), anonymous_access_allowed=True, anonymous_user="guest", anonymous_group="a,b"
    )
    async with secured(guests) as broker:
        client = await broker.client()
        await client.send(Queue("q"), "x")
        assert broker.logins == [("guest", frozenset({"a", "b"}))]
        for name, password in (("", None), (None, "x"), ("bob", "")):
            other = RawClient(create_transport(broker.broker.url))
            broker.clients.append(other)
            await other.transport.start()
            with pytest.raises(JMSSecurityException, match="or password is invalid"):
                await other.request(ConnectionInfo(other.connection_id, other.name, password, name))


async def test_a_refused_guest_is_told_how_to_name_a_user(secured: StartSecured) -> None:
    async with (
        secured(simple(user("alice"))) as broker,
        await ConnectionFactory(broker.broker.url).create_connection() as connection,
    ):
        with pytest.raises(JMSSecurityException, match=r"User name \[null\] .*--user"):
            await connection.start()


@pytest.mark.fact("activemq-broker B5")
@pytest.mark.parametrize("of_principal", [None, False, True])
async def test_messages_name_the_login_or_the_authenticated_user(
    secured: StartSecured, of_principal: bool | None
) -> None:
    guests = simple(user("alice"), anonymous_access_allowed=True, anonymous_user="guest")
    settings = {} if of_principal is None else {"populate_jmsx_user_id": True}
    async with secured(
        guests, use_authenticated_principal_for_jmsx_user_id=bool(of_principal), **settings
    ) as broker:
        reader = await broker.client("alice")
        await reader.consumer(Queue("q"))
        for name in ("alice", None):
            await (await broker.client(name)).send(Queue("q"), "x")
        seen = [(await reader.message()).user_id for _ in range(2)]
    principals = ["alice", "guest"] if of_principal else ["alice", None]
    assert seen == ([None, None] if of_principal is None else principals)


@pytest.mark.fact("activemq-broker C2")
async def test_a_refused_client_is_disconnected_after_two_seconds(secured: StartSecured) -> None:
    async with secured(simple(user("alice"))) as broker:
        url = await broker.broker.tcp_url()
        (connector,) = broker.service.connectors
        async with VirtualClock() as clock:
            with pytest.raises(JMSSecurityException):
                await broker.client("alice", "wrong", url=url)
            (client,) = broker.clients
            await clock.advance(1.9)
            assert not client.errors
            assert connector.connections
            await clock.advance(0.2)
            await until(lambda: bool(client.errors) and not connector.connections)


async def test_a_refused_client_takes_no_connection_from_another(secured: StartSecured) -> None:
    async with secured(simple(user("alice"))) as broker:
        victim = await broker.client("alice", name="ID:same")
        with pytest.raises(JMSSecurityException):
            await broker.client("alice", "wrong", name="ID:same")
        await victim.send(Queue("q"), "still connected")
        assert len(broker.logins) == 1


async def test_a_refused_client_can_do_nothing(secured: StartSecured) -> None:
    async with secured(simple(user("alice"))) as broker:
        with pytest.raises(JMSSecurityException):
            await broker.client("eve", "x")
        (eve,) = broker.clients
        eve.send_command(SessionInfo(eve.session_id))
        for attempt in (
            lambda: eve.send(Queue("q"), "x"),
            lambda: eve.consumer(Queue("q")),
            lambda: eve.destination(Queue("q")),
            lambda: eve.transaction(0, eve.local(1)),
        ):
            with pytest.raises(JMSException):
                await attempt()
        assert Queue("q") not in broker.service.region_broker.destinations()


async def test_clients_log_in_with_the_factorys_user(secured: StartSecured) -> None:
    async with secured(simple(user("alice"))) as broker:
        url = await broker.broker.tcp_url()
        template = JmsTemplate(ConnectionFactory(url, user="alice", password="secret"))
        await template.convert_and_send("orders", "hello")
        assert await template.receive_and_convert("orders") == "hello"
        template = JmsTemplate(ConnectionFactory(url, user="alice", password="no"))
        with pytest.raises(JMSSecurityException, match=REFUSED.format("alice")):
            await template.convert_and_send("orders", "hello")


async def test_what_follows_a_slow_check_waits_for_it(secured: StartSecured) -> None:
    """Hashes are compared in a thread: commands that the client sends meanwhile are not lost."""
    hashed = hash_password("secret")
    async with secured(simple(user("alice", password=hashed))) as broker:
        for url in (broker.broker.url, await broker.broker.tcp_url()):
            client = RawClient(create_transport(url))
            broker.clients.append(client)
            await client.transport.start()
            client.send_command(
                ConnectionInfo(client.connection_id, client.name, "secret", "alice")
            )
            client.send_command(SessionInfo(client.session_id))
            await client.send(Queue("q"), "x")
            client = await broker.client("alice", url=url)  # recognised, without the hash
            await client.send(Queue("q"), "y")
        for name, password in (("alice", "wrong"), ("bob", "secret")):
            with pytest.raises(JMSSecurityException, match=REFUSED.format(name)):
                await broker.client(name, password)
        assert broker.broker.queue_statistics("q").messages == 4


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The passwords that are compared with a hash."""
    found: list[str] = []
    matches = ScryptHash.matches

    def counted(self: ScryptHash, password: str) -> bool:
        found.append(f"{password} ln={self.ln}")
        return matches(self, password)

    monkeypatch.setattr(ScryptHash, "matches", counted)
    return found


async def test_a_right_password_is_compared_once(
    secured: StartSecured, compared: list[str]
) -> None:
    async with secured(simple(user("alice", password=CHEAP))) as broker:
        for _ in range(3):
            await broker.client("alice")
    assert compared == ["secret ln=4"]


@pytest.mark.fact("activemq-edges SE20")
@pytest.mark.parametrize(
    ("name", "password"),
    [("alice", "no"), ("alice", None), ("plain", "no"), ("plain", None), ("nobody", "no")],
)
async def test_each_refusal_costs_one_comparison(
    secured: StartSecured, compared: list[str], name: str, password: str | None
) -> None:
    """Neither time nor processor time tells whether a user exists, or has a hash."""
    async with secured(simple(user("alice", password=CHEAP), user("plain"))) as broker:
        with pytest.raises(JMSSecurityException, match=REFUSED.format(name)):
            await broker.client(name, password)
    assert compared == [f"{password or ''} ln=4"]


@pytest.mark.fact("activemq-edges SE20")
async def test_a_user_who_fails_too_often_is_refused_for_a_time(
    secured: StartSecured, caplog: pytest.LogCaptureFixture
) -> None:
    plugin = simple(user("alice"), user("bob"), maximum_failed_logins=3, failed_login_period="30s")
    async with secured(plugin) as broker:
        url = await broker.broker.tcp_url()
        async with VirtualClock() as clock:
            for _ in range(3):
                with pytest.raises(JMSSecurityException, match="is invalid"):
                    await broker.client("alice", "guess", url=url)
            for name, password in (("alice", "secret"), ("nobody", "guess"), ("bob", "guess")):
                with pytest.raises(
                    JMSSecurityException, match=r"Too many failed logins from 127\.0\.0\.1"
                ):
                    await broker.client(name, password, url=url)
            await broker.client("bob", url=url)  # others behind the same address
            await broker.client("alice")  # vm:// is this process
            await clock.advance(31)
            await broker.client("alice", url=url)
    blocked = [r for r in caplog.records if "logins from 127.0.0.1 have failed" in r.getMessage()]
    assert len(blocked) == 1


@pytest.mark.fact("activemq-edges SE20")
async def test_a_refused_login_takes_as_long_as_a_comparison_but_computes_nothing(
    secured: StartSecured, compared: list[str]
) -> None:
    async with secured(simple(user("alice", password=CHEAP), maximum_failed_logins=1)) as broker:
        url = await broker.broker.tcp_url()
        for name in ("alice", "alice", "nobody"):
            with pytest.raises(JMSSecurityException):
                await broker.client(name, "no", url=url)
    assert compared == ["no ln=4"]


def written(folder: Path, users: str, groups: str) -> dict[str, Path]:
    """Write both files, with a time of change that no other version of them has."""
    paths = {"users_file": folder / "users.properties", "groups_file": folder / "groups.properties"}
    for path, text in zip(paths.values(), (users, groups), strict=True):
        before = path.stat().st_mtime_ns if path.exists() else 0
        path.write_text(text, "latin-1")
        os.utime(path, ns=(before + 10**9, before + 10**9))
    return paths


async def test_activemqs_files_have_the_users(tmp_path: Path, secured: StartSecured) -> None:
    users = "# ActiveMQ's sample\nsystem=manager\nuser: password\nguest = guest\n"
    paths = written(tmp_path, users, "admins=system\nusers=system, user\n")
    async with secured(PropertiesAuthenticationSettings(**paths)) as broker:
        await broker.client("system", "manager")
        await broker.client("user", "password")
        await broker.client("guest", "guest")
        assert broker.logins == [
            ("system", {"admins", "users"}),
            ("user", {"users"}),
            ("guest", frozenset()),
        ]
        written(tmp_path, "system=changed\n", "")
        await broker.client("system", "manager")
        with pytest.raises(JMSSecurityException):
            await broker.client("system", "changed")


async def test_changed_files_count_for_the_next_login(
    tmp_path: Path, secured: StartSecured, caplog: pytest.LogCaptureFixture
) -> None:
    paths = written(tmp_path, "a=1\n", "g=a\n")
    async with secured(PropertiesAuthenticationSettings(**paths, reload=True)) as broker:
        await broker.client("a", "1")
        written(tmp_path, f"a={hash_password('2')}\nb=3\n", "h=a,b\n")
        with pytest.raises(JMSSecurityException):
            await broker.client("a", "1")
        await broker.client("a", "2")
        await broker.client("b", "3")
        assert broker.logins == [
            ("a", frozenset({"g"})),
            ("a", frozenset({"h"})),
            ("b", frozenset({"h"})),
        ]
        written(tmp_path, "a=ENC(xyz)\n", "")
        await broker.client("b", "3")
        await broker.client("b", "3")
        paths["users_file"].unlink()
        await broker.client("b", "3")
    errors = [r.getMessage() for r in caplog.records if "users stay as they were" in r.getMessage()]
    assert len(errors) == 2
    assert "user 'a': A value is encrypted" in errors[0]


@pytest.mark.parametrize(
    ("users", "reason"),
    [(None, "users.properties cannot be read"), ("a=ENC(x)", "A value is encrypted")],
)
async def test_a_broker_does_not_start_without_its_users(
    tmp_path: Path, users: str | None, reason: str
) -> None:
    paths = written(tmp_path, users or "", "")
    if users is None:
        paths["users_file"].unlink()
    plugin = PropertiesAuthenticationSettings(**paths)
    with pytest.raises(JMSException, match=reason):
        await BrokerService("unreadable", persistent=False, plugins=[plugin]).start()


async def test_users_of_a_configuration_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.yaml"
    file.write_text(
        "broker_name: from-file\npersistent: false\n"
        "plugins:\n"
        "  simple_authentication:\n"
        "    users:\n"
        "      - {username: alice, password: '${PASSWORD}', groups: [admins, users]}\n"
    )
    settings = load_broker_settings(file, environ={"PASSWORD": "secret"})
    assert "secret" not in repr(settings)
    async with BrokerService.from_settings(settings) as service:
        assert service.broker.authenticates_clients
        with _clock.timeout(10):
            factory = ConnectionFactory(service.vm_uri, user="alice", password="secret")
            await JmsTemplate(factory).convert_and_send("q", "x")
        with pytest.raises(JMSSecurityException):
            await JmsTemplate(ConnectionFactory(service.vm_uri)).convert_and_send("q", "x")


@pytest.mark.parametrize("ending", ["\n", "\r\n", ""])
def test_passwd_prints_a_hash(ending: str) -> None:
    done = run_python("-m", "pyjms_broker", "passwd", stdin=f"geheim{ending}")
    assert done.returncode == 0
    assert ScryptHash.parse(done.stdout.strip()).matches("geheim")
    assert "geheim" not in done.stdout + done.stderr


def test_passwd_refuses_an_empty_password() -> None:
    done = run_python("-m", "pyjms_broker", "passwd", stdin="\n")
    assert done.returncode == 2
    assert "the password is empty" in done.stderr


@pytest.mark.parametrize(
    ("plugin", "reason"),
    [
        ("{}", "users: there are none, so no client could connect"),
        (
            "{users: [{username: a, password: x}, {username: a, password: y}]}",
            "there are two of the name a",
        ),
        ("{users: [{username: a, password: ENC(x)}]}", "A value is encrypted"),
        ("{users: [{username: a, password: $scrypt$x}]}", "A scrypt hash cannot be read"),
        ("{users: [{username: '', password: x}]}", "username"),
        ("{anonymous_acces_allowed: true}", "anonymous_access_allowed"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, plugin: str, reason: str) -> None:
    file = tmp_path / "broker.yaml"
    file.write_text(f"plugins: {{simple_authentication: {plugin}}}\n")
    with pytest.raises(JMSException) as caught:
        load_broker_settings(file, environ={})
    assert reason in str(caught.value)
    assert f"{file}:1" in str(caught.value)
