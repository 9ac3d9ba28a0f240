"""An archive of Spark's loaded classes (class data sharing): with it a session starts in half the time.

`storekeeper jars` makes it; `make setup` runs this module. The JVM uses it only with the same class
path, files and JVM that it was made with; otherwise, or without it, sessions start as usual, without a message.
It is for masters that run their tasks in the driver (see `start_session`).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from pyspark.sql import SparkSession

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spark_properties import DEFAULT_JAVA_OPTIONS, JAVA_OPTIONS
from storekeeper.engine.parcels import outcome_parcel
from storekeeper.engine.runtime.session import ARCHIVE, start_session, stop_spark
from storekeeper.engine.shuffle import shuffle_files_deleted, shuffled

_DUMP_S = 300.0


def make_archive(settings: AppSettings) -> Path:
    """Makes the archive, replacing an existing one, and returns its path.

    Raises:
        ConfigurationError: the jars are not there.
        OSError: the archive could not be made or written.
    """
    path = settings.jars_dir / ARCHIVE
    path.unlink(missing_ok=True)
    with TemporaryDirectory(dir=settings.jars_dir, prefix="classes-") as folder:
        draft = Path(folder) / ARCHIVE
        dump = f'"-XX:ArchiveClassesAtExit={draft}" -Xlog:disable -Xlog:all=error:stderr'
        options = {JAVA_OPTIONS: f"{settings.spark.get(JAVA_OPTIONS, DEFAULT_JAVA_OPTIONS)} {dump}"}
        local = settings.model_copy(update={"run_dir": Path(folder), "durable_uri": None, "spark_master": "local[2]"})
        spark = start_session("class-archive", local.with_spark(options))
        try:
            load_classes(spark, Path(folder))
        finally:
            stop_spark(spark.sparkContext, patience_s=_DUMP_S)
        shutil.move(draft, path)
    return path


def load_classes(spark: SparkSession, folder: Path) -> None:
    """Runs a little of everything that apps and jobs do, without a broker, to load the classes."""
    table, rows = str(folder / "table"), str(folder / "rows")
    spark.range(100).selectExpr("id % 7 AS key", "id AS value").write.parquet(rows)
    spark.read.parquet(rows).write.format("delta").save(table)
    spark.read.format("delta").load(table).groupBy("key").count().collect()
    numbers = spark.read.parquet(rows)
    numbers.mapInArrow(_same, numbers.schema).collect()
    gathered = shuffled(spark.sparkContext.parallelize([outcome_parcel(b"done")], 2), 2)
    with shuffle_files_deleted(gathered):
        gathered.collect()


def _same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


if __name__ == "__main__":
    make_archive(AppSettings())
