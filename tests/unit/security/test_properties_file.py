"""Properties files are read as Java reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyjms.configuration.properties_file import parse_properties, read_properties
from pyjms.errors import ConfigurationException


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("  a:b\r\nc d\re\n", {"a": "b", "c": "d", "e": ""}),
        ("# a=b\n ! c=d\n\n \t\n", {}),
        ("a=b=c:d #e", {"a": "b=c:d #e"}),
        ("a=1,\\\n   2,\\\n   3\nb=4", {"a": "1,2,3", "b": "4"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a\\ b\\=c = \\u00e9\\t\\x", {"a b=c": "é\tx"}),
        ("a=b\\", {"a": "b"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1,\\\n# 2", {"a": "1,# 2"}),
        ("p=$scrypt$ln=15,r=8,p=1$x$y", {"p": "$scrypt$ln=15,r=8,p=1$x$y"}),
    ],
)
def test_properties(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_a_file_is_in_latin_1(tmp_path: Path) -> None:
    path = tmp_path / "users.properties"
    path.write_bytes("m\xfcller=gr\xfc\xdfe\n".encode("latin-1"))
    assert read_properties(path) == {"müller": "grüße"}
    with pytest.raises(ConfigurationException, match="cannot be read"):
        read_properties(tmp_path)


def test_a_pair_of_escapes_is_one_character_and_half_of_one_is_replaced() -> None:
    assert parse_properties("a=\\ud83d\\ude00\nb=\\ud83d") == {"a": "\U0001f600", "b": "\ufffd"}


def test_a_value_of_many_lines() -> None:
    assert parse_properties("a=" + "x\\\n" * 100_000) == {"a": "x" * 100_000}
