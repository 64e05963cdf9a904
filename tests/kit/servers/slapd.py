"""An LDAP directory of the tests' own: Debian's slapd, in a temporary folder."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kit.processes.children import die_with_parent
from tests.kit.tls import CertificateFiles

ADMIN, ADMIN_PASSWORD = "cn=admin,dc=test", "admin-secret"
_SCHEMAS = ("core", "cosine", "inetorgperson")
_CONFIGURATION = """\
{schemas}
modulepath /usr/lib/ldap
moduleload back_mdb
{more}
database mdb
maxsize 10485760
suffix "dc=test"
rootdn "{admin}"
rootpw {password}
directory {folder}/data
"""
_ENTRIES = """\
dn: dc=test
objectClass: dcObject
objectClass: organization
dc: test
o: test

dn: ou=users,dc=test
objectClass: organizationalUnit
ou: users

dn: ou=groups,dc=test
objectClass: organizationalUnit
ou: groups

dn: uid=alice,ou=users,dc=test
objectClass: inetOrgPerson
uid: alice
cn: Alice
sn: Liddell
ou: staff
userPassword: secret

dn: uid=a*b(c),ou=users,dc=test
objectClass: inetOrgPerson
uid: a*b(c)
cn: Special
sn: Special
userPassword: secret

dn: cn=admins,ou=groups,dc=test
objectClass: groupOfNames
cn: admins
member: uid=alice,ou=users,dc=test

dn: cn=everything,ou=groups,dc=test
objectClass: groupOfNames
cn: everything
member: cn=admins,ou=groups,dc=test
"""


def program() -> str:
    """Return the path of slapd; skip the test where it is absent."""
    path = shutil.which("slapd", path="/usr/sbin:/usr/local/sbin:/usr/libexec:/usr/bin")
    if path is None:
        pytest.skip("slapd is not installed (Debian: apt-get install slapd)")
    return path


@contextmanager
def directory(
    folder: Path, certificates: CertificateFiles | None, ports: Sequence[int], more: str = ""
) -> Iterator[None]:
    """Run a directory that listens for ldap:// and ldaps:// at these ports of localhost.

    Without certificates there is no TLS. `more` are further lines of its configuration.
    """
    if certificates is not None:
        certificate, key = certificates.issue_apart("slapd")
        more += f"\nTLSCertificateFile {certificate}\nTLSCertificateKeyFile {key}"
    (folder / "data").mkdir(parents=True, exist_ok=True)
    configuration = folder / "slapd.conf"
    configuration.write_text(
        _CONFIGURATION.format(
            schemas="\n".join(f"include /etc/ldap/schema/{name}.schema" for name in _SCHEMAS),
            more=more,
            admin=ADMIN,
            password=ADMIN_PASSWORD,
            folder=folder,
        ),
        encoding="utf-8",
    )
    entries = folder / "entries.ldif"
    entries.write_text(_ENTRIES, encoding="utf-8")
    slapd = program()
    subprocess.run(
        [slapd, "-T", "add", "-f", str(configuration), "-l", str(entries)],
        check=True,
        capture_output=True,
    )
    urls = " ".join(
        f"{scheme}://127.0.0.1:{port}"
        for scheme, port in zip(("ldap", "ldaps"), ports, strict=False)
    )
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [slapd, "-d", "0", "-f", str(configuration), "-h", urls],
            stdout=log,
            stderr=log,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - takes no lock
        )
        try:
            for port in ports:
                _wait_until_open(port, process)
            yield
        finally:
            process.terminate()
            process.wait(20)


def _wait_until_open(port: int, process: subprocess.Popen[bytes]) -> None:
    pause = threading.Event()
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 10).close()
        except ConnectionRefusedError:
            pause.wait(0.02)
        else:
            return
    raise AssertionError("slapd has ended")
