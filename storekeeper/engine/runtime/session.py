"""Spark for an app or job: its JVM and context, a session on them, and how it reaches a store of durable files."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spark_properties import (
    DEFAULT_JAVA_OPTIONS,
    JAVA_OPTIONS,
    combined,
    has_own_log_levels,
    site_properties,
)
from storekeeper.clock import Clock
from storekeeper.delta_files import is_table
from storekeeper.engine.runtime.lease import Lease, jobs_held
from storekeeper.errors import ConfigurationError, TablesUnreachableError
from storekeeper.locations import Location, unreachable

if TYPE_CHECKING:
    from delta.tables import DeltaTableBuilder

    from storekeeper.apps.spec import AppSpec

_S3 = ("s3", "s3a")
_BY_A_CLIENT = re.compile(r"org\.apache\.hadoop\.(fs\.s3a|hdfs|ipc)\.|software\.amazon\.awssdk\.services\.s3\.")
"""S3A reads a file's rows in threads of its own: their errors name Amazon's client alone."""
_NO_ANSWER = re.compile(
    r"(?:java\.net\.(?:Connect|NoRouteToHost|SocketTimeout|UnknownHost)Exception"
    r"|ConnectTimeoutException|NoHttpResponseException|SdkClientException|AWSClientIOException): ([^\n]+)"
)


def store_properties(place: Location, environment: Mapping[str, str]) -> dict[str, str]:
    """Spark's properties for a store. Credentials are not among them: Hadoop's client reads those by itself.
    `environment` has the variables that `deltalake` reads, such as `AWS_ENDPOINT_URL`.
    """
    if isinstance(place, Path) or place.uri.partition(":")[0] not in _S3:
        return {}
    properties = {"spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    if endpoint:
        # An endpoint of one's own seldom has a name for each bucket.
        properties |= {"spark.hadoop.fs.s3a.endpoint": endpoint, "spark.hadoop.fs.s3a.path.style.access": "true"}
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if region:
        properties["spark.hadoop.fs.s3a.endpoint.region"] = region
    return properties


def close_to_others(context: SparkContext, durable: Location) -> None:
    """Takes from others their rights to a folder in a store, as Spark's umask does for new files. Makes it if needed.

    `deltalake` writes files that all users of HDFS may read. The folder above them keeps others away. S3 has no such
    rights: its policies decide.

    Raises:
        ConfigurationError: others may read the folder, and this user can't change that.
        TablesUnreachableError: the store does not answer.
    """
    if isinstance(durable, Path):
        return
    hadoop: Any = context._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]  # noqa: SLF001 (no public way)
    configuration = context._jsc.hadoopConfiguration()  # noqa: SLF001 (no public way)
    with reaching_by_spark(durable):
        folder = hadoop.Path(durable.uri)
        files = folder.getFileSystem(configuration)
        files.mkdirs(folder)
        permission = files.getFileStatus(folder).getPermission()
        limited = permission.applyUMask(hadoop.permission.FsPermission.getUMask(configuration))
        if limited.equals(permission):
            return
        try:
            with reaching_by_spark(durable):
                files.setPermission(folder, limited)
        except TablesUnreachableError:
            raise
        except Exception as error:  # what py4j makes of a Java exception
            msg = f"other users may read {durable}, and this one can't change that: let its owner close it (chmod 700)"
            raise ConfigurationError(msg) from error


@contextmanager
def reaching_by_spark(tables: Location) -> Iterator[None]:
    """Turns Spark's errors of a store that does not answer into one that says so, as `storekeeper.locations.reaching`
    does.

    Raises:
        TablesUnreachableError: Spark could not reach the store of `tables`.
    """
    try:
        yield
    except Exception as error:  # Spark's own classes, or what py4j makes of a Java exception
        text = str(error)
        match = _NO_ANSWER.search(text)
        if isinstance(tables, Path) or match is None or not _BY_A_CLIENT.search(text):
            raise
        raise unreachable(tables, match[1]) from error


ARCHIVE = "spark-classes.jsa"
"""The file that `storekeeper.engine.runtime.class_archive` makes in the folder of jars."""

ARROW_BATCH_ROWS = 20_000
ARROW_BATCH_BYTES = 64 << 20
"""The most that Spark hands to Python at once: more rows no longer save time, and both sides hold them in memory."""
_DAEMON = "storekeeper.engine.worker_daemon"
_DAEMON_OF_TABLES = "storekeeper.engine.worker_daemon_of_tables"
_JVM_END_S = 15.0
_LOG_LEVELS = Path(__file__).with_name("log4j2.properties")
_SHUFFLE_PARTITIONS = 4
"""Of batch jobs; a topology names its own numbers."""


def start_for_apps(name: str, specs: Sequence[AppSpec], settings: AppSettings) -> SparkContext:
    """Starts Spark for an app, or for apps that share a driver: see `_start`. Workers of topologies load no Arrow or
    pandas.
    """
    return _start(name, settings, _DAEMON_OF_TABLES if any(spec.describe is None for spec in specs) else _DAEMON)


def start_session(name: str, settings: AppSettings) -> SparkSession:
    """Starts Spark for the job `name`, with a session on it: see `_start`."""
    return SparkSession(_start(name, settings, _DAEMON_OF_TABLES))


def _start(name: str, settings: AppSettings, daemon: str) -> SparkContext:
    """Starts a JVM and a context for an app or job. End it with `stop_spark`.

    It has no session: that takes the JVM as long as the context, and no topology needs one.

    Args:
        name: of the app or job.
        settings: its settings.
        daemon: the module of the process that Spark forks workers from.

    Raises:
        ConfigurationError: the jars are not there; Spark's own folder can't be used (`site_properties`); or
            the folder of durable files is open to others (`close_to_others`).
        TablesUnreachableError: the store of durable files does not answer.
    """
    jars = sorted((settings.jars_dir / "spark").glob("*.jar"))
    if not jars:
        raise ConfigurationError(f"there are no Spark jars in {settings.jars_dir / 'spark'}: run `storekeeper jars`")
    scratch = settings.scratch_dir(name)
    # A killed driver leaves its temporary files behind; the lease ensures that no other driver uses them.
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    site = site_properties()
    own = {**_own_options(settings, scratch, jars), "spark.python.daemon.module": daemon}
    given = {**site, **settings.spark}
    if JAVA_OPTIONS not in given:
        own[JAVA_OPTIONS] += f" {DEFAULT_JAVA_OPTIONS}"
    _set_variables({**own, **given})
    conf = SparkConf().setAppName(name).setMaster(settings.spark_master)
    context = SparkContext(conf=conf.setAll([*combined(own, settings.spark, site).items()]))
    try:
        close_to_others(context, settings.durable)
    except BaseException:
        stop_spark(context)
        raise
    return context


def session_of_batches(context: SparkContext) -> SparkSession:
    """A session of its own for batches of a table's rows.

    Their stages run as they were laid out: to adapt them takes a small batch longer.
    """
    beside = SparkSession(context).newSession()
    beside.conf.set("spark.sql.adaptive.enabled", "false")
    # Otherwise a shuffle's files, which hold records, stay until the driver's JVM collects its garbage.
    beside.conf.set("spark.sql.classic.shuffleDependency.fileCleanup.enabled", "true")
    return beside


@contextmanager
def leased_session(names: Sequence[str], settings: AppSettings, clock: Clock) -> Iterator[SparkSession]:
    """A session of a job that holds some leases: no other job with one of them runs meanwhile. It waits for the leases'
    holders; the first name is the session's, too.

    Raises:
        AppRunningError: the leftover JVM of a dead holder can't be ended.
        ConfigurationError, TablesUnreachableError: as `running_session`.
    """
    with jobs_held(names, settings, clock) as leases, running_session(names[0], settings, leases) as spark:
        yield spark


@contextmanager
def running_session(name: str, settings: AppSettings, leases: Sequence[Lease]) -> Iterator[SparkSession]:
    """A session of a job that holds these leases, which then name its JVM.

    Raises:
        ConfigurationError: the jars are not there.
        TablesUnreachableError: Spark could not reach the store of the tables while the block ran.
    """
    spark = start_session(name, settings)
    try:
        for lease in leases:
            lease.record_jvm(jvm_pid(spark.sparkContext))
        with reaching_by_spark(settings.tables):
            yield spark
    finally:
        stop_spark(spark.sparkContext)


def _own_options(settings: AppSettings, scratch: Path, jars: list[Path]) -> dict[str, str]:
    options = session_options(settings, scratch)
    for place in (settings.tables, settings.durable):
        options |= store_properties(place, os.environ)  # noqa: TID251 (variables of the store's own clients)
    return options | (local_options(jars) if settings.is_local else {"spark.jars": ",".join(map(str, jars))})


def _set_variables(properties: Mapping[str, str]) -> None:
    """Sets what PySpark and Spark take from the environment only."""
    # The default is the python3 on the PATH.
    os.environ["PYSPARK_PYTHON"] = properties.get("spark.pyspark.python", sys.executable)  # noqa: TID251
    # Otherwise the UI, which asks nobody for a password, would listen on all addresses of the machine.
    address = properties.get("spark.driver.bindAddress", properties["spark.driver.host"])
    os.environ.setdefault("SPARK_LOCAL_IP", address)  # noqa: TID251
    # Spark's scripts start a JVM only to put the driver's command line together. So it takes two thirds of the time.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")  # noqa: TID251


def session_options(settings: AppSettings, scratch: Path) -> dict[str, str]:
    """Storekeeper's configuration of every session, by Spark's own keys. Most of it can be changed by a user."""
    return {
        "spark.driver.memory": "1g",
        # Without it, a standalone master gives all cores to the first app, and none to the next.
        "spark.cores.max": "2",
        "spark.driver.host": "127.0.0.1",
        JAVA_OPTIONS: _java_options(settings, scratch),
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.hadoop.fs.permissions.umask-mode": _umask(settings),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Otherwise each function on a column asks the JVM eight times, only to note the line that called it.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(_SHUFFLE_PARTITIONS),
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_BATCH_ROWS),
        "spark.sql.execution.arrow.maxBytesPerBatch": str(ARROW_BATCH_BYTES),
        "spark.databricks.delta.snapshotPartitions": "1",
    }


def _umask(settings: AppSettings) -> str:
    """The umask of new files. Hadoop ignores the mode of a local folder of tables, so it is looked up here."""
    tables = settings.tables
    return "027" if isinstance(tables, Path) and tables.is_dir() and tables.stat().st_mode & 0o040 else "077"


def _java_options(settings: AppSettings, scratch: Path) -> str:
    options = f"-Djava.io.tmpdir={scratch} -XX:-UsePerfData"
    if not has_own_log_levels():
        options += f' "-Dlog4j2.configurationFile={_LOG_LEVELS}"'
    archive = settings.jars_dir / ARCHIVE
    if not archive.exists():
        return options
    # The JVM ignores an archive of another class path, but would log that to stdout, where programs read answers.
    return f'{options} "-XX:SharedArchiveFile={archive}" -Xlog:disable -Xlog:all=error:stderr'


def local_options(jars: list[Path]) -> dict[str, str]:
    """Options with which a JVM that runs all of its tasks itself starts and writes files faster.

    The jars are on its class path, as the archive of classes requires, and aren't copied. Files are written without
    starting processes: without Hadoop's native library, Spark sets permissions of local files by `chmod`, and looks for
    links by `readlink`, a hundred processes for a small batch. A cluster's executors don't have those classes from the
    start.

    Raises:
        ConfigurationError: a jar is not there.
    """
    if not any(jar.name.startswith("hadoop-bare-naked-local-fs-") for jar in jars):
        raise ConfigurationError(f"{jars[0].parent} has no hadoop-bare-naked-local-fs: run `make setup`")
    return {
        "spark.driver.extraClassPath": os.pathsep.join(map(str, jars)),
        "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    }


def jvm_pid(context: SparkContext) -> int | None:
    """The driver's JVM, or None if this process didn't start it."""
    process = _jvm_process(context)
    return None if process is None else process.pid


def stop_spark(context: SparkContext, *, patience_s: float = _JVM_END_S) -> None:
    """Stops Spark and waits for its JVM to end; kills it after `patience_s`. A later start gets a new JVM."""
    gateway, process = context._gateway, _jvm_process(context)  # noqa: SLF001 (PySpark has no public way)
    # The JVM may be dead already, and then every call may fail with a different error.
    with contextlib.suppress(Exception):
        context.stop()
    with contextlib.suppress(Exception):
        if gateway is not None:
            gateway.shutdown()
    # Otherwise PySpark would use the ended JVM for as long as this process lives.
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


def _jvm_process(context: SparkContext) -> subprocess.Popen[bytes] | None:
    return getattr(context._gateway, "proc", None)  # noqa: SLF001 (PySpark has no public way)


def make_table(builder: DeltaTableBuilder, path: Location) -> None:
    """Makes a table that has this location and no name, unless there is one.

    Delta commits the table, then looks its path up in the catalogue, as if it were a name. The table is there by then:
    a catalogue that doesn't answer is passed over.
    """
    if is_table(path):
        return
    try:
        builder.execute()
    except Exception:  # Spark's own classes, or what py4j makes of a Java exception
        if not is_table(path):
            raise
