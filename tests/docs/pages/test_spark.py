"""What the pages about Spark say in code, tables and lists of names is so. No Spark is started."""

from __future__ import annotations

import re
import types
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.types import StructType

from pyjms.settings import load_settings
from pyjms.spark import Pipeline, find_pipelines, journal
from pyjms.spark.checkpoint import checkpoint_parts
from pyjms.spark.checks import collect_pipelines
from pyjms.spark.options import BODY_SCHEMA, JOURNAL_OPTIONS, OPTIONS, read_options
from pyjms.spark.outgoing import check_columns
from pyjms.spark.run import RUNNER_CONF
from pyjms.spark.session import DEFAULT_CONF

DOCS = Path(__file__).resolve().parents[3] / "docs"
TESTS = Path(__file__).resolve().parents[2]
PAGES = ("spark.md", "spark-streams.md", "spark-operation.md")
TEXT = "\n".join((DOCS / page).read_text(encoding="utf-8") for page in PAGES)
BLOCKS: list[str] = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
CODE = re.compile(r"`([^`]+)`")


def block(containing: str) -> str:
    (found,) = [b for b in BLOCKS if containing in b]
    return found


def section(title: str) -> str:
    """The text below a heading, up to the next one."""
    return re.split(r"^#+ ", TEXT.split(f"# {title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def table(title: str) -> list[list[str]]:
    """The rows of the first table of a section, without its head."""
    lines = section(title).strip().splitlines()
    rows = [line for line in lines if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


class Frame:
    """Stands for a session, a frame, a reader or writer: notes options, columns and the end."""

    def __init__(self, ends: list[Frame] | None = None, columns: tuple[str, ...] = ()) -> None:
        self.ends: list[Frame] = [] if ends is None else ends
        self.columns = columns
        self.given: dict[str, str] = {}
        self.kind = ""

    @property
    def read(self) -> Frame:
        return Frame(self.ends)

    readStream = read  # noqa: N815 - Spark's

    @property
    def write(self) -> Frame:
        return Frame(self.ends, self.columns)

    writeStream = write  # noqa: N815 - Spark's

    def createDataFrame(self, _rows: Any, _schema: str) -> Frame:
        return Frame(self.ends)

    def format(self, kind: str) -> Frame:
        self.kind = kind
        return self

    def option(self, name: str, value: str) -> Frame:
        return self.options(**{name: value})

    def options(self, **options: str) -> Frame:
        self.given |= options
        return self

    def mode(self, how: str) -> Frame:
        assert how == "append"
        return self

    def where(self, _condition: str) -> Frame:
        return self

    def select(self, *names: str) -> Frame:
        return Frame(self.ends, names)

    def selectExpr(self, *texts: str) -> Frame:
        return Frame(self.ends, tuple(text.rpartition(" AS ")[2] for text in texts))

    def start(self) -> Frame:
        self.ends.append(self)
        return self

    def load(self, path: str | None = None) -> Frame:
        return (self if path is None else self.option("path", path)).start()

    save = load


def test_the_writes_of_the_formats_have_options_and_columns_that_are_known() -> None:
    spark = Frame()
    exec(compile(block("createDataFrame"), "formats.py", "exec"), {"spark": spark})
    batch, source, stream = spark.ends
    assert {end.kind for end in spark.ends} == {"jms"}
    assert read_options(source.given, "stream").destination == "orders"
    for end, exactly in ((batch, "ids"), (stream, "epoch")):
        options = read_options(end.given, "sink")
        assert options.exactly_once == exactly
        columns = StructType()
        for name in end.columns:
            columns.add(name, "string")
        check_columns(columns, options.id_column, routed=True)


def test_the_journal_is_read_with_known_options() -> None:
    spark = Frame()
    exec(compile(block("jms-journal"), "records.py", "exec"), {"spark": spark})
    (end,) = spark.ends
    assert journal.read_options(end.given).view == "records"


def test_the_tables_of_options_name_all_of_them_and_no_other() -> None:
    rows = table("Options of `jms`")
    named = {name: row[1] for row in rows for name in CODE.findall(row[0])}
    for name in ("load", "save"):
        del named[name]
    known = {o.spelling: o.users for o in OPTIONS.values()}
    for name in ("path", "checkpointLocation", BODY_SCHEMA):  # other words, Spark's, pipelines'
        del known[name]
    assert named == known
    rows = table("Options of `jms-journal`")
    journals = {name: row[1] for row in rows for name in CODE.findall(row[0])}
    del journals["load"]
    assert journals == {o.spelling: o.users for o in JOURNAL_OPTIONS.values()}


def test_every_option_has_tests() -> None:
    page = (DOCS / "specification" / "spark-pipeline.md").read_text(encoding="utf-8")
    rows = [
        row.split("|")[1:3]
        for row in page.split("### 3.8 ")[1].split("\n## ")[0].splitlines()[4:]
        if row
    ]
    named = {option for options, _ in rows for option in CODE.findall(options)}
    known = {option.spelling for option in (*OPTIONS.values(), *JOURNAL_OPTIONS.values())}
    assert named == known - {"checkpointLocation", BODY_SCHEMA}
    tests = "\n".join(
        file.read_text(encoding="utf-8") for file in TESTS.glob("*/spark/**/test_*.py")
    )
    missing = [
        name for _, names in rows for name in CODE.findall(names) if f"def {name}(" not in tests
    ]
    assert missing == []


def test_the_pipeline_is_one() -> None:
    module = types.ModuleType("flights")
    exec(compile(block("@jms_pipeline"), "flights.py", "exec"), vars(module))
    (pipeline,) = find_pipelines(module)
    assert (pipeline.name, pipeline.sink) == ("delays", "flights.delays")


def test_the_pipeline_of_sql_is_one(tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "application.yaml").write_text(text)
    (pipeline,) = collect_pipelines(load_settings(tmp_path / "application.yaml"))
    assert (pipeline.name, pipeline.sink) == ("late", "flights.late")


def test_the_settings_of_spark_are_those_that_are_set() -> None:
    (line,) = [part for part in section("Operation").split("\n- **") if part.startswith("Settings")]
    said = dict(re.findall(r"`(spark\.[\w.]+)`\s(\w+)", line))
    ours = {**DEFAULT_CONF, **RUNNER_CONF}
    store = "spark.sql.streaming.stateStore.providerClass"
    assert said.pop(store) in ours.pop(store)
    assert said == ours


def test_the_parts_of_a_checkpoint_are_those_that_may_not_change() -> None:
    may_not = " ".join(row[1] for row in table("Operation"))
    pipeline = Pipeline(name="a", sql="SELECT 1", source="in", sink="out", exactly_once="ids")
    parts = checkpoint_parts(pipeline, [])
    assert [part for part in parts if part not in may_not] == []
    may = set(CODE.findall(table("Operation")[0][0])) - {"sql", "partitions"}
    assert may.isdisjoint(parts)


def test_the_listener_is_one() -> None:
    class Streams:
        def addListener(self, listener: object) -> None:
            assert isinstance(listener, StreamingQueryListener)

    spark = types.SimpleNamespace(streams=Streams())
    exec(compile(block("JmsQueryListener"), "listener.py", "exec"), {"spark": spark})


def test_every_python_block_is_run_here() -> None:
    assert len(BLOCKS) == 5  # tests/integration/spark/test_cluster.py has the fifth
