"""Convert Java's data sources, beans of many classes, to SQLAlchemy's URLs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote

from pyjms_broker.conversion.draft import Draft, Path
from pyjms_broker.conversion.xml_reader import Element

_MEANINGS: Final = {
    **dict.fromkeys(("servername", "host", "hostname"), "host"),
    **dict.fromkeys(("portnumber", "port"), "port"),
    **dict.fromkeys(("databasename", "database"), "database"),
    **dict.fromkeys(("user", "username"), "user"),
    "password": "password",
    **dict.fromkeys(("url", "jdbcurl"), "url"),
    **dict.fromkeys(
        ("class", "driverclassname", "driverclass", "driver", "datasourceclassname"), "class"
    ),
}
"""Properties of common classes, in lower case, by meaning."""
_WITHIN: Final = frozenset(
    {
        *("configuration", "targetDataSource", "dataSource", "dataSourceProperties"),
        *("xaProperties", "driverProperties", "properties", "connectionProperties"),
    }
)
"""Properties that hold the data source proper, or a map of its properties."""
_JAVAS_OWN: Final = re.compile(r"derby|hsqldb|jdbc:h2|org\.h2")


class _Database(NamedTuple):
    """A database that SQLAlchemy knows."""

    mark: re.Pattern[str]
    """Finds it in names of classes and URLs."""
    scheme: str
    driver: str


_DATABASES: Final = (
    _Database(re.compile("postgresql|pgpooling|pgsimple"), "postgresql+psycopg", "psycopg"),
    _Database(re.compile("mariadb"), "mariadb+pymysql", "PyMySQL"),
    _Database(re.compile("mysql"), "mysql+pymysql", "PyMySQL"),
)
_JDBC_URL: Final = re.compile(
    r"jdbc:\w+:(?:\w+:)?(?://(?P<hosts>[^/?;]*)/?)?(?P<database>[^?;]*)(?:[?;](?P<options>.*))?"
)
"""`jdbc:mysql:replication://a:1,b/name?option=value`, `jdbc:postgresql:name`."""

DERBY: Final = (
    "the embedded database of Java becomes an SQLite file in the store's directory; messages are "
    "not taken over"
)
MOVE: Final = "let consumers empty the queues before the migration"
_POOLED: Final = "connections to the database are pooled by the broker"


def convert_data_source(draft: Draft, bean: Element, path: Path) -> None:
    """Convert the bean of a store's `dataSource` to the key `data_source`."""
    values = dict(_values_of(bean))
    kind = " ".join((values.get("class", ""), values.get("url", ""))).lower()
    if _JAVAS_OWN.search(kind):
        draft.findings.note(bean, DERBY, MOVE)
        return
    for database in _DATABASES:
        if database.mark.search(kind):
            draft.put((*path, "data_source"), _url(draft, bean, values, database), bean)
            for name in bean.attributes.keys() - bean.read_attributes:
                draft.findings.note(bean, _POOLED, attribute=name)
            return
    draft.findings.report(
        bean,
        "this database is not supported as a store; SQLite is used instead",
        "set persistence.data_source to the URL of a PostgreSQL, MySQL or MariaDB database",
    )


def _values_of(bean: Element) -> Iterator[tuple[str, str]]:
    """Yield what a bean says of its database, by meaning; what contains it comes last."""
    for child in bean.children:
        if child.name in _WITHIN:
            child.is_read = True
            for inner in child.children:
                inner.is_read = True
                if inner.name == "entry":
                    meaning = _MEANINGS.get((inner.take("key") or "").lower())
                    text = inner.take("value")
                    if meaning is not None and text is not None:
                        yield meaning, text
                else:
                    yield from _values_of(inner)
    for name, text in bean.attributes.items():
        meaning = _MEANINGS.get(name.lower())
        if meaning is not None:
            bean.read_attributes.add(name)
            if name != "class" or "DataSource" in text:
                yield meaning, text


def _url(draft: Draft, bean: Element, values: Mapping[str, str], database: _Database) -> str:
    """Return the SQLAlchemy URL; report what it lacks."""
    parsed = _JDBC_URL.fullmatch(values.get("url", ""))
    options: dict[str, str] = {}
    if parsed is None:
        port = values.get("port", "0")
        hosts = values.get("host", "localhost") + (f":{port}" if port != "0" else "")
        name = values.get("database", "")
    else:
        hosts, name = parsed["hosts"] or "localhost", parsed["database"]
        options = dict(parse_qsl((parsed["options"] or "").replace(";", "&")))
    first, comma, _others = hosts.partition(",")
    login = {key: values.get(key) or options.pop(key, "") or "" for key in ("user", "password")}
    report = draft.findings.report
    if comma:
        report(bean, "only the first host of the database is used", attribute="url")
    if options:
        report(
            bean,
            "options of the JDBC driver in the URL are left out",
            f"{database.driver} has different options: data_source: "
            f"{database.scheme}://...?option=...",
            attribute="url",
        )
    user, password = (quote(login[key], safe="") for key in ("user", "password"))
    if database.driver != "psycopg":
        draft.findings.note(
            bean, "the Python driver of this database is needed", "pip install PyMySQL"
        )
    text = f"{user}:{password}@" if password else f"{user}@" if user else ""
    return f"{database.scheme}://{text}{first}/{name}"
