"""Every code that sources, tests or documents cite is defined in `docs/specification` or `docs/decisions.md`.

A citation names its document: `(activemq-broker Q30)`, `(spring-jms 1.7.2, 1.7.3)`. A code without a
document is an error, because nobody could look it up.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPECIFICATION = ROOT / "docs" / "specification"
DECISIONS = ROOT / "docs" / "decisions.md"
FOLDERS = ("pyjms", "broker", "tests", "examples", "benchmarks", "config", "docs")
HERE = Path(__file__).resolve()

HEADING = re.compile(r"^#{2,4}\s+(\d+(?:\.\d+)*)[.)]?\s")
DECISION = re.compile(r"^#{2,4}\s+(D\d+[a-z]?)\s")
ITEM = re.compile(r"^(\d+)\.\s")
NAMED = re.compile(r"^\s*- \*\*([A-Z]+(?:-[A-Z]+)?\d+[a-z]?)\*\*\s")
ROW = re.compile(r"^\|\s*`?([^|`]+?)`?\s*\|")
ANCHOR = re.compile(r'<a id="([^"]+)"></a>')

CODE = r"(?:[A-Z]{1,2}(?:-[A-Z])?\d{1,3}[a-z]?|\d{1,2}(?:\.\d{1,2}){0,2})(?![\w%])(?!\.\d)"
CITATION = re.compile(
    rf"\b(?P<document>openwire-encoding|activemq-broker|activemq-edges|activemq-persistence|jms-api"
    rf"|amqp-connector|mqtt-connector|spring-jms|spark-pipeline|decisions)\s+(?P<codes>{CODE}(?:(?:,\s+(?:and\s+)?|\s+(?:and|to|or)\s+){CODE})*)"
)
BARE = re.compile(r"(?<![\w.:/+-])([A-Z]{1,2}\d{1,2}[a-z]?)(?![\w:/=.-]|\.\d)")
NOT_CODES = {"S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "S9", "S11"}
"""Scenarios of the benchmark."""
OLD_STYLE = re.compile(
    r"\b(?:ENCODING|design|persistence|edges)\s+(?:sections?\s+)?(?:[A-Z]\d|\d+(?:\.\d+)*\b(?!\s*[A-Za-z]))"
)
CLAIM = re.compile(r"\bfact\(([^)]*)\)", re.DOTALL)


def defined(path: Path) -> Iterator[str]:
    """Yield the codes that a document defines: headings, items, named items, rows."""
    section, header_row = "", True
    for line in path.read_text(encoding="utf-8").splitlines():
        if match := DECISION.match(line):
            yield match[1]
        elif match := HEADING.match(line):
            section, header_row = match[1], True
            yield section
        elif section and (match := ITEM.match(line)):
            yield f"{section}.{match[1]}"
        elif match := NAMED.match(line):
            yield match[1]
        elif section and (match := ROW.match(line)):
            if header_row or set(match[1]) <= set("-: "):
                header_row = False
            else:
                name = re.sub(r"\([^)]*\)|[\"']", "", match[1])
                yield f"{section}/{' '.join(name.split())}"
        elif not line.startswith("|"):
            header_row = True


@functools.cache
def definitions() -> dict[str, frozenset[str]]:
    documents = {path.stem: frozenset(defined(path)) for path in SPECIFICATION.glob("*-*.md")}
    return {**documents, "decisions": frozenset(defined(DECISIONS))}


@functools.cache
def prose_of(path: Path) -> tuple[tuple[int, str], ...]:
    """Return line numbers and texts of comments and docstrings, or of all lines of a document.

    Nothing for a file that is right even if all of it is prose: most are, and to parse them takes
    seconds.
    """
    text = path.read_text(encoding="utf-8")
    if not undefined(text) and not without_document(text):
        return ()
    return tuple(_prose(text, path.suffix))


def undefined(text: str) -> list[str]:
    """Return the citations of codes that their document does not define."""
    return [
        f"{match['document']} {code}"
        for match in CITATION.finditer(text)
        for code in re.findall(CODE, match["codes"])
        if code not in definitions()[match["document"]]
    ]


def without_document(text: str) -> list[str]:
    """Return the codes, and what was once a citation, that name no document."""
    rest = CITATION.sub("", text)
    bare = [
        code
        for code in BARE.findall(rest)
        if any(code in codes for codes in definitions().values()) and code not in NOT_CODES
    ]
    return bare + [match[0] for match in OLD_STYLE.finditer(rest)]


def _prose(text: str, suffix: str) -> Iterator[tuple[int, str]]:
    if suffix != ".py":
        yield from enumerate(text.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node.lineno, node.value.value


def files() -> list[Path]:
    found = [ROOT / "README.md"]
    for folder in FOLDERS:
        for suffix in (".py", ".md", ".yaml"):
            found += (ROOT / folder).rglob(f"*{suffix}")
    return sorted(path for path in found if path != HERE and SPECIFICATION not in path.parents)


def test_the_documents_define_codes() -> None:
    counts = {name: len(codes) for name, codes in definitions().items()}
    assert len(counts) == 10
    assert min(counts.values()) >= 15, counts


@pytest.mark.parametrize("path", sorted(SPECIFICATION.glob("*-*.md")), ids=lambda path: path.stem)
def test_every_item_has_its_own_anchor(path: Path) -> None:
    anchors = ANCHOR.findall(path.read_text(encoding="utf-8"))
    assert len(anchors) == len(set(anchors))
    missing = [
        code
        for code in defined(path)
        if "/" not in code and not {code.lower(), f"{code.lower()}-item"} & set(anchors)
    ]
    assert missing == []


def test_every_citation_is_defined() -> None:
    assert [
        f"{path.relative_to(ROOT)}:{line}: {citation}"
        for path in files()
        for line, text in prose_of(path)
        for citation in undefined(text)
    ] == []


def test_no_code_is_cited_without_its_document() -> None:
    assert [
        f"{path.relative_to(ROOT)}:{line}: {code}"
        for path in files()
        if path != DECISIONS
        for line, text in prose_of(path)
        for code in without_document(text)
    ] == []


def test_every_claimed_fact_is_defined() -> None:
    known = {f"{name} {code}" for name, codes in definitions().items() for code in codes}
    claims: set[str] = set()
    for path in (ROOT / "tests").rglob("*.py"):
        if path != HERE:
            for call in CLAIM.findall(path.read_text(encoding="utf-8")):
                claims.update(re.findall(r"""["']([^"']+)["']""", call))
    assert len(claims) > 500
    assert claims - known == set()
