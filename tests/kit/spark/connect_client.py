"""A client of Spark Connect: `python -m tests.kit.spark.connect_client REMOTE URL FOLDER`.

It has no JVM. What it prints is what it has read, as JSON, a line for each of its steps.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from tests.kit.values import present


def main(remote: str, url: str, folder: str) -> None:
    spark = SparkSession.builder.remote(remote).getOrCreate()
    rows = spark.createDataFrame([("a", 7), ("b", 9)], "text string, priority int")
    rows.write.format("jms").option("url", url).mode("append").save("IN")
    read = spark.read.format("jms").option("url", url).load("IN").orderBy("text")
    print(json.dumps([[row.text, row.priority] for row in read.collect()]))
    orders = spark.readStream.format("jms").option("url", url).load("IN")
    sent = orders.selectExpr("upper(text) AS text").writeStream.format("jms")
    query = (
        sent.options(url=url, destination="OUT", exactlyOnce="epoch", checkpointLocation=folder)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    print(json.dumps([source.numInputRows for source in present(query.lastProgress).sources]))
    using = f"USING jms OPTIONS (url '{url}', destination 'OUT')"
    spark.sql(f"CREATE TEMPORARY VIEW sent {using}")
    spark.sql("INSERT INTO sent BY NAME SELECT 'C' AS text")
    print(json.dumps(sorted(row.text for row in spark.sql("SELECT text FROM sent").collect())))
    try:
        spark.read.format("jms").option("urll", url).load("IN").collect()
    except Exception as error:
        print(json.dumps("did you mean url?" in str(error)))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
