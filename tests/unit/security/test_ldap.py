"""Users of an LDAP directory, with ldap3's directory in memory. (activemq-edges SE3)"""

from __future__ import annotations

from typing import Any

import ldap3
import pytest
from ldap3.core.exceptions import LDAPSocketOpenError

from pyjms.errors import ConfigurationException, JMSSecurityException
from pyjms_broker.security.authentication import Credentials
from pyjms_broker.security.jaas import Flag, LoginRefusedError, authenticate
from pyjms_broker.security.ldap import LdapLogin

OPTIONS = {
    "connectionURL": "ldap://directory:389",
    "connectionUsername": "cn=admin,o=test",
    "connectionPassword": "admin-secret",
    "userBase": "ou=users,o=test",
    "userSearchMatching": "(uid={0})",
    "userSearchSubtree": "true",
    "roleBase": "ou=groups,o=test",
    "roleName": "cn",
    "roleSearchMatching": "(member={0})",
    "roleSearchSubtree": "true",
}
ALICE = "uid=alice,ou=users,o=test"
STAR = "uid=st*r,ou=users,o=test"
ENTRIES: dict[str, dict[str, Any]] = {
    "cn=admin,o=test": {"userPassword": "admin-secret", "objectClass": "person"},
    ALICE: {"uid": "alice", "userPassword": "secret", "ou": "staff", "objectClass": "person"},
    STAR: {"uid": "st*r", "userPassword": "secret", "objectClass": "person"},
    "uid=twin,ou=users,o=test": {"uid": "twin", "userPassword": "secret", "objectClass": "person"},
    "uid=twin,ou=more,ou=users,o=test": {
        "uid": "twin",
        "userPassword": "secret",
        "objectClass": "person",
    },
    "cn=admins,ou=groups,o=test": {"cn": "admins", "member": ALICE, "objectClass": "group"},
    "cn=everything,ou=groups,o=test": {
        "cn": "everything",
        "member": "cn=admins,ou=groups,o=test",
        "objectClass": "group",
    },
}


def module(**options: str) -> LdapLogin:
    server = ldap3.Server("directory", get_info=ldap3.NONE)

    def connect(user: str | None, password: str | None) -> Any:
        connection = ldap3.Connection(
            server, user=user, password=password, client_strategy=ldap3.MOCK_SYNC
        )
        for dn, attributes in ENTRIES.items():
            connection.strategy.add_entry(dn, attributes)
        return connection

    return LdapLogin({**OPTIONS, **options}, connect)


def roles(name: str | None, password: str | None, **options: str) -> list[str] | None:
    found = module(**options).login(Credentials(name, password))
    return None if found is None else sorted(found.groups)


@pytest.mark.fact("activemq-edges SE3")
def test_a_user_gets_the_roles_of_the_directory() -> None:
    assert roles("alice", "secret") == ["admins"]
    assert roles("alice", "secret", expandRoles="true", expandRolesMatching="(member={0})") == [
        "admins",
        "everything",
    ]
    assert roles("alice", "secret", userRoleName="ou") == ["admins", "staff"]
    assert roles("st*r", "secret") == []
    assert roles(None, None) is None


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("alice", "wrong"),
        ("alice", ""),
        ("alice", None),
        ("", "secret"),
        ("nobody", "secret"),
        ("*", "secret"),
        ("a*", "secret"),
        ("alice)(uid=*", "secret"),
        ("twin", "secret"),
    ],
)
def test_others_are_refused(name: str, password: str | None) -> None:
    with pytest.raises(LoginRefusedError):
        module().login(Credentials(name, password))


def test_a_directory_that_does_not_respond_is_not_a_failed_login(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def connect(_user: str | None, _password: str | None) -> Any:
        raise LDAPSocketOpenError

    stack = [(Flag.REQUIRED, LdapLogin(OPTIONS, connect).login)]
    with pytest.raises(JMSSecurityException, match="cannot be checked at present"):
        authenticate(stack, Credentials("alice", "secret"))
    assert "ldap://directory:389" in caplog.text
    assert "secret" not in caplog.text


def test_a_wrong_password_of_the_broker_itself_is_not_a_failed_login() -> None:
    stack = [(Flag.REQUIRED, module(connectionPassword="other").login)]
    with pytest.raises(JMSSecurityException, match="cannot be checked at present"):
        authenticate(stack, Credentials("alice", "secret"))


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("connectionURL", "http://x", "connectionURL is http://x"),
        ("authentication", "GSSAPI", "only simple and none"),
        ("userbase", "x", "no option named userbase"),
        ("roleBase", "", "no option roleBase"),
        (
            "connectionProtocol",
            "tsl",
            "connectionProtocol=tsl: only ssl and StartTLS are supported",
        ),
    ],
)
def test_wrong_options_are_errors(option: str, value: str, message: str) -> None:
    with pytest.raises(ConfigurationException, match=message):
        LdapLogin.from_options({**OPTIONS, option: value})


def test_start_tls_is_for_a_connection_that_is_not_encrypted_yet() -> None:
    options = {**OPTIONS, "connectionURL": "ldaps://directory", "connectionProtocol": "StartTLS"}
    with pytest.raises(ConfigurationException, match="is encrypted from the beginning"):
        LdapLogin.from_options(options)
    LdapLogin.from_options({**OPTIONS, "connectionProtocol": "s"})  # of ActiveMQ's example
