"""Ways in which a snapshot's table comes to show something else than what the snapshot job wrote."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from storekeeper.snapshots.delta_log import newest_manifest

Attack = Callable[[Path], object]


def data_file(path: Path) -> Path:
    """The table's file with the most rows."""
    return max((Path(uri) for uri in DeltaTable(path).file_uris()), key=lambda file: file.stat().st_size)


def log_file(path: Path) -> Path:
    """The file of the newest commit."""
    return max((path / "_delta_log").glob("*.json"))


def edited(column: str, value: Any) -> Attack:
    """Puts a value in place of the first one of a column, inside the Parquet file; the log has the size right."""

    def attack(path: Path) -> None:
        file = data_file(path)
        before = file.stat().st_size
        table = pq.ParquetFile(file).read()
        number = table.schema.get_field_index(column)
        values = pa.array([value, *table[column].to_pylist()[1:]], table.schema.types[number])
        pq.write_table(table.set_column(number, table.schema.field(number), values), file)
        for commit in (path / "_delta_log").glob("*.json"):
            told = commit.read_text()
            if file.name in told:
                commit.write_text(told.replace(f'"size":{before}', f'"size":{file.stat().st_size}'))

    return attack


def updated(column: str, expression: str, where: str | None = None) -> Attack:
    """UPDATE by somebody's deltalake."""
    return lambda path: DeltaTable(path).update(updates={column: expression}, predicate=where)


def deleted(where: str | None) -> Attack:
    """DELETE by somebody's deltalake."""
    return lambda path: DeltaTable(path).delete(where)


def inserted(path: Path) -> None:
    """INSERT of a row that is there already, and so has a digest that would cancel out in a set of keys."""
    write_deltalake(path, pa.table(DeltaTable(path).to_pyarrow_table()).slice(0, 1), mode="append")


def overwritten(path: Path) -> None:
    """All rows replaced by themselves but the first."""
    write_deltalake(path, DeltaTable(path).to_pyarrow_table().slice(1), mode="overwrite")


def with_a_copied_manifest(path: Path) -> None:
    """An UPDATE that bears the manifest of the snapshot before it."""
    manifest = newest_manifest(path)
    assert manifest is not None
    properties = CommitProperties(custom_metadata={"userMetadata": manifest.to_json()})
    DeltaTable(path).delete("_partition = 1", commit_properties=properties)


def without_data_change(path: Path) -> None:
    """A commit that removes a file and says that it changes nothing."""
    (file, *_) = DeltaTable(path).file_uris()
    version = DeltaTable(path).version() + 1
    remove = {"remove": {"path": Path(file).name, "deletionTimestamp": 1, "dataChange": False}}
    info = {"commitInfo": {"timestamp": 1, "operation": "OPTIMIZE"}}
    (path / "_delta_log" / f"{version:020}.json").write_text(f"{json.dumps(info)}\n{json.dumps(remove)}\n")


def log_cut(share: float) -> Attack:
    """The newest commit's file cut to a share of its length."""

    def attack(path: Path) -> None:
        content = log_file(path).read_bytes()
        log_file(path).write_bytes(content[: int(len(content) * share)])

    return attack


def log_cut_at_a_line(path: Path) -> None:
    """The newest commit's file without its last line."""
    log_file(path).write_bytes(b"".join(log_file(path).read_bytes().splitlines(keepends=True)[:-1]))


def commit_lost(path: Path) -> None:
    """A compaction's commit file is gone, and one behind it is there."""
    DeltaTable(path).optimize.compact()
    DeltaTable(path).alter.set_table_properties({"delta.logRetentionDuration": "interval 90 days"})
    sorted((path / "_delta_log").glob("*.json"))[-2].unlink()


def log_lost(path: Path) -> None:
    """The whole log is gone."""
    for file in (path / "_delta_log").iterdir():
        file.unlink()


def checkpoint_ahead(path: Path) -> None:
    """A checkpoint of a version that no commit has."""
    table = DeltaTable(path)
    table.create_checkpoint()
    log = path / "_delta_log"
    ahead = table.version() + 7
    (log / f"{table.version():020}.checkpoint.parquet").rename(log / f"{ahead:020}.checkpoint.parquet")
    (log / "_last_checkpoint").write_text(json.dumps({"version": ahead, "size": 4}))


def file_lost(path: Path) -> None:
    """A Parquet file is gone."""
    data_file(path).unlink()


def file_cut(path: Path) -> None:
    """A Parquet file is cut in its middle."""
    data_file(path).write_bytes(data_file(path).read_bytes()[: data_file(path).stat().st_size // 2])


def column_added(path: Path) -> None:
    """ALTER TABLE ADD COLUMN."""
    DeltaTable(path).alter.add_columns([Field("Bonus", PrimitiveType("long"))])


def columns_rewritten(change: Callable[[pa.Table], pa.Table], *, with_manifest: bool = False) -> Attack:
    """All rows rewritten with other columns; the commit may bear a copy of the last snapshot's manifest."""

    def attack(path: Path) -> None:
        manifest = newest_manifest(path)
        assert manifest is not None
        metadata = {"userMetadata": manifest.to_json()} if with_manifest else None
        write_deltalake(
            path,
            change(DeltaTable(path).to_pyarrow_table()),
            mode="overwrite",
            schema_mode="overwrite",
            commit_properties=CommitProperties(custom_metadata=metadata),
        )

    return attack


def _smaller_type(table: pa.Table) -> pa.Table:
    return table.set_column(2, "Count", table["Count"].cast(pa.int32()))


def columns_in_the_log(path: Path) -> None:
    """A commit of metadata alone that takes a column away."""
    log = sorted((path / "_delta_log").glob("*.json"))
    metadata = next(json.loads(line) for line in log[0].read_bytes().splitlines() if b'"metaData"' in line)
    schema = json.loads(metadata["metaData"]["schemaString"])
    schema["fields"] = [column for column in schema["fields"] if column["name"] != "Word"]
    metadata["metaData"]["schemaString"] = json.dumps(schema)
    info = {"commitInfo": {"timestamp": 1, "operation": "SET TBLPROPERTIES"}}
    text = f"{json.dumps(info)}\n{json.dumps(metadata)}\n"
    (path / "_delta_log" / f"{DeltaTable(path).version() + 1:020}.json").write_text(text)


def upgraded(path: Path) -> None:
    """A commit that changes the protocol."""
    info = {"commitInfo": {"timestamp": 1, "operation": "UPGRADE PROTOCOL"}}
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 3}}
    text = f"{json.dumps(info)}\n{json.dumps(protocol)}\n"
    (path / "_delta_log" / f"{DeltaTable(path).version() + 1:020}.json").write_text(text)


ATTACKS: dict[str, Attack] = {
    "a typed column edited in the file": edited("Amount", Decimal("9999.0000")),
    "a typed column nulled in the file": edited("Count", None),
    "a null filled in the file": edited("Word", "evil"),
    "a sign edited in the file": edited("Ratio", -0.0),
    "a time edited in the file": edited("_timestamp_ms", 1),
    "an offset edited in the file": edited("_offset", 10**12),
    "a partition edited in the file": edited("_partition", 1),
    "a key edited in the file": edited("_key", b"mallory"),
    "a value edited in the file": edited("_value", b'{"Word":"evil"}'),
    "a value without a key": edited("_key", None),
    "UPDATE of one row": updated("Amount", "9999.0", "_offset = 3 AND _partition = 0"),
    "UPDATE of all rows": updated("Count", "Count + 1"),
    "DELETE of a partition": deleted("_partition = 1"),
    "DELETE of all rows": deleted(None),
    "INSERT": inserted,
    "overwrite": overwritten,
    "DELETE with a copied manifest": with_a_copied_manifest,
    "removal without data change": without_data_change,
    "the log cut to nothing": log_cut(0),
    "a torn log": log_cut(0.5),
    "a log that ends a line early": log_cut_at_a_line,
    "a lost commit": commit_lost,
    "a lost log": log_lost,
    "a checkpoint ahead of the log": checkpoint_ahead,
    "a lost file": file_lost,
    "a cut file": file_cut,
    "an added column": column_added,
    "a dropped column": columns_rewritten(lambda table: table.drop_columns(["Word"])),
    "a renamed column": columns_rewritten(lambda table: table.rename_columns({"Word": "Words"})),
    "a column of another type": columns_rewritten(_smaller_type),
    "a column of another type with a copied manifest": columns_rewritten(_smaller_type, with_manifest=True),
    "an added column with a copied manifest": columns_rewritten(
        lambda table: table.append_column("Bonus", table["Count"]), with_manifest=True
    ),
    "a column dropped in the log alone": columns_in_the_log,
    "another protocol": upgraded,
}


def in_commit(change: Callable[[dict[str, Any]], None], number: int = -1) -> Attack:
    """Every action of a commit edited in its file."""

    def attack(path: Path) -> None:
        file = sorted((path / "_delta_log").glob("*.json"))[number]
        actions = [json.loads(line) for line in file.read_text().splitlines()]
        for action in actions:
            change(action)
        file.write_text("".join(f"{json.dumps(action)}\n" for action in actions))

    return attack


def statistics(name: str, change: Callable[[Any], Any]) -> Attack:
    """A number in the statistics of the newest commit's files."""

    def in_action(action: dict[str, Any]) -> None:
        if "add" in action:
            told = json.loads(action["add"]["stats"])
            told[name] = change(told[name])
            action["add"]["stats"] = json.dumps(told)

    return in_commit(in_action)


def manifest_field(name: str, change: Callable[[Any], Any]) -> Attack:
    """A field of the newest manifest."""

    def in_action(action: dict[str, Any]) -> None:
        if "commitInfo" in action:
            manifest = json.loads(action["commitInfo"]["userMetadata"])
            manifest[name] = change(manifest[name])
            action["commitInfo"]["userMetadata"] = json.dumps(manifest)

    return in_commit(in_action)


def with_properties(properties: dict[str, str]) -> Attack:
    """ALTER TABLE SET TBLPROPERTIES."""
    return lambda path: DeltaTable(path).alter.set_table_properties(properties)


def rolled_back(path: Path) -> None:
    """The folder as an older copy has it."""
    log_file(path).unlink()


def emptied(path: Path) -> None:
    """The folder without a file."""
    for file in path.rglob("*"):
        if file.is_file():
            file.unlink()


def log_compacted(path: Path) -> None:
    """A compaction of the log, which some readers prefer, that names a file of its own."""
    action = {"add": {"path": "evil.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1}}
    name = f"{0:020}.{DeltaTable(path).version():020}.compacted.json"
    (path / "_delta_log" / name).write_text(json.dumps(action))


def kept_size(path: Path) -> None:
    """A bit of a Parquet file's first page, and the file's time put back."""
    file = data_file(path)
    before, content = file.stat(), bytearray(file.read_bytes())
    content[len(content) // 3] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


BEHIND_THE_ROWS: dict[str, Attack] = {
    "an older copy": rolled_back,
    "an emptied folder": emptied,
    "numRecords in the statistics": statistics("numRecords", lambda count: count + 1),
    "the greatest offset in the statistics": statistics("maxValues", lambda told: {**told, "_offset": 0}),
    "nulls in the statistics": statistics("nullCount", lambda told: {**told, "_offset": 100}),
    "the first commit emptied": lambda path: min((path / "_delta_log").glob("*.json")).write_bytes(b""),
    "appendOnly": with_properties({"delta.appendOnly": "true"}),
    "statistics of keys": with_properties({"delta.dataSkippingStatsColumns": "_key"}),
    "a constraint": lambda path: DeltaTable(path).alter.add_constraint({"few": "_offset < 1000"}),
    "a checkpoint": lambda path: DeltaTable(path).create_checkpoint(),
    "a compaction of the log": log_compacted,
    "a file beside the table's": lambda path: (path / "left.parquet").write_bytes(b""),
    "OPTIMIZE": lambda path: DeltaTable(path).optimize.compact(),
    "a comment": lambda path: DeltaTable(path).alter.set_column_metadata("Count", {"comment": "How many."}),
    "a bit of the same size and time": kept_size,
    "the manifest's changelog offsets": manifest_field(
        "changelog_offsets", lambda told: {partition: offset - 50 for partition, offset in told.items()}
    ),
    "the manifest's partitions": manifest_field("changelog_offsets", lambda told: {"0": told["0"]}),
    "the manifest's topic": manifest_field("changelog_topic", lambda _: "other"),
    "the manifest's source": manifest_field("source_offsets", lambda _: {"pos": {"0": 10**9}}),
    "the manifest's generation": manifest_field("generation", lambda number: number + 1),
    "the manifest's schema version": manifest_field("schema_version", lambda number: number + 1),
    "the manifest's time": manifest_field("batch_ms", lambda _: 10**14),
    "the manifest's kind": manifest_field("kind", lambda _: "window"),
    "the manifest's store": manifest_field("store", lambda _: "other"),
    "the manifest's app": manifest_field("app", lambda _: "other"),
    "the manifest's columns": manifest_field("columns", lambda _: [["Word", "string"]]),
}
"""Ways that no reading of the rows finds."""

IN_THE_LOG = ("the log cut to nothing", "a lost commit", "a lost log", "another protocol")
"""What a reading of the newest version and its manifest can't find."""
