"""Untrusted XML: accepted and refused documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyjms.errors import ConfigurationException
from pyjms_broker.conversion.xml_reader import parse_xml, read_xml


def test_elements_have_their_lines_attributes_and_text() -> None:
    root = parse_xml(b'<a xmlns="urn:x">\n  <b c=" 1 "/>\n  <d> text </d>\n</a>', "x.xml")
    assert [(each.name, each.origin.line) for each in root.children] == [("b", 2), ("d", 3)]
    assert root.namespace == "urn:x"
    assert root.children[0].attributes == {"c": "1"}
    assert root.children[1].text == "text"


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ('<!DOCTYPE a [<!ENTITY x "y">]>\n<a>&x;</a>', "declarations in the DOCTYPE"),
        ('<!DOCTYPE a [<!ENTITY % p SYSTEM "file:///etc/passwd">]><a/>', "declarations"),
        ('<!DOCTYPE a SYSTEM "file:///etc/passwd">\n<a>&x;</a>', "the entity x is not expanded"),
        (
            '<!DOCTYPE a\nSYSTEM "x.dtd">\n<a b="1"\n c="&x;"/>',
            "x.xml:3: an entity is not expanded",
        ),
        ("<a>&x;</a>", "undefined entity"),
        ("<a><b></a>", "mismatched tag"),
        ("", "no element found"),
        ("<a>" * 100, "more than 64 deep"),
        ("<?xml version='1.0' encoding='x-none'?><a/>", "its encoding cannot be read: unknown"),
        ("<?xml version='1.0' encoding='GBK'?><a/>", "its encoding cannot be read: multi-byte"),
    ],
    ids=[
        *(
            "entity",
            "parameter-entity",
            "external",
            "attribute",
            "unknown",
            "mismatch",
            "empty",
            "deep",
        ),
        *("unknown-encoding", "other-encoding"),
    ],
)
def test_what_could_do_harm_is_refused(document: str, reason: str) -> None:
    with pytest.raises(ConfigurationException, match=reason) as caught:
        parse_xml(document.encode(), "x.xml")
    assert str(caught.value).startswith("x.xml:")


def test_a_doctype_without_declarations_is_not_fetched() -> None:
    root = parse_xml(
        b'<!DOCTYPE beans PUBLIC "-//SPRING" "http://host.invalid/x.dtd"><beans/>', "x"
    )
    assert root.name == "beans"


def test_large_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationException, match="larger than 4 MiB"):
        parse_xml(b"<a>" + b" " * (4 << 20) + b"</a>", "x.xml")
    for name in ("none.xml", "x" * 5000, "a\0b", "\ud800"):
        with pytest.raises(ConfigurationException, match="cannot be read"):
            read_xml(tmp_path / name)
