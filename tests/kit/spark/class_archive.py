"""An archive of the classes of Spark's JVM, which later JVMs map instead of reading them from jars.

It saves each of them 5 s of processor time. `python -m tests.kit.spark.class_archive` makes it, by
a run of the tests' query, and again when Spark or Java is another one; the Makefile gives it to the
JVMs (SPARK_SUBMIT_OPTS). A JVM that it does not fit starts without it.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys

from pyjms.errors import ConfigurationException
from pyjms.spark.session import find_java
from pyjms.spark.start import link_spark_home
from tests.kit.servers.java_programs import ROOT, kept

ARCHIVE = "spark.jsa"
SOURCES = ROOT / "tests" / "kit" / "spark"


def main() -> None:
    """Make the archive in `build/java`, unless it is there; report what is missing for it."""
    found = importlib.util.find_spec("pyspark")
    if found is None:
        print("no pyspark: no archive of its classes", file=sys.stderr)
        return
    try:
        java = find_java()
    except ConfigurationException as error:
        print(f"no archive of Spark's classes: {error}", file=sys.stderr)
        return
    import pyspark

    from tests.kit.spark.runs import run_until_java_has_ended

    home = link_spark_home()  # whose path to the jars the archive contains
    stamp = f"{java.path} {java.version} {found.origin} {pyspark.__version__} {home}"
    with kept("archive", SOURCES, stamp) as (folder, is_made):
        if not is_made:
            new = folder / f"new-{ARCHIVE}"
            dump = f"-XX:ArchiveClassesAtExit={new} -Xlog:disable -Xlog:all=error:stderr"
            run_until_java_has_ended(folder / "run", {"SPARK_SUBMIT_OPTS": dump})
            new.replace(folder / ARCHIVE)
            shutil.rmtree(folder / "run")


if __name__ == "__main__":
    main()
