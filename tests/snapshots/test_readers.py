"""Tables and histories as other programs read them: the same rows of the same version, of every type and kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from storekeeper.clock import DAY_MS
from storekeeper.schemas.sql_types import PLAIN_TYPES
from storekeeper.serdes.keys.versions import version_row_key
from storekeeper.serdes.value_field import ValueField
from storekeeper.snapshots.as_of import HISTORY
from storekeeper.snapshots.duck import Scan
from storekeeper.snapshots.history_upkeep import HistoryUpkeep
from storekeeper.snapshots.sql import query
from storekeeper.stores.store_definitions import ServedKind
from storekeeper.stores.versioned import DELETED_VERSION, version_of
from tests.snapshot_tables import sealed_at
from tests.snapshots.played_log import STORE, PlayedLog, PlayedStore
from tests.snapshots.test_history import BEGIN_MS, write
from tests.snapshots.test_played_histories import ROW_KEYS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONTENTS = {
    "string": ('"ale"', '"Bräu 日本 🙂\\u0000\\n"', '""'),
    "binary": ('"ale"', '"Bräu\\u0000"', '""'),
    "boolean": ("true", "false", "true"),
    "tinyint": ("1", "-128", "127"),
    "smallint": ("1", "-32768", "32767"),
    "int": ("1", "-2147483648", "2147483647"),
    "bigint": ("1", "-9223372036854775808", "9223372036854775807"),
    "float": ("0.1", "-3.4028234663852886e38", "1e-45"),
    "double": ("0.1", "-1.7976931348623157e308", "1e999"),
    "date": ('"2026-01-01"', '"0001-01-01"', '"9999-12-31"'),
    "timestamp": ("1767268800000", '"0001-01-01T00:00:00Z"', '"9999-12-31T23:59:59.999999Z"'),
    "decimal(2,1)": ("1.5", "-9.9", "9.9"),
    "decimal(18,4)": ("1.5", "-99999999999999.9999", "0.0001"),
    "decimal(38,0)": ("1", f"-{'9' * 38}", "9" * 38),
    "decimal(38,38)": ("0.5", f"-0.{'9' * 38}", f"0.{'0' * 37}1"),
}
"""JSON of three values of each type: one of every day, and those at its ends."""
NESTED = ('{"lines":[{"price":1.50,"to":null}]}', '[[],{"a":{}}]', "[1.5]")
"""Objects and lists become text."""
ORDER = [("_partition", "ascending"), ("_offset", "ascending")]
VIEWS = {pa.large_string(): pa.string(), pa.string_view(): pa.string(), pa.large_binary(): pa.binary()}


def fields_of(*types: str) -> tuple[ValueField, ...]:
    return tuple(ValueField(re.sub(r"\W+", "-", f"of {kind}").strip("-"), kind, nullable=True) for kind in types)


FIELDS = (*fields_of(*CONTENTS), ValueField("nested", "string", nullable=True))


def json_of(texts: Iterable[str]) -> str:
    """A value with a JSON text for each field."""
    return "{" + ",".join(f'"{field.name}":{text}' for field, text in zip(FIELDS, texts, strict=True)) + "}"


VALUES = [json_of(texts) for texts in zip(*CONTENTS.values(), NESTED, strict=True)]
OF_OLD = '{"of-date":"1582-10-10","of-timestamp":"1582-10-10T12:00:00.000001Z","of-double":-0.0,"nested":{"a":[]}}'
NO_FIELDS = ("{}", json_of(["null"] * len(FIELDS)), '{"of-boolean":7,"of-date":"no","of-timestamp":1767268800000000}')


def test_every_type_that_a_column_can_have_is_in_the_comparison() -> None:
    assert {*PLAIN_TYPES} == {kind for kind in CONTENTS if not kind.startswith("decimal")}


def versioned(word: str) -> bytes:
    return version_of(word.encode()) if word else DELETED_VERSION


KEYS: dict[ServedKind, Callable[[str], bytes]] = {
    **ROW_KEYS,
    ServedKind.VERSIONED: lambda name: version_row_key(name[:1].encode(), int(name[1:])),
}


def live(root: Path, kind: ServedKind) -> None:
    """Makes a store's tables, with versions before and after deletions, upkeep, and a change of its columns."""
    score = "of-bigint" if kind is ServedKind.RANKED else None
    value = versioned if kind is ServedKind.VERSIONED else str.encode
    log = PlayedLog("log-1", row_key=KEYS[kind], row_value=value)
    store = replace(STORE, kind=kind, score_field=score, value_fields=FIELDS[:-1])
    played = PlayedStore(root, log, store, now_ms=BEGIN_MS, tombstones_ms=99 * DAY_MS)
    write(played, {}, {"a0": VALUES[0], "b0": VALUES[1], "c0": VALUES[2]}, days=1)
    write(played, {"a0": None, "b1": OF_OLD, **{f"c{at}": word for at, word in enumerate(NO_FIELDS, 1)}}, days=1)
    upkeep = HistoryUpkeep(sealed_at(played.entry(HISTORY).path), "words", played.now_ms + 9 * DAY_MS)
    assert upkeep.run(kept_ms=DAY_MS, versions_ms=DAY_MS)
    played.store = replace(store, value_fields=FIELDS)
    write(played, {"a1": "" if kind is ServedKind.VERSIONED else VALUES[1], "b0": VALUES[2]}, days=1)
    assert played.flaws() == []


def same(read: pa.Table, schema: pa.Schema) -> list[dict[str, Any]]:
    """The rows in the order of their places. Their columns are of the types that deltalake reads."""
    assert [VIEWS.get(kind, kind) for kind in read.schema.types] == schema.types
    return read.cast(schema).sort_by(ORDER).to_pylist()


def read_by_all(path: Path, version: int, spark: SparkSession) -> Iterator[list[dict[str, Any]]]:
    table = DeltaTable(path, version=version)
    expected = table.to_pyarrow_table()
    schema, columns = expected.schema.remove_metadata(), expected.column_names
    yield same(expected, schema)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield same(connection.from_arrow(pa.table(Scan(table))).to_arrow_table(), schema)
    yield same(pl.scan_delta(path, version=version).select(columns).collect().to_arrow(), schema)
    frame = spark.read.format("delta").option("versionAsOf", version).load(str(path))
    assert frame.columns == columns
    yield same(frame.toArrow(), schema)
    rows = query(path.parent, f"FROM {path.name}", at_version={path.name: version}).dicts()
    yield sorted(rows, key=lambda row: (row["_partition"], row["_offset"]))


@pytest.mark.spark
@pytest.mark.parametrize("kind", KEYS)
def test_spark_duckdb_polars_and_deltalake_read_the_same_rows_of_the_same_version(
    tmp_path: Path, kind: ServedKind, spark_session: SparkSession
) -> None:
    live(tmp_path, kind)
    for suffix, least in (("", 4), (HISTORY, 8)):
        path = tmp_path / f"words{suffix}"
        newest = DeltaTable(path).version()
        for version in (newest, 1, 0) if kind is ServedKind.KEY_VALUE else (newest,):
            first, *others = read_by_all(path, version, spark_session)
            assert others == [first] * 4
            assert version < newest or len(first) >= least
