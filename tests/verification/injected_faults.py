"""The ways in which a copy of a store comes to be wrong, or only looks as if it were."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from deltalake import CommitProperties, DeltaTable, write_deltalake

from storekeeper.changelog.log_record import LogRecord
from storekeeper.changelog.partitioner import partition_for
from storekeeper.snapshots.columns import PLACE_COLUMNS, StoreValues
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.snapshots.seal import SealedTable
from storekeeper.snapshots.table_upkeep import HOUR_MS, keep_up
from storekeeper.stores.rocksdb import open_rocksdb
from storekeeper.stores.rocksdb_sealed import open_sealed
from storekeeper.stores.row import ReplicaRow
from tests.snapshot_tables import Row, arrow_rows, manifest_of
from tests.snapshots.attacks import (
    BEHIND_THE_ROWS,
    commit_lost,
    deleted,
    edited,
    file_cut,
    file_lost,
    inserted,
    log_cut,
    log_lost,
    manifest_field,
    overwritten,
    updated,
    with_a_copied_manifest,
    without_data_change,
)
from tests.verification.injected_world import LAST_BATCH, PARTITIONS, REWARDS, World, headers_of, value_of

Draw = random.Random
Change = Callable[[World, Draw], object]


def _of_table(attack: Callable[[Path], object]) -> Change:
    return lambda world, _: attack(world.table)


def any_file(folder: Path, draw: Draw) -> Path:
    """A random file of a folder."""
    return draw.choice(sorted(file for file in folder.rglob("*") if file.is_file()))


def flip(file: Path, draw: Draw) -> None:
    """Flips a random bit."""
    content = bytearray(file.read_bytes())
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    file.write_bytes(content)


def _forged(world: World, draw: Draw) -> None:
    """Rows and a manifest that fit each other, as somebody writes who knows how."""
    rows = [
        Row(*row.values()) for row in DeltaTable(world.table).to_pyarrow_table(columns=[*PLACE_COLUMNS]).to_pylist()
    ]
    manifest: SnapshotManifest = (world.sealed.read() or _none()).manifest or _none()
    place = draw.randrange(len(rows))
    rows[place] = rows[place]._replace(value=value_of(place, 999_999))
    forged = replace(manifest, digests=manifest_of(rows).digests)
    values = StoreValues(REWARDS.value_fields)
    write_deltalake(
        world.table,
        arrow_rows(rows, values.columns_of(forged), values),
        mode="overwrite",
        commit_properties=CommitProperties(custom_metadata={"userMetadata": forged.to_json()}),
    )


def _resealed(change: Change) -> Change:
    """A change by somebody who can write seals, too."""

    def attack(world: World, draw: Draw) -> None:
        change(world, draw)
        world.sealed.sealed()

    return attack


def lost(sealed: SealedTable) -> None:
    """Removes a table with its seal."""
    shutil.rmtree(str(sealed.path))
    sealed.file.unlink(missing_ok=True)


def _older_seal(world: World, _: Draw) -> None:
    older = replace(world.sealed.read() or _none(), version=0)
    world.seal.write_bytes(replace(older, files=dict([*older.files.items()][:2])).to_json())


def _none() -> Any:
    raise AssertionError


def _of_node(change: Callable[[dict[bytes, ReplicaRow], bytes, bytes], object]) -> Change:
    """A change of the node's rows, by two of its keys."""

    def attack(world: World, draw: Draw) -> None:
        rows = draw.choice(world.node)
        change(rows, *draw.sample(sorted(rows), 2))

    return attack


def _swap(rows: dict[bytes, ReplicaRow], one: bytes, other: bytes) -> None:
    rows[one], rows[other] = rows[other], rows[one]


def _set(**changes: Any) -> Callable[[dict[bytes, ReplicaRow], bytes, bytes], object]:
    return lambda rows, key, _: rows.update({key: replace(rows[key], **changes)})


def _of_local(change: Callable[[Any, bytes, bytes], object], opened: Callable[..., Any] = open_sealed) -> Change:
    """A change of a task's rows by another program: a key, and its value."""

    def attack(world: World, draw: Draw) -> None:
        store = opened(world.folder(draw.randrange(PARTITIONS)), "rewards")
        with store.scan(None, None) as rows:
            key, value = draw.choice(list(rows))
        change(store, key, value)
        store.close()

    return attack


def _of_log(change: Callable[[list[LogRecord], int], object]) -> Change:
    """A change of the changelog, at the newest record of a key that has a row in all copies."""

    def attack(world: World, draw: Draw) -> None:
        partition = draw.randrange(PARTITIONS)
        settled = world.newest(partition, world.end(partition) - 80)
        newest = world.newest(partition, world.end(partition))
        offset = draw.choice(sorted(one.offset for key, one in settled.items() if newest.get(key) == one))
        records = world.log[partition]
        change(records, next(place for place, record in enumerate(records) if record.offset == offset))

    return attack


def _replaced(**changes: Any) -> Callable[[list[LogRecord], int], object]:
    return lambda records, place: records.__setitem__(place, records[place]._replace(**changes))


_NONE_HERE = ("a comment", "OPTIMIZE")
"""This table has other columns, and one file."""
_BEHIND = {name: attack for name, attack in BEHIND_THE_ROWS.items() if name not in _NONE_HERE}

FAULTS: dict[str, tuple[Change, str]] = {
    **{name: (_of_table(attack), "table rewards") for name, attack in _BEHIND.items()},
    "a typed column edited": (_of_table(edited("InvoiceCount", 99)), "table rewards"),
    "an amount edited": (_of_table(edited("TotalLoyaltyPoints", Decimal("9.0000"))), "table rewards"),
    "a key edited": (_of_table(edited("_key", b"mallory")), "table rewards"),
    "a value edited": (_of_table(edited("_value", b"{}")), "table rewards"),
    "an offset edited": (_of_table(edited("_offset", 10**12)), "table rewards"),
    "a time edited": (_of_table(edited("_timestamp_ms", 1)), "table rewards"),
    "a partition edited": (_of_table(edited("_partition", 1)), "table rewards"),
    "UPDATE": (_of_table(updated("InvoiceCount", "InvoiceCount + 1")), "table rewards"),
    "DELETE": (_of_table(deleted("_partition = 1")), "table rewards"),
    "INSERT": (_of_table(inserted), "table rewards"),
    "overwrite": (_of_table(overwritten), "table rewards"),
    "a copied manifest": (_of_table(with_a_copied_manifest), "table rewards"),
    "a removal without data change": (_of_table(without_data_change), "table rewards"),
    "an empty commit": (_of_table(log_cut(0)), "table rewards"),
    "a torn commit": (_of_table(log_cut(0.5)), "table rewards"),
    "a lost commit": (_of_table(commit_lost), "table rewards"),
    "a lost log": (_of_table(log_lost), "table rewards"),
    "a lost file": (_of_table(file_lost), "table rewards"),
    "a cut file": (_of_table(file_cut), "table rewards"),
    "a lost table and its seal": (lambda world, _: lost(world.sealed), "table rewards is gone"),
    "a lost table": (lambda world, _: shutil.rmtree(world.table), "table rewards is gone"),
    "a flipped bit in any file": (lambda world, draw: flip(any_file(world.table, draw), draw), "table rewards"),
    "any file lost": (lambda world, draw: any_file(world.table, draw).unlink(), "table rewards"),
    "rows and manifest forged": (_forged, "table rewards"),
    "rows, manifest and seal forged": (_resealed(_forged), "snapshot 3, partition"),
    "a typed column edited and sealed": (_resealed(_of_table(edited("InvoiceCount", 99))), "column InvoiceCount"),
    "rows deleted and sealed": (_resealed(_of_table(deleted("_partition = 1"))), "table rewards, version"),
    "a forged manifest, sealed": (
        _resealed(_of_table(manifest_field("batch_ms", lambda _: 10**14))), "a time that has not come",
    ),
    "a lost seal": (lambda world, _: world.seal.unlink(), "table rewards has no seal"),
    "a flipped bit in the seal": (lambda world, draw: flip(world.seal, draw), "table rewards"),
    "a torn seal": (lambda world, _: world.seal.write_bytes(world.seal.read_bytes()[:99]), "has a damaged seal"),
    "an older seal": (_older_seal, "table rewards"),
    "a node's value": (_of_node(_set(value=b"{}")), "node a"),
    "a node's time": (_of_node(_set(timestamp_ms=1)), "node a"),
    "a node's schema version": (_of_node(_set(schema_version=77)), "node a"),
    "a node's row lost": (_of_node(lambda rows, key, _: rows.pop(key)), "node a"),
    "a node's row too much": (_of_node(lambda rows, *_: rows.update({b"mallory": ReplicaRow(1, 1, b"{}")})), "node a"),
    "a node's rows swapped": (_of_node(_swap), "node a"),
    "a node's rows lost": (_of_node(lambda rows, *_: rows.clear()), "node a"),
    "a node ahead of the changelog": (lambda world, _: setattr(world, "ahead", 9), "node a"),
    "a task's value": (_of_local(lambda store, key, value: store.write([(key, value[:-1] + b" }")])), "local store"),
    "a task's row lost": (_of_local(lambda store, key, _: store.write([(key, None)])), "local store"),
    "a task's row too much": (_of_local(lambda store, _, value: store.write([(b"mallory", value)])), "local store"),
    "a task's row without its hash": (
        _of_local(lambda store, key, value: store.write([(key, value[::-1])]), open_rocksdb), "local store",
    ),
    "a changed record": (_of_log(_replaced(value=b"{}")), "partition"),
    "a lost record": (_of_log(lambda records, place: records.pop(place)), "partition"),
    "a record of another time": (_of_log(_replaced(timestamp_ms=1)), "partition"),
    "a record of another schema version": (
        _of_log(_replaced(headers=(("schema-version", b"9"), *headers_of(3)[1:]))), "node a",
    ),
    "a foreign record": (_of_log(_replaced(headers=headers_of(3)[:1])), "records of no batch of the app"),
    "a lost end": (lambda world, _: world.log[0].__delitem__(slice(-5, None)), "it has lost records"),
}  # fmt: skip
"""By name: how a copy becomes wrong, and a part of what names it."""


def _misplaced(world: World, draw: Draw) -> None:
    """A row in a partition where nodes don't look for it, in all copies but the snapshot, which ends before."""
    partition = draw.randrange(PARTITIONS)
    key = next(key for number in range(99) if partition_for(key := b"lost-%d" % number, PARTITIONS) != partition)
    record = LogRecord(world.end(partition), 5, key, value_of(1, 1), headers_of(LAST_BATCH))
    world.log[partition].append(record)
    world.node[partition][key] = ReplicaRow(REWARDS.schema_version, 5, record.value or b"")
    world.ends[partition] += 1


FAULTS["a record in another partition"] = (_misplaced, "whose keys nodes look for in another partition")


def _compacted(world: World, draw: Draw) -> None:
    """Takes superseded records away, as many as the cleaner came to: it goes from the oldest to the newest."""
    for number, records in enumerate(world.log):
        upto = draw.randrange(len(records))
        newest = {record.key: record.offset for record in records[:upto]}
        world.log[number] = [one for one in records if one.offset >= upto or newest[one.key] == one.offset]


def _later(world: World, draw: Draw) -> None:
    world.snapshot(LAST_BATCH)
    _compacted(world, draw)


def _died(world: World, _: Draw, *, committed: bool) -> None:
    """A writer that died behind its mark, or behind its commit."""
    seal = world.sealed.read() or _none()
    if committed:
        world.snapshot(LAST_BATCH)
    world.seal.write_bytes(replace(seal, writing=True).to_json())


def _touched(world: World, draw: Draw) -> None:
    file = any_file(world.table, draw)
    os.utime(file)
    file.chmod(0o600)


def _rewritten(file: Path) -> None:
    file.write_bytes(file.read_bytes())


def _moved(world: World, _: Draw) -> None:
    """The table copied back, as from a back-up of the same moment."""
    shutil.copytree(world.table, world.run_dir / "copy")
    shutil.rmtree(world.table)
    shutil.copytree(world.run_dir / "copy", world.table)


HARMLESS: dict[str, Change] = {
    "nothing": lambda *_: None,
    "a file's times and mode": _touched,
    "a file written as it was": lambda world, draw: _rewritten(any_file(world.table, draw)),
    "a table moved away and back": _moved,
    "compaction of the changelog": _compacted,
    "another snapshot": lambda world, _: world.snapshot(LAST_BATCH),
    "a snapshot of the same batch": lambda world, _: world.snapshot(LAST_BATCH - 1),
    "a snapshot and compaction": _later,
    "maintenance": lambda world, _: keep_up(world.sealed, [], now_ms=10**14, history_ms=HOUR_MS),
    "our comment": lambda world, _: _commented(world),
    "a writer that died before its commit": lambda world, draw: _died(world, draw, committed=False),
    "a writer that died after its commit": lambda world, draw: _died(world, draw, committed=True),
}


def _commented(world: World) -> None:
    with world.sealed.writing():
        DeltaTable(world.table).alter.set_column_metadata("InvoiceCount", {"comment": "How many."})
