"""The Spark session of an app or job."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from spark_apps.settings import AppSettings
from state.errors import ConfigurationError

ARCHIVE = "spark-classes.jsa"
"""What `spark_apps.class_archive` makes in the folder of jars."""

INTERPRETER = "storekeeper-python"
"""What starts Spark's Python processes: see `spark_apps.early_worker`."""

_JVM_END_S = 15.0
_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"
_STATE_STORE = "spark.sql.streaming.stateStore"
_SHUFFLE_PARTITIONS = 4
"""Of batch jobs; a topology names its own numbers."""


def start_session(name: str, settings: AppSettings) -> SparkSession:
    """Starts a JVM and a session for the app or job `name`. End it with `stop_session`.

    Raises:
        ConfigurationError: the connector jars are not there.
    """
    jars = sorted((settings.jars_dir / "spark").glob("*.jar"))
    if not jars:
        msg = f"there are no Spark jars in {settings.jars_dir / 'spark'}: run `storekeeper jars`"
        raise ConfigurationError(msg)
    scratch = settings.scratch_dir(name)
    # A killed driver leaves its temporary files behind; the lease says that no other uses them.
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    # PySpark takes the interpreter of its workers from here alone, and the default is whatever python3 is on the PATH.
    os.environ["PYSPARK_PYTHON"] = str(_interpreter())  # noqa: TID251 (written for PySpark, not read)
    builder = SparkSession.builder.appName(name).master(settings.spark_master)
    options = session_options(settings, scratch)
    if settings.spark_master == "local" or settings.spark_master.startswith("local["):
        options |= local_options(jars)
    else:
        options["spark.jars"] = ",".join(map(str, jars))
    for key, value in options.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _interpreter() -> Path:
    """`storekeeper-python`, which executors find at the same place.

    Raises:
        ConfigurationError: it isn't there.
    """
    interpreter = Path(sysconfig.get_path("scripts")) / INTERPRETER
    if not interpreter.exists():
        msg = f"there is no {interpreter}: run `make setup`, or install storekeeper with pip again"
        raise ConfigurationError(msg)
    return interpreter


def session_options(settings: AppSettings, scratch: Path) -> dict[str, str]:
    """The configuration of every session, as Spark's own keys."""
    return {
        "spark.driver.memory": settings.driver_memory,
        # A standalone master gives the first app every core there is, and the next one none, unless it is told.
        "spark.cores.max": str(settings.max_cores),
        "spark.executor.memory": settings.executor_memory,
        "spark.driver.host": settings.driver_host,
        "spark.driver.bindAddress": settings.driver_host,
        "spark.driver.extraJavaOptions": f"{_java_options(settings, scratch)} {settings.driver_java_options}",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.log.level": settings.spark_log_level,
        "spark.hadoop.fs.permissions.umask-mode": _umask(settings),
        "spark.ui.enabled": str(settings.spark_ui_port > 0).lower(),
        "spark.ui.port": str(settings.spark_ui_port),
        "spark.ui.showConsoleProgress": "false",
        "spark.python.daemon.module": "spark_apps.worker_daemon",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(_SHUFFLE_PARTITIONS),
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(settings.arrow_batch_rows),
        "spark.sql.execution.arrow.maxBytesPerBatch": str(settings.arrow_batch_bytes),
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "20",
        f"{_STATE_STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        f"{_STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.databricks.delta.snapshotPartitions": "1",
    }


def _umask(settings: AppSettings) -> str:
    """What others may not do with new files. Hadoop sets modes by itself, whatever the tables' folder says."""
    tables = settings.delta_table("")
    return "027" if tables.is_dir() and tables.stat().st_mode & 0o040 else "077"


def _java_options(settings: AppSettings, scratch: Path) -> str:
    options = f"-Djava.io.tmpdir={scratch} -XX:-UsePerfData"
    archive = settings.jars_dir / ARCHIVE
    if not archive.exists():
        return options
    # The JVM goes on without an archive that isn't of its class path, and would say so where programs read answers.
    return f'{options} "-XX:SharedArchiveFile={archive}" -Xlog:disable -Xlog:all=error:stderr'


def local_options(jars: list[Path]) -> dict[str, str]:
    """What a JVM that runs all of its tasks itself starts and writes files faster with.

    It has the jars on its class path, where the archive of classes knows them, and copies none. It writes files without
    starting a process for each: without Hadoop's native library, Spark's local files get their permissions from
    `chmod`, and links are looked for by `readlink`, a hundred processes for a small batch. A cluster's executors don't
    have those classes from the start.

    Raises:
        ConfigurationError: a jar is not there.
    """
    if not any(jar.name.startswith("hadoop-bare-naked-local-fs-") for jar in jars):
        msg = f"{jars[0].parent} has no hadoop-bare-naked-local-fs: run `make setup`"
        raise ConfigurationError(msg)
    return {
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
        # The default goes past that class, by another of Hadoop's ways to files.
        "spark.sql.streaming.checkpointFileManagerClass": f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager",
    }


def jvm_pid(spark: SparkSession) -> int | None:
    """The driver's JVM, or None if this process didn't start it."""
    process = _jvm_process(spark)
    return None if process is None else process.pid


def stop_session(spark: SparkSession, *, patience_s: float = _JVM_END_S) -> None:
    """Stops the session and waits until its JVM is gone; kills it after that long. A later one gets another JVM."""
    gateway, process = spark.sparkContext._gateway, _jvm_process(spark)  # noqa: SLF001 (PySpark has no public way)
    # The JVM may be dead already, which makes every call to it fail in its own way.
    with contextlib.suppress(Exception):
        spark.stop()
    with contextlib.suppress(Exception):
        gateway.shutdown()
    # PySpark would talk to the JVM that is gone for as long as the process lives.
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    if process is None:
        return
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()  # the JVM ends when it can't read this any more
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _jvm_process(spark: SparkSession) -> subprocess.Popen[bytes] | None:
    gateway = spark.sparkContext._gateway  # noqa: SLF001 (PySpark has no public way)
    return getattr(gateway, "proc", None)
