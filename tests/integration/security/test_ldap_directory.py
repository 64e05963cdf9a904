"""Users of a real LDAP directory. (activemq-edges SE3)"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyjms.errors import JMSSecurityException
from pyjms_broker.settings.security import JaasAuthenticationSettings
from tests.kit.brokers.commands import free_port
from tests.kit.brokers.security import SecuredBroker, StartSecured
from tests.kit.servers.slapd import ADMIN, ADMIN_PASSWORD, directory, program
from tests.kit.tls import CertificateFiles

pytestmark = [pytest.mark.ldap, pytest.mark.fact("activemq-edges SE3")]


@pytest.fixture(scope="module")
def encrypting_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, str]]:
    """The port of a directory that requires StartTLS, and its authority's file."""
    import trustme

    program()
    files = CertificateFiles(tmp_path_factory.mktemp("certificates"), trustme.CA())
    ports = free_port(), free_port()
    with directory(tmp_path_factory.mktemp("slapd"), files, ports, "security tls=1"):
        yield ports[0], files.trust


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int, str]]:
    """The ports of a running directory for ldap:// and ldaps://, and its authority's file."""
    import trustme

    program()
    files = CertificateFiles(tmp_path_factory.mktemp("certificates"), trustme.CA())
    plain, encrypted = free_port(), free_port()
    with directory(tmp_path_factory.mktemp("slapd"), files, (plain, encrypted)):
        yield plain, encrypted, files.trust


def login_module(folder: Path, url: str, **options: str) -> JaasAuthenticationSettings:
    every = {
        "connectionURL": url,
        "connectionUsername": ADMIN,
        "connectionPassword": ADMIN_PASSWORD,
        "userBase": "ou=users,dc=test",
        "userSearchMatching": "(uid={0})",
        "roleBase": "ou=groups,dc=test",
        "roleName": "cn",
        "roleSearchMatching": "(member={0})",
        **options,
    }
    lines = "\n".join(f'{name}="{value}"' for name, value in every.items())
    file = folder / "login.config"
    module = f"org.apache.activemq.jaas.LDAPLoginModule required\n{lines};"
    file.write_text(f"activemq-domain {{\n{module}\n}};\n", encoding="utf-8")
    return JaasAuthenticationSettings(login_config=file)


async def login(broker: SecuredBroker, name: str, password: str | None) -> str:
    """Return who a client is, with its groups, or why it was refused."""
    try:
        client = await broker.client(name, password)
    except JMSSecurityException as error:
        return str(error.reason)
    return broker.principal(client)


async def test_a_user_is_found_bound_and_gets_the_roles(
    secured: StartSecured, ports: tuple[int, int, str], tmp_path: Path
) -> None:
    url = f"ldap://127.0.0.1:{ports[0]}"
    async with secured(login_module(tmp_path, url, userRoleName="ou")) as broker:
        assert await login(broker, "alice", "secret") == "alice:admins:staff"
        assert await login(broker, "a*b(c)", "secret") == "a*b(c)"
        for name, password in (
            ("alice", "wrong"),
            ("alice", ""),
            ("alice", None),
            ("nobody", "secret"),
            ("*", "secret"),
            ("alice)(uid=*", "secret"),
        ):
            assert (
                await login(broker, name, password) == f"User name [{name}] or password is invalid."
            )
    expanding = login_module(tmp_path, url, expandRoles="true", expandRolesMatching="(member={0})")
    async with secured(expanding) as broker:
        assert await login(broker, "alice", "secret") == "alice:admins:everything"


async def test_an_encrypted_connection_checks_the_directorys_certificate(
    secured: StartSecured,
    ports: tuple[int, int, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    plugin = login_module(tmp_path, f"ldaps://localhost:{ports[1]}")
    async with secured(plugin) as broker:
        assert "cannot be queried" not in caplog.text
        refusal = await login(broker, "alice", "secret")
        assert refusal != "alice:admins"
        assert "certificate verify failed" in caplog.text
        monkeypatch.setenv("SSL_CERT_FILE", ports[2])
        assert await login(broker, "alice", "secret") == "alice:admins"


async def test_start_tls_encrypts_before_a_password_is_sent(
    secured: StartSecured,
    encrypting_port: tuple[int, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    port, trust = encrypting_port
    url = f"ldap://localhost:{port}"
    async with secured(login_module(tmp_path, url)) as broker:
        assert await login(broker, "alice", "secret") != "alice:admins"
        assert "refuses connectionUsername" in caplog.text  # it is not encrypted
    plugin = login_module(tmp_path, url, connectionProtocol="StartTLS")
    async with secured(plugin) as broker:
        assert "password is invalid" not in await login(broker, "alice", "secret")
        assert "certificate verify failed" in caplog.text
        monkeypatch.setenv("SSL_CERT_FILE", trust)
        assert await login(broker, "alice", "secret") == "alice:admins"
        assert await login(broker, "alice", "wrong") == "User name [alice] or password is invalid."


async def test_without_start_tls_at_the_directory_nothing_is_sent(
    secured: StartSecured,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = free_port()
    with directory(tmp_path_factory.mktemp("slapd"), None, (port,)):
        url = f"ldap://localhost:{port}"
        plugin = login_module(tmp_path, url, connectionProtocol="StartTLS")
        async with secured(plugin) as broker:
            assert "password is invalid" not in await login(broker, "alice", "secret")
            assert "LDAPStartTLSError: startTLS failed" in caplog.text


async def test_a_directory_that_cannot_be_asked_is_not_a_failed_login(
    secured: StartSecured,
    ports: tuple[int, int, str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    wrong = {"connectionPassword": "wrong"}
    for port, options, logged in (
        (free_port(), {}, "cannot be queried: LDAPSocketOpenError: "),
        (ports[0], wrong, "refuses connectionUsername"),
    ):
        caplog.clear()
        plugin = login_module(tmp_path, f"ldap://127.0.0.1:{port}", **options)
        async with secured(plugin) as broker:
            reason = await login(broker, "alice", "secret")
            assert "password is invalid" not in reason
            assert logged in caplog.text
            assert "secret" not in caplog.text
            assert ADMIN_PASSWORD not in caplog.text
