"""Login modules of a `login.config`: files, guests, flags, and certificates. (activemq-edges SE3)"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import anyio
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.errors import ConfigurationException, JMSException, JMSSecurityException
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import load_broker_settings
from pyjms_broker.settings.security import (
    JaasAuthenticationSettings,
    JaasCertificateAuthenticationSettings,
    JaasDualAuthenticationSettings,
)
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.amqp.client import AmqpClient
from tests.kit.brokers.security import SecuredBroker, StartSecured
from tests.kit.tls import CertificateFiles

JAAS = "org.apache.activemq.jaas."
PROPERTIES = (
    f'{JAAS}PropertiesLoginModule {{}} {JAAS}properties.user="users.properties" '
    f'{JAAS}properties.group="groups.properties" reload=true;'
)
GUEST = f'{JAAS}GuestLoginModule {{}} {JAAS}guest.user="anyone" {JAAS}guest.group="guests" {{}};'
STRICT = "credentialsInvalidate=true"
CERTIFICATE = (
    f'{JAAS}TextFileCertificateLoginModule {{}} {JAAS}textfiledn.user="dns.properties" '
    f'{JAAS}textfiledn.group="groups.properties" reload=true;'
)


def written(folder: Path, *modules: str, name: str = "activemq-domain") -> Path:
    (folder / "users.properties").write_text("alice=secret\nbob=secret\n")
    (folder / "groups.properties").write_text("admins=alice\nusers=alice,bob,client\n")
    file = folder / "login.config"
    before = file.read_text() if file.exists() else "/* ActiveMQ's */\n"
    file.write_text(before + f"{name} {{ // comment\n" + "\n".join(modules) + "\n};\n")
    return file


def jaas(file: Path, **settings: Any) -> JaasAuthenticationSettings:
    return JaasAuthenticationSettings(login_config=file, **settings)


async def login(broker: SecuredBroker, *given: str) -> str:
    """Return who a client is, with its groups, or "refused"."""
    try:
        client = await broker.client(*given)
    except JMSSecurityException:
        return "refused"
    return broker.principal(client)


ALICE, ANYONE = "alice:admins:users", "anyone:guests"


@pytest.mark.fact("activemq-edges SE3")
@pytest.mark.parametrize(
    ("modules", "right", "wrong", "nothing"),
    [
        ([PROPERTIES.format("required")], ALICE, "refused", "refused"),
        (
            [PROPERTIES.format("sufficient"), GUEST.format("sufficient", "")],
            *(ALICE, ANYONE, ANYONE),
        ),
        (
            [PROPERTIES.format("sufficient"), GUEST.format("sufficient", STRICT)],
            *(ALICE, "refused", ANYONE),
        ),
        (
            [GUEST.format("sufficient", STRICT), PROPERTIES.format("requisite")],
            *(ALICE, "refused", ANYONE),
        ),
        (
            [PROPERTIES.format("required"), GUEST.format("optional", "")],
            *("alice:admins:guests:users", "refused", "refused"),
        ),
        (
            [PROPERTIES.format("requisite"), GUEST.format("sufficient", "")],
            *("alice:admins:guests:users", "refused", "refused"),
        ),
        (
            [PROPERTIES.format("optional"), GUEST.format("required", "")],
            *("alice:admins:guests:users", ANYONE, ANYONE),
        ),
        ([GUEST.format("required", STRICT)], "refused", "refused", ANYONE),
    ],
    ids=[
        *("files", "files or guest", "files or nameless guest", "guest first", "both"),
        *("requisite", "optional", "guests alone"),
    ],
)
async def test_modules_decide_by_their_flags(
    secured: StartSecured, tmp_path: Path, modules: list[str], right: str, wrong: str, nothing: str
) -> None:
    async with secured(jaas(written(tmp_path, *modules))) as broker:
        assert await login(broker, "alice") == right
        assert await login(broker, "alice", "wrong") == wrong
        assert await login(broker) == nothing


async def test_changed_files_count_at_once_with_reload(
    secured: StartSecured, tmp_path: Path
) -> None:
    async with secured(jaas(written(tmp_path, PROPERTIES.format("required")))) as broker:
        assert await login(broker, "carol") == "refused"
        (tmp_path / "users.properties").write_text("alice=secret\ncarol=secret\n")
        (tmp_path / "groups.properties").write_text("admins=carol\n")
        assert await login(broker, "carol") == "carol:admins"
        assert await login(broker, "alice") == "alice"


async def test_a_configuration_file_names_the_login_modules(tmp_path: Path) -> None:
    written(tmp_path, PROPERTIES.format("required"), name="activemq")
    file = tmp_path / "broker.yaml"
    file.write_text(
        "broker_name: jaas\npersistent: false\nplugins:\n"
        f"  jaas_authentication: {{configuration: activemq, login_config: {tmp_path}/login.config}}\n"
    )
    service = BrokerService.from_settings(load_broker_settings(file, environ={}))
    async with EmbeddedTestBroker(service) as embedded:
        broker = SecuredBroker(embedded)
        client = await broker.client("bob")
        assert broker.principal(client) == "bob:users"
        await client.close()


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        ("org.example.Login required;", "2: the login module org.example.Login is not supported"),
        (f"{JAAS}GuestLoginModule always;", "2: 'always' is not a flag"),
        (f"{JAAS}GuestLoginModule required", "3: '=' is expected"),
        (f'{JAAS}LDAPLoginModule required userBase="x";', "2: the login module has no option conn"),
        (f'{JAAS}GuestLoginModule required a="${{NO_SUCH_VARIABLE}}";', "no variable NO_SUCH_VAR"),
        (
            (
                f'{JAAS}TextFileCertificateLoginModule required {JAAS}textfiledn.user="no" '
                f'{JAAS}textfiledn.group="no";'
            ),
            "cannot be read",
        ),
    ],
    ids=["class", "flag", "no end", "option", "variable", "file"],
)
async def test_a_wrong_file_is_an_error_with_its_line(
    tmp_path: Path, modules: str, message: str
) -> None:
    file = tmp_path / "login.config"
    file.write_text(f"activemq-domain {{\n{modules}\n}};\n")
    with pytest.raises(ConfigurationException) as caught:
        async with EmbeddedTestBroker(
            BrokerService("wrong", persistent=False, plugins=[jaas(file)])
        ):
            pass
    assert message in str(caught.value)
    assert str(file) in str(caught.value)


async def test_an_unknown_configuration_name_is_an_error(tmp_path: Path) -> None:
    file = written(tmp_path, GUEST.format("required", ""))
    service = BrokerService(
        "unknown", persistent=False, plugins=[jaas(file, configuration="other")]
    )
    with pytest.raises(ConfigurationException, match="has no configuration 'other'"):
        async with EmbeddedTestBroker(service):
            pass


def subject_of(pem: str) -> str:
    """Return the subject that Java would print."""
    from cryptography.x509 import load_pem_x509_certificate

    names = load_pem_x509_certificate(Path(pem).read_bytes().split(b"KEY-----\n")[-1]).subject
    short = {"organizationName": "O", "organizationalUnitName": "OU", "commonName": "CN"}
    named = [(short[name.oid._name], str(name.value)) for name in names]
    parts = [f'{name}="{value}"' for name, value in named if "#" in value]
    parts[:0] = [f"{name}={value}" for name, value in named if "#" not in value]
    return ", ".join(reversed(parts))


async def over_tls(files: CertificateFiles, port: str, *, certificate: str | None) -> None:
    key_store = "" if certificate is None else f"&ssl.keyStore={certificate}"
    factory = ConnectionFactory(f"ssl://localhost:{port}?ssl.trustStore={files.trust}{key_store}")
    connection = await factory.create_connection()
    try:
        await connection.start()
    finally:
        await connection.close()


@pytest.mark.fact("activemq-edges SE3")
@pytest.mark.fact("activemq-edges SE8")
@pytest.mark.parametrize("kind", ["certificate", "dual"])
@pytest.mark.parametrize("named", ["name", "regex"])
async def test_a_certificate_is_its_user(
    secured: StartSecured, tmp_path: Path, files: CertificateFiles, kind: str, named: str
) -> None:
    known, unknown = files.issue("known.pem"), files.issue("unknown.pem")
    subject = subject_of(known)
    written(tmp_path, CERTIFICATE.format("required"), name="certificates")
    file = written(tmp_path, PROPERTIES.format("required"))
    regex = subject.replace("OU=", "O.=")
    (tmp_path / "dns.properties").write_text(
        f"client={subject}\n" if named == "name" else f"client=/{regex}/\n"
    )
    plugin: Any = JaasCertificateAuthenticationSettings(
        login_config=file, configuration="certificates"
    )
    if kind == "dual":
        plugin = JaasDualAuthenticationSettings(login_config=file, ssl_configuration="certificates")
    async with secured(plugin) as broker:
        connector = broker.service.add_connector(
            f"ssl://127.0.0.1:0?ssl.keyStore={files.issue()}"
            f"&ssl.trustStore={files.trust}&wantClientAuth=true"
        )
        await connector.start()
        port = connector.connect_uri.rpartition(":")[2]
        factory = ConnectionFactory(
            f"ssl://localhost:{port}?ssl.trustStore={files.trust}&ssl.keyStore={known}"
        )
        connection = await factory.create_connection()
        await connection.start()
        assert ("client", frozenset({"users"})) in broker.logins
        await connection.close()
        with pytest.raises(JMSException, match="invalid"):
            await over_tls(files, port, certificate=unknown)
        with pytest.raises(JMSException, match="without SSL certificate"):
            await over_tls(files, port, certificate=None)
        assert await login(broker, "alice") == (ALICE if kind == "dual" else "refused")


@pytest.mark.fact("amqp-connector A22", "amqp-connector A25", "amqp-connector A27")
async def test_a_certificate_is_the_user_of_an_amqp_client(
    secured: StartSecured, tmp_path: Path, files: CertificateFiles
) -> None:
    known, unknown = files.issue("known.pem"), files.issue("unknown.pem")
    written(tmp_path, CERTIFICATE.format("required"), name="certificates")
    file = written(tmp_path, PROPERTIES.format("required"))
    (tmp_path / "dns.properties").write_text(f"client={subject_of(known)}\n")
    plugin = JaasCertificateAuthenticationSettings(login_config=file, configuration="certificates")
    async with secured(plugin) as broker:
        connector = broker.service.add_connector(
            f"amqp+ssl://127.0.0.1:0?ssl.keyStore={files.issue()}"
            f"&ssl.trustStore={files.trust}&needClientAuth=true"
        )
        await connector.start()
        port = int(connector.connect_uri.rpartition(":")[2])
        for certificate, code in ((known, 0), (unknown, 1)):
            context = ssl.create_default_context(cafile=files.trust)
            context.load_cert_chain(certificate)
            stream = await anyio.connect_tcp(
                "localhost", port, ssl_context=context, tls_standard_compatible=False
            )
            async with stream:
                client = AmqpClient(stream)
                assert await client.log_in("EXTERNAL", b"") == code
                if not code:
                    assert (await client.open()).container_id
                    assert ("client", frozenset({"users"})) in broker.logins
