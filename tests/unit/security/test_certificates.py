"""Names of certificates: these are what Java's `getSubjectDN().getName()` has printed for them."""

from __future__ import annotations

import pytest

from pyjms_broker.security.authentication import distinguished_name

NAMES = {
    'EMAILADDRESS=a@b, CN=" lead", OU="x #1", O="A, B \\"C\\" \\\\ D", L=M, ST=By, C=DE': (
        ("countryName", "DE"),
        ("stateOrProvinceName", "By"),
        ("localityName", "M"),
        ("organizationName", 'A, B "C" \\ D'),
        ("organizationalUnitName", "x #1"),
        ("commonName", " lead"),
        ("emailAddress", "a@b"),
    ),
    'CN=Ünï, GENERATION=III, DNQ=q, STREET="s=1", SERIALNUMBER=12, GIVENNAME=g, SURNAME=s, T=T, '
    'CN="two  spaces", UID=u, DC=org': (
        ("domainComponent", "org"),
        ("userId", "u"),
        ("commonName", "two  spaces"),
        ("title", "T"),
        ("surname", "s"),
        ("givenName", "g"),
        ("serialNumber", "12"),
        ("streetAddress", "s=1"),
        ("dnQualifier", "q"),
        ("generationQualifier", "III"),
        ("commonName", "Ünï"),
    ),
}


@pytest.mark.parametrize("name", NAMES, ids=["quoted", "all attributes"])
def test_a_name_is_written_as_java_writes_it(name: str) -> None:
    subject = tuple((part,) for part in NAMES[name])
    assert distinguished_name({"subject": subject}) == name


def test_a_value_cannot_pretend_to_be_several_parts() -> None:
    forged = {"subject": ((("commonName", "admin, O=Company"),),)}
    assert distinguished_name(forged) == 'CN="admin, O=Company"'
