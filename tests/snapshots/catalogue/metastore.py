"""A metastore of Spark's own, and how a user's own Spark sees what is entered there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from storekeeper.apps.settings import AppSettings


def derby(folder: Path) -> dict[str, str]:
    """The properties of a metastore with Derby, which takes one process at a time."""
    return {
        "sql.catalogImplementation": "hive",
        "sql.warehouse.dir": str(folder / "warehouse"),
        "hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'metastore'};create=true",
    }


def comments(spark: SparkSession, table: str) -> dict[str, str]:
    """The comments of an entry's columns."""
    found = {item.name: item.metadata.get("comment") for item in spark.table(table).schema.fields}
    return {name: text for name, text in found.items() if text}


def spark_sql(metastore: dict[str, str], folder: Path, statement: str) -> str:
    """What the user's own Spark answers, which knows Delta and the metastore, and nothing else of ours."""
    jars = ",".join(map(str, sorted((AppSettings().jars_dir / "spark").glob("delta-*.jar"))))
    properties = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        **{f"spark.{name}": value for name, value in metastore.items()},
    }
    confs = (part for name, value in properties.items() for part in ("--conf", f"{name}={value}"))
    program = Path(pyspark.__file__).parent / "bin" / "spark-sql"
    command = [str(program), "--master", "local[1]", "--jars", jars, *confs, "-e", statement]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
